// Where things are drawn, for a width and a row height.
import type { End } from './data';
import type { Arrow, Model } from './model';

/** The heights that a row can have, and with which it is written. */
export const heights = [4, 7, 11, 16, 22, 26, 36] as const;
export const usual = 5;

export interface Geometry {
  width: number;
  row: number;
  font: number; // 0: no text
  places: Places;
  narrow: boolean; // local events are written between the lifelines
  time: number; // x of the right end of the times; 0: none
  x: Record<End, number>; // of the lifelines
  side: Record<End, number>; // width of the texts beside the lifelines
}

/** Lays out a drawing. silent is the end that has no texts of its own, as the client on a server's page. */
export function geometry(width: number, row: number, places: Places, silent?: End): Geometry {
  const font = row < 16 ? 0 : row < 36 ? 13 : 14;
  const narrow = width < 620;
  const time = width < 480 ? 0 : 82;
  const wide = narrow ? 30 : Math.min(310, Math.max(118, (width - time) * (silent ? 0.4 : 0.27)));
  const of = (end: End) => (end === silent && !narrow ? 30 : wide);
  const side = { client: of('client'), server: of('server') };
  return { width, row, font, places, narrow, time, side, x: { client: time + side.client + (narrow ? 0 : 12), server: width - side.server - (narrow ? 0 : 12) } };
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

/** Where rows stand. A break, as high as a row, stands before a row that comes after a long time without one. */
export interface Places {
  of: number[]; // of each row, counted in rows
  all: number;
  breaks: { row: number; ns: number; packets: number }[]; // how many are not drawn: each capture has the same; -1: those of an earlier break
}

export function placesOf(model: Model): Places {
  const { rows, gaps } = model;
  const length = rows.at(-1)?.at ?? 0;
  const long = Math.max(length / 10, (4 * length) / rows.length);
  const breaks: Places['breaks'] = [];
  const told = new Set<Model['gaps'][number]>(); // their packets are counted at the first break
  const of = rows.map((r, row) => {
    const ns = row > 0 ? r.at - rows[row - 1]!.at : 0;
    if (ns > long) {
      const within = gaps.filter((gap) => gap.from < r.at && gap.to > r.at - ns);
      const packets = within.some((gap) => told.has(gap)) ? -1 : within.reduce((n, gap) => Math.max(n, gap.packets), 0);
      within.forEach((gap) => told.add(gap));
      breaks.push({ row, ns, packets });
    }
    return row + breaks.length;
  });
  return { of, all: rows.length + breaks.length, breaks };
}

export const top = (g: Geometry, row: number) => (g.places.of[row] ?? g.places.all) * g.row;
export const y = (g: Geometry, row: number) => top(g, row) + g.row / 2;

/** The last row that begins at or above a height, 0 if none does. */
export function rowAt(g: Geometry, height: number): number {
  let low = 0;
  let high = g.places.of.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (top(g, middle) <= height) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Returns which rows a window shows, with some more above and below. */
export function visible(model: Model, g: Geometry, scrolled: number, height: number): [number, number] {
  const last = model.rows.length - 1;
  return [Math.max(0, rowAt(g, scrolled) - 12), Math.min(last, rowAt(g, scrolled + height) + 12)];
}
