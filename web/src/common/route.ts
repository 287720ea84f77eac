// How an arrow runs between two lifelines, so that no arrow crosses a label: level from its sender, then down to its
// arrival beside the other lifeline. Labels stand above level parts, between the strips in which arrows go down.

/** The width of the strip beside a lifeline, for lifelines that are so far apart. */
export const strip = (apart: number) => Math.max(22, Math.min(56, apart * 0.1));

/** Where an arrow turns down, and the direction of its last part. */
export function route(x1: number, y1: number, x2: number, y2: number) {
  const turn = x2 - Math.sign(x2 - x1) * strip(Math.abs(x2 - x1));
  return { turn, path: `M${x1} ${y1}H${turn}L${x2} ${y2}`, angle: Math.atan2(y2 - y1, x2 - turn) };
}

const measure = document.createElement('canvas').getContext('2d');
const widths = new Map<string, number>();

/** The width of a text. */
export function wide(text: string, font: number): number {
  const key = font + text;
  let w = widths.get(key);
  if (w === undefined) {
    if (measure) measure.font = `${font}px system-ui, sans-serif`;
    w = measure?.measureText(text).width ?? text.length * font * 0.55;
    if (widths.size > 20000) widths.clear();
    widths.set(key, w);
  }
  return w;
}

// How many letters of a text fit, with others behind them.
function fitting(text: string, behind: string, width: number, font: number): number {
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (wide(text.slice(0, middle) + behind, font) <= width) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Shortens a text to a width, with an ellipsis. */
export function fit(text: string, width: number, font: number): string {
  if (wide(text, font) <= width) return text;
  const n = fitting(text, '…', width, font);
  return n > 0 ? text.slice(0, n) + '…' : '';
}

/** Breaks a text into lines of a width, at spaces or behind underscores where there are any. */
export function wrap(text: string, width: number, font: number): string[] {
  const lines: string[] = [];
  let rest = text;
  while (rest && wide(rest, font) > width) {
    const most = Math.max(1, fitting(rest, '', width, font));
    const space = rest.lastIndexOf(' ', most);
    const end = space > 0 ? space : rest.lastIndexOf('_', most - 1) + 1 || most;
    lines.push(rest.slice(0, end).trimEnd());
    rest = rest.slice(end).trimStart();
  }
  return rest ? [...lines, rest] : lines;
}
