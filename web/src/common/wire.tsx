// The wire between two hosts, drawn with time downwards: a line per host, an arrow per message, a mark
// per event. Times are in order but not to scale; a long pause is written on the line.
import { useEffect, useRef, useState } from 'preact/hooks';
import { time } from './format';
import { route, strip, wide, wrap } from './route';

export type Side = 'left' | 'right';

export interface Message {
  id: number;
  from: Side;
  sent: number; // ns
  arrives: number | null; // null if it never arrives
  order?: number; // among what happens at the same time; an action's number
  label: string;
  psn?: string; // behind the label if there is room, otherwise below it
  detail?: string; // below the label
  note?: string; // behind the detail, in another colour
  tone: 'request' | 'answer' | 'refusal' | 'talk'; // talk is not a packet of the queue pair
  fate: 'in flight' | 'delivered' | 'lost' | 'ignored';
  inferred?: boolean; // dashed: nobody saw it
  calm?: boolean; // the note is about no failure
  about: string; // the whole, for screen readers
  attributes?: Record<string, string>;
}

export interface Mark {
  key: string | number;
  side: Side;
  at: number; // ns
  order?: number;
  text: string;
  tone?: 'good' | 'bad';
}

interface Point {
  at: number;
  order: number;
  rank: number; // in the same action: arrivals, marks, departures
  message?: Message;
  end?: boolean;
  mark?: Mark;
  now?: boolean;
}

interface Placed {
  messages: { message: Message; from: number; to: number }[];
  marks: { mark: Mark; y: number; lines: string[] }[];
  times: { text: string; y: number }[];
  pauses: { ns: number; y: number }[];
  now: number | null;
  height: number;
}

const step = 27;
const noteLine = 16;
const farAway = 150; // an arrow that ends so far below its name has it at its head too
const pause = 50_000; // ns; a longer one is written
const font = 13;

interface Line {
  text: string;
  part: 'label' | 'below' | 'note';
}

// The texts of a message, in lines that fit into a room.
function linesOf({ label, psn = '', detail = '', note = '' }: Message, room: number): Line[] {
  const whole = psn ? `${label} ${psn}` : label;
  const long = wide(whole, font) > room;
  const lines = (part: Line['part'], text: string) => wrap(text, part === 'note' ? room / bolder : room, font).map((line): Line => ({ text: line, part }));
  return [...lines('label', long ? label : whole), ...lines('below', [long && psn, detail].filter(Boolean).join(' · ')), ...lines('note', note)];
}

const bolder = 1.1; // a note is in bold

/** Puts messages and marks in order and gives each its place. */
function layout(messages: Message[], marks: Mark[], now: number | null, lines: Map<Message, Line[]>, markRoom: number): Placed {
  const points: Point[] = [];
  for (const message of messages) {
    const order = message.order ?? 0;
    points.push({ at: message.sent, order, rank: 2, message });
    if (message.arrives !== null && message.arrives > message.sent) points.push({ at: message.arrives, order, rank: 0, message, end: true });
  }
  for (const mark of marks) points.push({ at: mark.at, order: mark.order ?? 0, rank: 1, mark });
  if (now !== null) points.push({ at: now, order: Infinity, rank: 3, now: true });
  // An arrival has the order of its sending, which is earlier than that of the marks it causes.
  points.sort((a, b) => a.at - b.at || a.order - b.order || a.rank - b.rank);

  const placed: Placed = { messages: [], marks: [], times: [], pauses: [], now: null, height: 0 };
  const starts = new Map<Message, number>();
  let y = 12;
  let last: number | null = null;
  let afterMark = false;
  let written: number | null = null; // the last time that is written as such
  const timeText = (at: number) => {
    if (written !== null && time(at) === time(written)) return `+${time(at - written)}`; // late in a session, microseconds do not show
    written = at;
    return at === 0 ? '0' : time(at);
  };
  for (const point of points) {
    if (last === null || point.at !== last) {
      if (last !== null && point.at - last > pause) {
        placed.pauses.push({ ns: point.at - last, y: y + step });
        y += step + 8;
      }
    }
    y += point.now ? 14 : point.mark ? 22 : afterMark && !point.end ? step + 5 : step; // a label has room below a mark's text
    afterMark = Boolean(point.mark);
    if (point.message && !point.end) y += noteLine * (lines.get(point.message)!.length - 1);
    if (point.at !== last && !point.now) placed.times.push({ text: timeText(point.at), y });
    last = point.at;
    if (point.now) placed.now = y;
    else if (point.mark) {
      const text = wrap(point.mark.text, markRoom, font);
      placed.marks.push({ mark: point.mark, y, lines: text });
      y += noteLine * (text.length - 1);
    }
    else if (point.end) placed.messages.push({ message: point.message!, from: starts.get(point.message!) ?? y - step, to: y });
    else if (point.message!.arrives === null || point.message!.arrives === point.message!.sent) placed.messages.push({ message: point.message!, from: y, to: y });
    else starts.set(point.message!, y);
  }
  placed.height = y + 28;
  return placed;
}

interface Props {
  label: string;
  messages: Message[];
  marks: Mark[];
  now: number | null;
  selected: number | null;
  onSelect(id: number): void;
}

export function Wire({ label, messages, marks, now, selected, onSelect }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(340);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(240, Math.round(entry!.contentRect.width))));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);

  const x = { left: 74, right: width - 14 };
  const beside = strip(x.right - x.left) + 6; // where texts begin
  const room = x.right - x.left - 2 * beside;
  const lines = new Map(messages.map((message) => [message, linesOf(message, room)]));
  const placed = layout(messages, marks, now, lines, room + beside - 10); // a mark may reach over the strip at the other side
  const ids = placed.messages.map((m) => m.message.id);
  const focusable = selected !== null && ids.includes(selected) ? selected : ids.at(-1);
  const onKey = (event: KeyboardEvent, id: number) => {
    const move = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (event.key !== 'Enter' && event.key !== ' ' && !move) return;
    event.preventDefault();
    event.stopPropagation();
    const sorted = [...ids].sort((a, b) => a - b);
    const to = move ? sorted[sorted.indexOf(id) + move] : id;
    if (to === undefined) return;
    onSelect(to);
    box.current?.querySelector<SVGElement>(`[data-id="${to}"]`)?.focus();
  };

  return (
    <div class="wire" ref={box}>
      <svg width={width} height={placed.height} role="group" aria-label={label}>
        <g class="lifelines">
          <line class="left" x1={x.left} x2={x.left} y1="4" y2={placed.height} />
          <line class="right" x1={x.right} x2={x.right} y1="4" y2={placed.height} />
        </g>
        <g class="times" aria-hidden="true">
          {placed.times.map(({ text, y }) => (
            <text key={y} x={x.left - 8} y={y + 4} text-anchor="end">{text}</text>
          ))}
        </g>
        {placed.pauses.map(({ ns, y }) => (
          <g class="pause" key={y} aria-hidden="true">
            <line x1={x.left - 3} x2={x.right + 3} y1={y} y2={y} />
            <text x={(x.left + x.right) / 2} y={y + 4} text-anchor="middle">{time(ns)}</text>
          </g>
        ))}
        {placed.now !== null && (
          <g class="now" aria-hidden="true">
            <line x1={x.left - 6} x2={x.right + 6} y1={placed.now} y2={placed.now} />
          </g>
        )}
        {placed.marks.map(({ mark, y, lines }) => (
          <g class={`mark ${mark.side} ${mark.tone ?? ''}`} key={`m${mark.key}`}>
            <path d={`M${x[mark.side]} ${y}h${mark.side === 'left' ? beside - 4 : 4 - beside}`} />
            <circle cx={x[mark.side]} cy={y} r="4" />
            {lines.map((line, i) => (
              <text key={i} x={mark.side === 'left' ? x.left + beside : x.right - beside} y={y + 4.5 + noteLine * i} text-anchor={mark.side === 'left' ? 'start' : 'end'}>{line} </text>
            ))}
            <title>{mark.text}</title>
          </g>
        ))}
        {placed.messages.map(({ message, from, to }) => (
          <Arrow
            key={`p${message.id}`} message={message} y1={from} y2={to} x1={x[message.from]}
            x2={x[message.from === 'left' ? 'right' : 'left']} beside={beside} lines={lines.get(message)!} selected={message.id === selected}
            focusable={message.id === focusable} onSelect={onSelect} onKey={onKey}
          />
        ))}
      </svg>
    </div>
  );
}

interface ArrowProps {
  message: Message;
  x1: number;
  y1: number;
  x2: number;
  y2: number;
  beside: number;
  lines: Line[];
  selected: boolean;
  focusable: boolean;
  onSelect(id: number): void;
  onKey(event: KeyboardEvent, id: number): void;
}

function Arrow({ message, x1, y1, x2, y2, beside, lines, selected, focusable, onSelect, onKey }: ArrowProps) {
  const lost = message.arrives === null;
  const end = lost ? x1 + (x2 - x1) * 0.75 : x2;
  const { path, angle } = route(x1, y1, x2, y2);
  const text = x1 + (x2 > x1 ? beside : -beside);
  const anchor = x2 > x1 ? 'start' : 'end';
  const talk = message.tone === 'talk';
  const parts = ['message', `from-${message.from}`, message.tone, message.fate.replace(' ', '-')];
  if (message.inferred) parts.push('inferred');
  if (message.calm) parts.push('calm');
  if (selected) parts.push('selected');
  const pressable = talk
    ? { role: 'img' as const }
    : {
        role: 'button' as const,
        tabindex: focusable ? 0 : -1,
        'aria-pressed': selected,
        onClick: () => onSelect(message.id),
        onKeyDown: (event: KeyboardEvent) => onKey(event, message.id),
      };
  return (
    <g class={parts.join(' ')} data-id={message.id} aria-label={[...lines.map((line) => line.text), message.about].join(' ')} {...pressable} {...message.attributes}>
      <title>{[[message.label, message.psn].filter(Boolean).join(' '), message.detail, message.note].filter(Boolean).join(' · ')}</title>
      <rect class="touch" x={Math.min(x1, x2)} y={y1 - 9} width={Math.abs(x2 - x1)} height="18" rx="4" />
      <path class="line" d={lost ? `M${x1} ${y1}H${end}` : path} />
      {lost
        ? <path class="cross" d={`M${end - 5} ${y1 - 5}l10 10M${end + 5} ${y1 - 5}l-10 10`} />
        : <path class="head" d="M0 0l-8 -4v8z" transform={`translate(${x2} ${y2}) rotate(${(angle * 180) / Math.PI})`} />}
      {!lost && y2 - y1 > farAway && <text class="below again" x={x2 + (x2 > x1 ? -beside : beside)} y={y2 + 4.5} text-anchor={x2 > x1 ? 'end' : 'start'}>{(x2 > x1 ? [message.label, message.psn, '→'] : ['←', message.label, message.psn]).filter(Boolean).join(' ')} </text>}
      {message.fate === 'in flight' && <circle class="dot" cx={(x1 + x2) / 2} cy={y1} r="4" />}
      {lines.map((line, i) => (
        <text key={i} class={line.part} x={text} y={y1 - 6 - noteLine * (lines.length - 1 - i)} text-anchor={anchor}>{line.text} </text>
      ))}
    </g>
  );
}
