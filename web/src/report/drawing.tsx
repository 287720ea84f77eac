// The drawing: two lifelines with the states of their queue pairs, time downwards. Only the rows in
// the window are in the document.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { End } from './data';
import { fit } from '../common/route';
import { Crossing, geometry, heights, visible, y, type Geometry } from './geometry';
import { Overview } from './overview';
import type { Arrow, Model, Row, Stretch } from './model';
import { duration, t } from './texts';

interface Props {
  model: Model;
  zoom: number;
  selected: string;
  follow: boolean; // keep the last row in view
  open: boolean; // details are shown
  select(id: string): void;
  show(): void;
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
  const g = geometry(size.width, heights[zoom]!, silent);
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

  // The selected row stays in view when it changes and when the rows change their height.
  const at = index.get(selected) ?? -1;
  useEffect(() => {
    const e = box.current!;
    if (at < 0) return;
    const height = e.clientHeight * (open && innerWidth <= 900 ? 0.4 : 1); // the details cover the rest
    if (y(g, at) < e.scrollTop + g.row || y(g, at) > e.scrollTop + height - g.row) e.scrollTop = y(g, at) - height / 2;
  }, [selected, zoom, size.height, open]);
  useEffect(() => {
    if (follow) box.current!.scrollTop = model.rows.length * g.row;
  }, [follow, model, g.row]);

  const keys = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(size.height / g.row) - 2);
    const step: Record<string, number> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const by = step[event.key];
    if (event.key === 'Enter' && at >= 0) show();
    else if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    else {
      const start = at >= 0 ? at : by > 0 ? Math.floor(top / g.row) - 1 : Math.floor(top / g.row) + 1;
      const row = model.rows[Math.max(0, Math.min(model.rows.length - 1, start + by))];
      if (row) select(row.id);
    }
    event.preventDefault();
  };

  const [from, to] = visible(model, g, top, size.height);
  const height = model.rows.length * g.row;
  return (
    <div class="drawing">
      <Heads g={g} />
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
        onKeyDown={keys}
      >
        <div class="canvas" style={{ height: `${height + 24}px` }}>
          {size.width > 0 && model.rows.length > 0 && (
            <svg width={size.width} height={(to - from + 1) * g.row + 24} style={{ top: `${from * g.row}px` }} viewBox={`0 ${from * g.row} ${size.width} ${(to - from + 1) * g.row + 24}`} aria-hidden="true">
              {model.rows.slice(from, to + 1).map((r, i) => (
                <rect key={r.id} class={r.id === selected ? 'hit selected' : 'hit'} data-hit={r.id} x={0} y={(from + i) * g.row} width={size.width} height={g.row} onClick={() => (select(r.id), show())} />
              ))}
              <Ladders g={g} lanes={lanes} from={from} to={to} last={model.rows.length} />
              {crossing.of(from, to).map((a) => (
                <Line key={`${a.kind}${a.from}-${a.to}-${a.response}`} a={a} g={g} model={model} />
              ))}
              {model.rows.slice(from, to + 1).map((r, i) => (
                <Mark key={r.id} r={r} row={from + i} g={g} before={model.rows[from + i - 1]} whole={model.length} />
              ))}
            </svg>
          )}
        </div>
      </div>
      <Overview model={model} top={top} view={size.height} rowHeight={g.row} go={(to) => (box.current!.scrollTop = to)} />
    </div>
  );
}

function Heads({ g }: { g: Geometry }) {
  if (g.width === 0) return null;
  return (
    <div class="heads" aria-hidden="true">
      {(['client', 'server'] as const).map((end) => (
        <span key={end} class={`head ${end}`} style={g.narrow ? { [end === 'client' ? 'left' : 'right']: '8px' } : { left: `${g.x[end]}px`, transform: 'translateX(-50%)' }}>
          {t(`report.${end}`)}
        </span>
      ))}
    </div>
  );
}

/** The stretches of each end in up to three lanes, one for each queue pair. */
function lanesOf(model: Model): { end: End; lane: number; s: Stretch }[] {
  const lanes: Record<End, string[]> = { client: [], server: [] };
  return model.stretches.flatMap((s) => {
    let lane = lanes[s.end].indexOf(s.qpn);
    if (lane < 0) lane = lanes[s.end].push(s.qpn) - 1;
    return lane < 3 ? [{ end: s.end, lane, s }] : [];
  });
}

function Ladders({ g, lanes, from, to, last }: { g: Geometry; lanes: { end: End; lane: number; s: Stretch }[]; from: number; to: number; last: number }) {
  const [top, bottom] = [from * g.row, Math.min(last, to + 1) * g.row];
  return (
    <g>
      {(['client', 'server'] as const).map((end) => (
        <line key={end} class={`life ${end}`} x1={g.x[end]} x2={g.x[end]} y1={top} y2={bottom} />
      ))}
      {lanes
        .filter(({ s }) => s.to >= from && s.from <= to)
        .map(({ end, lane, s }) => {
          const y1 = Math.max(top, s.from * g.row + g.row / 2);
          const y2 = Math.min(bottom, s.to >= last ? bottom : s.to * g.row + g.row / 2);
          const x = g.x[end] + (end === 'client' ? -1 : 1) * lane * 6 - 2.5;
          return <rect key={`${end}${s.qpn}${s.from}`} class={`state ${s.state}`} x={x} width={5} y={y1} height={Math.max(0, y2 - y1)} rx={2.5} data-state={s.state} />;
        })}
    </g>
  );
}

function Mark({ r, row, g, before, whole }: { r: Row; row: number; g: Geometry; before: Row | undefined; whole: number }) {
  const middle = y(g, row);
  const x = g.x[r.end];
  const client = r.end === 'client';
  const gap = before ? r.at - before.at : 0;
  const arrow = r.kind === 'message' || r.kind === 'packet';
  const room = g.narrow ? g.x.server - g.x.client - 30 : g.side[r.end] - 38;
  const outside = (g.narrow ? 1 : -1) * (client ? 1 : -1);
  return (
    <g class={`row ${r.kind} ${r.end} ${r.failed ? 'failed' : ''}`} data-id={r.id} data-kind={r.kind} data-end={r.end}>
      {g.time > 0 && g.font > 0 && (
        <text class={gap > whole / 20 ? 'time gap' : 'time'} x={g.time} y={middle} font-size={Math.min(11, g.font)}>
          {duration(r.at)}
        </text>
      )}
      {arrow ? (
        <circle class="dot" cx={x} cy={middle} r={g.row < 11 ? 1.5 : 3} />
      ) : (
        <>
          <Glyph r={r} x={x + outside * (g.font > 0 ? 14 : 9)} y={middle} small={g.font === 0} />
          {g.font > 0 && (
            <text class="text" x={x + outside * 24} y={middle} font-size={g.font} text-anchor={outside > 0 ? 'start' : 'end'}>
              {fit(r.text, room, g.font)}
            </text>
          )}
        </>
      )}
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
  const [x1, y1, y2] = [g.x[end] + inset, y(g, a.from), y(g, a.to)];
  let x2 = g.x[other] - inset;
  let bottom = y2;
  if (a.lost) {
    x2 = x1 + (x2 - x1) * 0.62;
    bottom = y1;
  }
  const [mx, my] = [(x1 + x2) / 2, (y1 + bottom) / 2];
  const dashed = { begin: a.unseen === 'begin' || a.unseen === 'both', end: a.unseen === 'end' || a.unseen === 'both' };
  const angle = Math.atan2(bottom - y1, x2 - x1);
  const head = (by: number) => `${x2 - 8 * Math.cos(angle + by)} ${bottom - 8 * Math.sin(angle + by)}`;
  const label = g.font > 0 && !(g.narrow && a.kind === 'request');
  const room = Math.abs(g.x.server - g.x.client) - (a.kind === 'request' ? 40 : 34);
  const from = model.rows[a.from];
  return (
    <g class={`arrow ${a.kind} ${a.failed ? 'failed' : ''} ${a.lost ? 'lost' : ''} ${a.unseen === 'both' ? 'inferred' : ''} ${end}`} data-arrow={a.kind} data-unseen={a.unseen} data-from={from?.id}>
      <path class={dashed.begin ? 'dashed' : ''} d={`M${x1} ${y1}L${mx} ${my}`} />
      <path class={dashed.end && !a.lost ? 'dashed' : ''} d={`M${mx} ${my}L${x2} ${bottom}`} />
      {a.lost ? <path class="cross" d={`M${x2 - 4} ${bottom - 4}l8 8m0 -8l-8 8`} /> : <path class="tip" d={`M${head(0.4)}L${x2} ${bottom}L${head(-0.4)}`} />}
      {label && (
        <text class="label" x={x1 + (end === 'client' ? 10 : -10)} y={y1 - g.font * 0.55} font-size={g.font - 0.5} text-anchor={end === 'client' ? 'start' : 'end'}>
          {fit(a.text, room, g.font)}
        </text>
      )}
    </g>
  );
}
