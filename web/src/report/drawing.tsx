// The drawing: two lifelines with the states of their queue pairs, time downwards. Only the rows in
// the window are in the document.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { attr, type End } from './data';
import { fit, route, strip, wide } from '../common/route';
import { Crossing, geometry, heights, placesOf, rowAt, top as topOf, visible, y, type Geometry } from './geometry';
import { Overview } from './overview';
import type { Arrow, Model, Row, Stretch } from './model';
import { duration, moment, t } from './texts';

interface Props {
  model: Model;
  zoom: number;
  selected: string;
  follow: boolean; // keep the last row in view
  open: boolean; // details are shown
  select(id: string): void;
  show(row: Row): void; // its details, or what it stands for
}

// The end without texts of its own, if the other end has some. Messages and packets have labels at their arrows.
function silentEnd(model: Model): End | undefined {
  const speaks = (end: End) => model.rows.some((r) => r.end === end && r.kind !== 'message' && r.kind !== 'packet');
  if (speaks('client') === speaks('server')) return undefined;
  return speaks('client') ? 'server' : 'client';
}

export function Drawing({ model, zoom, selected, follow, open, select, show }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [top, setTop] = useState(0);
  const silent = useMemo(() => silentEnd(model), [model]);
  const places = useMemo(() => placesOf(model), [model]);
  const g = geometry(size.width, heights[zoom]!, places, silent);
  const crossing = useMemo(() => new Crossing(model.arrows), [model]);
  const lanes = useMemo(() => lanesOf(model), [model]);
  const index = useMemo(() => new Map(model.rows.map((r, i) => [r.id, i])), [model]);

  useLayoutEffect(() => {
    const e = box.current!;
    const observer = new ResizeObserver(() => setSize({ width: e.clientWidth, height: e.clientHeight }));
    observer.observe(e);
    setSize({ width: e.clientWidth, height: e.clientHeight });
    return () => observer.disconnect();
  }, []);

  // The first screen begins where a queue pair first changes its state.
  const first = useRef(true);
  useLayoutEffect(() => {
    if (!first.current || size.height === 0 || model.rows.length === 0) return;
    first.current = false;
    const begin = model.rows.findIndex((r) => r.kind === 'transition');
    if (!follow && begin > 0 && !index.has(selected)) box.current!.scrollTop = topOf(g, begin);
  });

  // The selected row stays in view when it changes and when the rows change their height.
  const at = index.get(selected) ?? -1;
  useEffect(() => {
    const e = box.current!;
    if (at < 0) return;
    const height = e.clientHeight * (open && innerWidth <= 900 ? 0.4 : 1); // the details cover the rest
    if (y(g, at) < e.scrollTop + g.row || y(g, at) > e.scrollTop + height - g.row) e.scrollTop = y(g, at) - height / 2;
  }, [selected, zoom, size.height, open]);
  useEffect(() => {
    if (follow) box.current!.scrollTop = places.all * g.row;
  }, [follow, model, g.row]);

  // The keys work wherever the focus is, except where they do something else.
  const keys = (event: KeyboardEvent) => {
    const target = event.target as Element;
    if (event.defaultPrevented || target.closest('select, input, .details, .legend, .clients') || (event.key === 'Enter' && target.closest('button'))) return;
    const page = Math.max(1, Math.floor(size.height / g.row) - 2);
    const step: Record<string, number> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const by = step[event.key];
    if (event.key === 'Enter' && at >= 0) show(model.rows[at]!);
    else if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    else {
      const start = at >= 0 ? at : rowAt(g, top) + (by > 0 ? -1 : 1);
      const row = model.rows[Math.max(0, Math.min(model.rows.length - 1, start + by))];
      if (row) select(row.id);
      box.current!.focus({ preventScroll: true }); // so that Enter is not for a button
    }
    event.preventDefault();
  };

  useLayoutEffect(() => {
    document.addEventListener('keydown', keys);
    return () => document.removeEventListener('keydown', keys);
  });

  const [from, to] = visible(model, g, top, size.height);
  const [begin, height] = [topOf(g, from), topOf(g, to) + g.row - topOf(g, from) + 24];
  return (
    <div class="drawing">
      <Heads g={g} lanes={lanes} row={rowAt(g, top)} />
      <div
        class="scroll"
        ref={box}
        tabIndex={0}
        role="group"
        aria-label={t('report.drawing', { n: model.rows.length })}
        aria-describedby="selected"
        data-test="drawing"
        data-rows={model.rows.length}
        onScroll={(e) => setTop(e.currentTarget.scrollTop)}
      >
        <div class="canvas" style={{ height: `${places.all * g.row + 24}px` }}>
          {size.width > 0 && model.rows.length > 0 && (
            <svg width={size.width} height={height} style={{ top: `${begin}px` }} viewBox={`0 ${begin} ${size.width} ${height}`} aria-hidden="true">
              {model.rows.slice(from, to + 1).map((r, i) => (
                <rect key={r.id} class={r.id === selected ? 'hit selected' : 'hit'} data-hit={r.id} x={0} y={topOf(g, from + i)} width={size.width} height={g.row} onClick={() => (select(r.id), show(r))} />
              ))}
              <Ladders g={g} lanes={lanes} from={from} to={to} last={model.rows.length} />
              {places.breaks.filter((b) => b.row >= from && b.row <= to).map((b) => <Break key={b.row} {...b} g={g} />)}
              {crossing.of(from, to).map((a) => (
                <Line key={`${a.kind}${a.from}-${a.to}-${a.response}`} a={a} g={g} model={model} />
              ))}
              {model.rows.slice(from, to + 1).map((r, i) => (
                <Mark key={r.id} r={r} row={from + i} g={g} />
              ))}
            </svg>
          )}
        </div>
      </div>
      <Overview model={model} places={places} top={top} view={size.height} rowHeight={g.row} go={(to) => (box.current!.scrollTop = to)} />
    </div>
  );
}

// The names of the ends, and the states of their queue pairs at the upper edge of the window.
function Heads({ g, lanes, row }: { g: Geometry; lanes: Lane[]; row: number }) {
  if (g.width === 0) return null;
  const now = (end: End) => lanes.filter((l) => l.end === end && l.s.from <= row && row < l.s.to).map((l) => l.s);
  return (
    <div class="heads" aria-hidden="true">
      {(['client', 'server'] as const).map((end) => (
        <span key={end} class={`head ${end}`} style={g.narrow ? { [end === 'client' ? 'left' : 'right']: `${8 + (end === 'client' ? g.time : 0)}px` } : { left: `${g.x[end]}px`, transform: 'translateX(-50%)' }}>
          {t(`report.${end}`)}
          {now(end).map((s, i) => <span key={i} class="now" data-test={`now-${end}`}><svg width="8" height="14"><rect class={`state ${s.state} ${s.ordinary ? 'ordinary' : ''}`} width="5" height="14" x="1" rx="2.5" /></svg>{s.state}</span>)}
        </span>
      ))}
    </div>
  );
}

interface Lane {
  end: End;
  lane: number;
  s: Stretch;
}

/** The stretches of each end in up to three lanes, one for each queue pair. */
function lanesOf(model: Model): Lane[] {
  const lanes: Record<End, string[]> = { client: [], server: [] };
  return model.stretches.flatMap((s) => {
    let lane = lanes[s.end].indexOf(s.qpn);
    if (lane < 0) lane = lanes[s.end].push(s.qpn) - 1;
    return lane < 3 ? [{ end: s.end, lane, s }] : [];
  });
}

function Ladders({ g, lanes, from, to, last }: { g: Geometry; lanes: Lane[]; from: number; to: number; last: number }) {
  const [top, bottom] = [topOf(g, from), topOf(g, Math.min(last - 1, to)) + g.row];
  return (
    <g>
      {(['client', 'server'] as const).map((end) => (
        <line key={end} class={`life ${end}`} x1={g.x[end]} x2={g.x[end]} y1={top} y2={bottom} />
      ))}
      {lanes
        .filter(({ s }) => s.to >= from && s.from <= to)
        .map(({ end, lane, s }) => {
          const y1 = Math.max(top, y(g, s.from));
          const y2 = Math.min(bottom, s.to >= last ? bottom : y(g, s.to));
          const x = g.x[end] + (end === 'client' ? -1 : 1) * lane * 6 - 2.5;
          return <rect key={`${end}${s.qpn}${s.from}`} class={`state ${s.state} ${s.ordinary ? 'ordinary' : ''}`} x={x} width={5} y={y1} height={Math.max(0, y2 - y1)} rx={2.5} data-state={s.state} />;
        })}
    </g>
  );
}

/** A long time without rows: the lifelines are interrupted, and the time stands between them. */
function Break({ g, row, ns, packets }: { g: Geometry; row: number; ns: number; packets: number }) {
  const middle = topOf(g, row) - g.row / 2;
  const wave = Math.min(5, g.row / 5);
  return (
    <g class="break" data-test="break">
      {(['client', 'server'] as const).map((end) => (
        <g key={end}>
          <rect x={g.x[end] - 12} width="24" y={middle - wave} height={2 * wave} />
          {[-wave, wave].map((by) => <path key={by} d={`M${g.x[end] - 9} ${middle + by}q4.500 ${-wave} 9 0t9 0`} />)}
        </g>
      ))}
      {g.font > 0 && <text x={(g.x.client + g.x.server) / 2} y={middle} font-size={g.font} text-anchor="middle">{packets > 0 ? t('report.break.packets', { time: duration(ns), n: packets }) : t(packets < 0 ? 'report.break.more' : 'report.break', { time: duration(ns) })}</text>}
    </g>
  );
}

function Mark({ r, row, g }: { r: Row; row: number; g: Geometry }) {
  const middle = y(g, row);
  const x = g.x[r.end];
  const client = r.end === 'client';
  const arrow = r.kind === 'message' || r.kind === 'packet';
  if (r.fold) return <Folded r={r} g={g} middle={middle} />;
  const state = r.kind === 'transition' && attr(r.event!, 'error') === '' && g.font > 0 ? attr(r.event!, 'to') : '';
  const inner = g.narrow || (g.font > 0 && !state && r.event?.verb !== 'ibv_post_send' && wide(r.text, g.font) > g.side[r.end] - 38); // where it is too long, and no arrow runs at its height
  const beside = inner ? Math.max(state ? 32 : 0, strip(g.x.server - g.x.client) + 6) : r.kind === 'transition' ? 32 : 24; // of the text
  const room = inner ? g.x.server - g.x.client - 2 * beside : g.side[r.end] - 14 - beside;
  const outside = (inner ? 1 : -1) * (client ? 1 : -1);
  return (
    <g class={`row ${r.kind} ${r.end} ${r.failed ? 'failed' : ''}`} data-id={r.id} data-kind={r.kind} data-end={r.end}>
      {g.time > 0 && g.font > 0 && (
        <text class="time" x={g.time} y={middle} font-size={13}>
          {moment(r.at)}
        </text>
      )}
      {arrow ? (
        <circle class="dot" cx={x} cy={middle} r={g.row < 11 ? 1.5 : 3} />
      ) : (
        <>
          {state ? (
            <g class="pill">
              <rect class={`state ${state} ${r.ordinary ? 'ordinary' : ''}`} x={x - 26} y={middle - 10} width={52} height={20} rx={10} />
              <text x={x} y={middle} font-size={13} text-anchor="middle">{state}</text>
            </g>
          ) : <Glyph r={r} x={x + outside * (g.font > 0 ? 14 : 9)} y={middle} small={g.font === 0} />}
          {g.font > 0 && (
            <text class="text" x={x + outside * beside} y={middle} font-size={g.font} text-anchor={outside > 0 ? 'start' : 'end'}>
              {fit(r.text, room, g.font)}
            </text>
          )}
        </>
      )}
    </g>
  );
}

/** The line of messages over TCP that are one row. */
function Folded({ r, g, middle }: { r: Row; g: Geometry; middle: number }) {
  const [x1, x2] = [g.x.client + 10, g.x.server - 10];
  const text = g.font > 0 ? fit(`${r.fold === 'open' ? '▾' : '▸'} ${r.text}`, x2 - x1 - 40, g.font) : '';
  const half = text ? wide(text, g.font) / 2 + 12 : 0;
  return (
    <g class="row fold" data-id={r.id} data-kind="fold" data-fold={r.fold}>
      {g.time > 0 && g.font > 0 && <text class="time" x={g.time} y={middle} font-size={13}>{moment(r.at)}</text>}
      <path d={`M${x1} ${middle}H${(x1 + x2) / 2 - half}M${(x1 + x2) / 2 + half} ${middle}H${x2}`} />
      {text && <text class="text" x={(x1 + x2) / 2} y={middle} font-size={g.font} text-anchor="middle">{text}</text>}
    </g>
  );
}

/** The sign of a kind of event: each has its own form, so that colour is not needed. */
function Glyph({ r, x, y, small }: { r: Row; x: number; y: number; small: boolean }) {
  const s = small ? 1.6 : 4;
  switch (r.kind) {
    case 'transition':
      return <path class="glyph" d={`M${x} ${y - s - 0.5}l${s + 0.5} ${s + 0.5}l${-s - 0.5} ${s + 0.5}l${-s - 0.5} ${-s - 0.5}z`} />;
    case 'post':
      return <path class="glyph" d={`M${x - s} ${y - s}h${2 * s}l${-s} ${2 * s}z`} />;
    case 'completion':
      return r.failed ? <path class="glyph line" d={`M${x - s} ${y - s}l${2 * s} ${2 * s}M${x + s} ${y - s}l${-2 * s} ${2 * s}`} /> : <path class="glyph line" d={`M${x - s} ${y}l${s * 0.7} ${s * 0.8}l${s * 1.3} ${-s * 1.7}`} />;
    case 'object':
      return <rect class="glyph line" x={x - s + 0.5} y={y - s + 0.5} width={2 * s - 1} height={2 * s - 1} rx={1} />;
  }
  return <circle class="glyph line" cx={x} cy={y} r={s - 1} />;
}

function Line({ a, g, model }: { a: Arrow; g: Geometry; model: Model }) {
  const end = a.end;
  const other: End = end === 'client' ? 'server' : 'client';
  const inset = 4 * (end === 'client' ? 1 : -1);
  const under = g.narrow && a.kind === 'request' ? g.row * 0.36 : 0; // the text of the post is in the way
  // Where the time at one end is not known, the arrow does not reach that end's line.
  const known = a.from !== a.to || a.lost ? undefined : model.rows[a.from]?.end;
  const short = Math.sign(inset) * Math.min(64, 0.16 * (g.x.server - g.x.client));
  const [x1, y1, y2] = [g.x[end] + inset + (known === other ? short : 0), y(g, a.from) + under, y(g, a.to) + (a.to === a.from ? under : 0)];
  const x2 = g.x[other] - inset - (known === end ? short : 0);
  const lost = x1 + (x2 - x1) * 0.75;
  const middle = (x1 + x2) / 2;
  const { turn, angle } = route(x1, y1, x2, y2);
  const dashed = { begin: a.unseen === 'begin' || a.unseen === 'both', end: a.unseen === 'end' || a.unseen === 'both' };
  const head = (by: number) => `${x2 - 8 * Math.cos(angle + by)} ${y2 - 8 * Math.sin(angle + by)}`;
  const label = g.font > 0 && !(g.narrow && a.kind === 'request');
  const beside = strip(g.x.server - g.x.client - 8) + 6;
  const room = g.x.server - g.x.client - 8 - 2 * beside; // an open end takes none of it
  const from = model.rows[a.from];
  return (
    <g class={`arrow ${a.kind} ${a.failed ? 'failed' : ''} ${a.lost ? 'lost' : ''} ${a.unseen === 'both' ? 'inferred' : ''} ${end}`} data-arrow={a.kind} data-unseen={a.unseen} data-open={known && (known === end ? other : end)} data-from={from?.id}>
      <path class={dashed.begin ? 'dashed' : ''} d={`M${x1} ${y1}H${middle}`} />
      <path class={dashed.end && !a.lost ? 'dashed' : ''} d={a.lost ? `M${middle} ${y1}H${lost}` : `M${middle} ${y1}H${turn}L${x2} ${y2}`} />
      {a.lost ? <path class="cross" d={`M${lost - 4} ${y1 - 4}l8 8m0 -8l-8 8`} /> : <path class="tip" d={`M${head(0.4)}L${x2} ${y2}L${head(-0.4)}`} />}
      {label && (
        <text class="label" x={g.x[end] + inset + (end === 'client' ? beside : -beside)} y={y1 - g.font * 0.66} font-size={g.font} text-anchor={end === 'client' ? 'start' : 'end'}>
          {fit(a.text, room, g.font)}
        </text>
      )}
    </g>
  );
}
