// Where things are drawn, for a width and a row height.
import type { End } from './data';
import type { Arrow, Model } from './model';

/** The heights that a row can have, and with which it is written. */
export const heights = [4, 7, 11, 16, 22, 28, 36] as const;
export const usual = 5;

export interface Geometry {
  width: number;
  row: number;
  font: number; // 0: no text
  narrow: boolean; // local events are written between the lifelines
  time: number; // x of the right end of the times; 0: none
  x: Record<End, number>; // of the lifelines
  side: Record<End, number>; // width of the texts beside the lifelines
}

/** Lays out a drawing. silent is the end that has no texts of its own, as the client on a server's page. */
export function geometry(width: number, row: number, silent?: End): Geometry {
  const font = row < 11 ? 0 : row < 16 ? 10 : row < 28 ? 11.5 : 12.5;
  const narrow = width < 620;
  const time = narrow ? 0 : 72;
  const wide = narrow ? 18 : Math.min(310, Math.max(118, (width - time) * (silent ? 0.4 : 0.27)));
  const of = (end: End) => (end === silent && !narrow ? 30 : wide);
  const side = { client: of('client'), server: of('server') };
  return { width, row, font, narrow, time, side, x: { client: time + side.client + (narrow ? 0 : 12), server: width - side.server - 12 } };
}

/** The arrows that cross a stretch of rows, found without looking at all of them. */
export class Crossing {
  private chunks: number[][] = [];
  constructor(private arrows: Arrow[]) {
    arrows.forEach((a, i) => {
      const low = Math.min(a.from, a.to) >> 6;
      const high = Math.max(a.from, a.to) >> 6;
      for (let chunk = low; chunk <= high; chunk++) (this.chunks[chunk] ??= []).push(i);
    });
  }

  of(from: number, to: number): Arrow[] {
    const found = new Set<number>();
    for (let chunk = from >> 6; chunk <= to >> 6; chunk++) for (const i of this.chunks[chunk] ?? []) found.add(i);
    return [...found].map((i) => this.arrows[i]!).filter((a) => Math.max(a.from, a.to) >= from && Math.min(a.from, a.to) <= to);
  }
}

export const y = (g: Geometry, row: number) => (row + 0.5) * g.row;

/** Returns which rows a window shows, with some more above and below. */
export function visible(model: Model, g: Geometry, top: number, height: number): [number, number] {
  const last = model.rows.length - 1;
  const from = Math.max(0, Math.min(last, Math.floor(top / g.row)) - 12); // the window may be below a run that has become shorter
  return [from, Math.min(last, Math.ceil((top + height) / g.row) + 12)];
}
