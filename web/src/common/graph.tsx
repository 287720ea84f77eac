// PSNs over time, as a graph for each requester: what it sends, what it sends again, and what the peer answers. Time
// runs to the right; a long time without packets is shortened, and its length is written. Colours are those of the ends.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { hex, time } from './format';
import { wide } from './route';

export const dotKinds = ['request', 'again', 'probe', 'response', 'ack', 'nak', 'stray'] as const; // stray: an answer that is lost, or dropped because nothing awaits it
export type DotKind = (typeof dotKinds)[number];

/** A packet in the graph of its requester. */
export interface Dot {
  id: string;
  requester: string; // whose PSNs these are: "client qp"; a third word is the number of the connection
  at: number; // ns
  psn: number;
  kind: DotKind;
  lost: boolean; // a request that does not arrive, or that the responder drops
}

const isRequest = ({ kind }: Dot) => kind === 'request' || kind === 'again' || kind === 'probe';

interface Words {
  title(requester: string): string;
  about(requester: string, count: number, from: string, to: string): string; // for screen readers
  kind(kind: DotKind | 'lost' | 'pause'): string;
  end(end: 'client' | 'server'): string;
  empty: string;
  omitted?(time: string): string; // a break in which there were packets
}

interface Props {
  dots: Dot[]; // in the order of their times
  selected: string;
  onSelect(id: string): void;
  words: Words;
  gaps?: { from: number; to: number }[]; // times whose packets are not among the dots
}

const left = 88;
const right = 20;
const upper = 14;
const most = 150; // height of the plot
const lower = 26;

export function Graph({ dots, selected, onSelect, words, gaps = [] }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.max(280, box.current!.clientWidth));
    measure(); // before the first frame
    const observer = new ResizeObserver(measure);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const requesters = [...new Set(dots.map((d) => d.requester))].filter((r) => dots.some((d) => d.requester === r && isRequest(d)));
  const axis = timeAxis(dots.map((d) => d.at), width - left - right, (from, ns) => (gaps.some((gap) => gap.from < from + ns && gap.to > from) && words.omitted?.(time(ns))) || `+${time(ns)}`);
  const kinds = [...dotKinds.filter((kind) => dots.some((d) => d.kind === kind)), ...(dots.some((d) => d.lost) ? ['lost' as const] : [])];
  return (
    <div class="graph" ref={box} data-test="graph">
      {requesters.length === 0 && <p class="empty">{words.empty}</p>}
      {requesters.length > 0 && (
        <ul class="graph-legend">
          {kinds.map((kind) => <li key={kind}><svg width="18" height="14" aria-hidden="true"><path class={kind} d={shape(kind, 9, 7)} /></svg>{words.kind(kind)}</li>)}
          {axis.breaks.length > 0 && <li class="pause"><svg width="18" height="14" aria-hidden="true"><path d="M9 1v12" /></svg>{words.kind('pause')}</li>}
          {(['client', 'server'] as const).map((end) => <li key={end} class={end}><svg width="18" height="14" aria-hidden="true"><path class="request" d={shape('request', 9, 7)} /></svg>{words.end(end)}</li>)}
        </ul>
      )}
      {requesters.map((r) => <One key={r} dots={dots.filter((d) => d.requester === r)} {...{ axis, width, selected, onSelect, words, gaps }} requester={r} />)}
    </div>
  );
}

interface OneProps extends Props {
  requester: string;
  axis: Axis;
  width: number;
}

function One({ dots, requester, axis, width, selected, onSelect, words, gaps = [] }: OneProps) {
  const base = dots.find(isRequest)!.psn;
  const away = (psn: number) => ((psn - base + 0x800000) & 0xffffff) - 0x800000; // PSNs wrap at 24 bits
  const low = dots.reduce((n, d) => Math.min(n, away(d.psn)), 0);
  const used = dots.reduce((n, d) => Math.max(n, away(d.psn)), low);
  const plot = Math.min(most, Math.max(24, 18 * (used - low))); // a few PSNs need little room
  const height = (n: number) => upper + (used === low ? plot / 2 : plot - ((n - low) / (used - low)) * plot);
  const place = (d: Dot): [number, number] => [left + axis.x(d.at), height(away(d.psn))];
  const points = (kind: DotKind) => dots.filter((d) => d.kind === kind).map((d) => shape(kind, ...place(d))).join('');
  // A NAK acknowledges what is before its PSN.
  const acks = dots.filter((d) => ['ack', 'response', 'nak'].includes(d.kind)).map((d): [number, number, number] => [place(d)[0], height(Math.max(low, away(d.psn) - (d.kind === 'nak' ? 1 : 0))), d.at]);
  const cut = (i: number) => i === 0 || gaps.some((gap) => gap.from < acks[i]![2] && gap.to > acks[i - 1]![2]); // what is acknowledged there is not known
  const steps = acks.map(([x, y], i) => (cut(i) ? `M${x} ${y}` : `H${x}V${y}`)).join('');
  const ticks = used - low < 9 ? Array.from({ length: used - low + 1 }, (_, i) => low + i) : [0, 1, 2, 3].map((i) => low + Math.round(((used - low) * i) / 3));
  const name = (n: number) => hex((base + n) & 0xffffff);
  const chosen = dots.find((d) => d.id === selected);
  const press = (event: MouseEvent) => {
    const frame = (event.currentTarget as Element).getBoundingClientRect();
    const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
    const far = (d: Dot) => Math.hypot(place(d)[0] - px, place(d)[1] - py);
    const nearest = dots.reduce((best, d) => (far(d) < far(best) ? d : best));
    if (far(nearest) < 24) onSelect(nearest.id);
  };
  return (
    <figure class={requester.split(' ')[0]}>
      <figcaption>{words.title(requester)}</figcaption>
      <svg width={width} height={upper + plot + lower} role="img" aria-label={words.about(requester, dots.length, name(low), name(used))} onClick={press} data-test={`graph.${requester}`} data-dots={dots.length}>
        {ticks.map((n) => {
          const y = height(n);
          return <g key={n}><path class="grid" d={`M${left} ${y}H${width - right}`} /><text x={left - 12} y={y + 4.5} text-anchor="end">{name(n)}</text></g>;
        })}
        {axis.breaks.map(({ x, label }) => (
          <g key={x} class="pause"><path d={`M${left + x} ${upper - 8}V${upper + plot + 6}`} /><text x={left + x} y={upper + plot + 20} text-anchor="middle">{label}</text></g>
        ))}
        {[axis.from, axis.to].map((at, i) => <text key={i} class="edge" x={i === 0 ? left : width - right} y={upper + plot + 20} text-anchor={i === 0 ? 'start' : 'end'}>{time(at)}</text>)}
        <path class="steps" d={steps} />
        {dotKinds.map((kind) => <path key={kind} class={kind} d={points(kind)} />)}
        <path class="lost" d={dots.filter((d) => d.lost).map((d) => cross(...place(d))).join('')} />
        {chosen && <circle class="chosen" cx={place(chosen)[0]} cy={place(chosen)[1]} r="8" />}
      </svg>
    </figure>
  );
}

// A NAK is a frame: what it makes the requester send again is often at the same time and PSN, and stands in it.
function shape(kind: DotKind | 'lost', x: number, y: number): string {
  if (kind === 'lost') return cross(x, y);
  if (kind === 'response') return `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0`;
  if (kind === 'probe') return `M${x - 5} ${y}l5 -5l5 5l-5 5z`;
  return kind === 'nak' ? `M${x - 6.5} ${y - 6.5}h13v13h-13z` : `M${x},${y}h0.010`;
}

const cross = (x: number, y: number) => `M${x - 5} ${y - 5}l10 10m0 -10l-10 10`;

interface Axis {
  from: number;
  to: number;
  x(at: number): number;
  breaks: { x: number; ns: number; label: string }[]; // x in their middle
}

// Puts times on a line. A gap is at most eight times as long as the gap in the middle, and always some pixels; the
// longest that are cut are written.
function timeAxis(all: number[], width: number, label: (from: number, ns: number) => string): Axis {
  const times = [...new Set(all)].sort((a, b) => a - b);
  const gaps = times.slice(1).map((at, i) => at - times[i]!);
  const cap = 8 * ([...gaps].sort((a, b) => a - b)[gaps.length >> 1] ?? 1);
  const whole = gaps.reduce((sum, gap) => sum + Math.min(gap, cap), 0) || 1;
  const least = gaps.length > 0 ? Math.min(6, width / 2 / gaps.length) : 0;
  const places = new Map<number, number>([[times[0] ?? 0, 0]]);
  const cut: Axis['breaks'] = [];
  let x = 0;
  gaps.forEach((gap, i) => {
    const span = least + (Math.min(gap, cap) / whole) * (width - least * gaps.length);
    if (gap > cap) cut.push({ x: x + span / 2, ns: gap, label: label(times[i]!, gap) });
    x += span;
    places.set(times[i + 1]!, x);
  });
  // Labels need room, beside those of the edges: the longest gaps come first.
  const breaks: Axis['breaks'] = [];
  const [from, to] = [times[0] ?? 0, times.at(-1) ?? 0];
  const half = (text: string) => wide(text, 13) / 2 + 8;
  const clear = (b: Axis['breaks'][number]) => b.x - half(b.label) > 2 * half(time(from)) && b.x + half(b.label) < width - 2 * half(time(to)) && breaks.every((other) => Math.abs(other.x - b.x) > half(b.label) + half(other.label));
  for (const b of cut.sort((a, b) => b.ns - a.ns)) if (clear(b)) breaks.push(b);
  return { from, to, breaks, x: (at) => places.get(at) ?? 0 };
}
