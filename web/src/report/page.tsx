// The page around the drawing: what the run was, what is shown of it, and the details of a row.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks';
import { attr, type Data, type End, type Header } from './data';
import { Details, Hint } from './details';
import { Drawing } from './drawing';
import { PSNGraph } from './psns';
import { toggled, type Folds } from './fold';
import { heights, usual } from './geometry';
import { onSystemTheme, swapTheme } from '../common/theme';
import { Legend } from './legend';
import type { Client } from './live';
import { build, kinds, type Kind, type Row } from './model';
import { Table } from './table';
import { WireSays } from './wiresays';
import { duration, language, languageNames, marked, moment, setLanguage, t, type Key, type Language } from './texts';

interface Props {
  data: Data;
  live?: Client | undefined;
  aside?: ComponentChildren;
}

export function Page({ data, live, aside }: Props) {
  const [hidden, setHidden] = useState<Set<Kind>>(new Set(['dump', 'object'])); // set-up would fill the first screen
  const [pair, setPair] = useState(-1);
  const [zoom, setZoom] = useState(usual);
  const [selected, setSelected] = useState('');
  const [open, setOpen] = useState(false);
  const [view, setView] = useState<'drawing' | 'table' | 'graph'>('drawing');
  const [folds, setFolds] = useState<Folds>({ open: false, but: new Set() });
  const [help, setHelp] = useState(false);
  const [following, setFollowing] = useState(true);
  const [, setLook] = useState(0); // counts changes of language and theme

  // The table is for searching: it has each message.
  const model = useMemo(() => build(data, view === 'drawing' ? { hidden, pair, folds } : { hidden, pair }), [data.events, data.packets, hidden, pair, folds, view, language()]);
  const row = model.rows.find((r) => r.id === selected);
  const failed = model.rows.filter((r) => r.failed);
  const causes = failed.filter((r) => !r.event || attr(r.event, 'status') !== 'IBV_WC_WR_FLUSH_ERR');
  const failures = causes.length > 0 ? causes : failed; // what is flushed follows from them
  const counts = useMemo(() => countsOf(data), [data.events, data.packets]);
  const present = kinds.filter((kind) => counts[kind] > 0);

  useEffect(() => {
    setSelected('');
    setOpen(false);
    setPair(-1);
    setFolds({ open: false, but: new Set() });
  }, [live?.who]);
  useEffect(() => onSystemTheme(() => setLook((n) => n + 1)), []); // the strip is painted
  useEffect(() => {
    document.title = data.record ? t('report.run', { job: data.record.job }) : t('report.title');
  });

  const nextFailure = () => {
    const at = model.rows.findIndex((r) => r.id === selected);
    const next = failures.find((r) => model.rows.indexOf(r) > at) ?? failures[0];
    if (next) {
      setSelected(next.id);
      setOpen(true);
      setFollowing(false);
    }
  };
  const zoomBy = (by: number) => setZoom((z) => Math.max(0, Math.min(heights.length - 1, z + by)));
  const select = (id: string) => {
    setSelected(id);
    setFollowing(false);
  };
  const selectPacket = (id: string) => { // also one that a filter hides
    setHidden(new Set([...hidden].filter((kind) => kind !== 'packet')));
    setPair(-1);
    select(id);
    setOpen(true);
  };
  const keys = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target instanceof HTMLSelectElement || e.target instanceof HTMLInputElement) return;
    if (e.key === '+' || e.key === '=') zoomBy(1);
    else if (e.key === '-') zoomBy(-1);
    else if (e.key === 'e') nextFailure();
    else if (e.key === 't') setView(view === 'table' ? 'drawing' : 'table');
    else if (e.key === 'p') setView(view === 'graph' ? 'drawing' : 'graph');
    else if (e.key === 'f') setFolds({ open: !folds.open, but: new Set() });
    else if (e.key === '?') setHelp(!help);
    else if (e.key === 'Escape') help ? setHelp(false) : setOpen(false);
    else return;
    e.preventDefault();
  };
  useLayoutEffect(() => {
    document.addEventListener('keydown', keys);
    return () => document.removeEventListener('keydown', keys);
  });

  const show = (r: Row) => (r.fold ? setFolds(toggled(folds, r.id)) : setOpen(true));
  const details = open && row && !row.fold && <Details row={row} data={data} model={model} select={(id) => (select(id), setOpen(true))} close={() => setOpen(false)} />;
  return (
    <div class={aside ? 'page live' : 'page'}>
      <Top data={data} live={!!aside} length={model.length} start={model.start} select={selectPacket} look={() => setLook((n) => n + 1)} />
      <section class="tools" aria-label={t('report.view')}>
        <div class="kinds" role="group" aria-label={t('report.filter.kinds')}>
          {present.map((kind) => (
            <button
              key={kind}
              class={`toggle ${kind}`}
              aria-pressed={!hidden.has(kind)}
              data-test={`kind-${kind}`}
              onClick={() => {
                const next = new Set(hidden);
                if (!next.delete(kind)) next.add(kind);
                setHidden(next);
              }}
            >
              {t(`report.kind.${kind}` as Key)} <span class="count">{counts[kind]}</span>
            </button>
          ))}
        </div>
        <div class="right">
          {model.pairs.length > 1 && (
            <label>
              <span class="hidden">{t('report.filter.qp')}</span>
              <select value={pair} onChange={(e) => setPair(Number(e.currentTarget.value))} data-test="qp">
                <option value={-1}>{t('report.filter.all')}</option>
                {model.pairs.map((p, i) => (
                  <option key={i} value={i}>{`${p.client} ↔ ${p.server}`}</option>
                ))}
              </select>
            </label>
          )}
          {live && (
            <button aria-pressed={following} onClick={() => setFollowing(!following)} data-test="follow">
              {t('report.live.follow')}
            </button>
          )}
          {failures.length > 0 && (
            <button class="danger" onClick={nextFailure} data-test="next-failure">
              {t('report.next.failure')} <span class="count">{failures.length}</span>
            </button>
          )}
          <div class="group">
            <button onClick={() => zoomBy(-1)} disabled={zoom === 0} aria-label={t('report.zoom.out')} title={t('report.zoom.out')} data-test="zoom-out">
              −
            </button>
            <button onClick={() => zoomBy(1)} disabled={zoom === heights.length - 1} aria-label={t('report.zoom.in')} title={t('report.zoom.in')} data-test="zoom-in">
              +
            </button>
          </div>
          <div class="group" role="group">
            {(['drawing', 'table', 'graph'] as const).map((v) => (
              <button key={v} aria-pressed={view === v} onClick={() => setView(v)} data-test={`view-${v}`}>
                {t(`report.view.${v}`)}
              </button>
            ))}
          </div>
          <button onClick={() => setHelp(!help)} aria-expanded={help} aria-label={t('report.help')} title={t('report.help')} data-test="help">
            ?
          </button>
        </div>
      </section>
      {help && <Legend data={data} />}
      <main class={details ? 'body open' : 'body'}>
        {aside}
        {model.rows.length === 0 ? (
          <p class="nothing">{data.events.length > 0 ? t('report.empty') : t('report.nothing')}</p>
        ) : view === 'drawing' ? (
          <Drawing model={model} zoom={zoom} selected={selected} follow={!!live && following} open={open} select={select} show={show} />
        ) : view === 'graph' ? (
          <PSNGraph data={data} model={model} hidden={hidden.has('packet')} selected={selected} select={(id) => (select(id), setOpen(true))} />
        ) : (
          <Table model={model} selected={selected} select={(id) => (select(id), setOpen(true))} />
        )}
        {details}
      </main>
      <p class="hidden" id="selected" aria-live="polite" data-test="selected">
        {row ? `${row.fold ? '' : `${t(`report.${row.end}`)}, `}${moment(row.at)}: ${row.fold ? '' : `${t(`report.one.${row.kind}` as Key)}: `}${row.text}${row.failed ? `, ${t('report.table.error')}` : ''}` : ''}
      </p>
    </div>
  );
}

/** How much there is of each kind, whether or not it is shown. A packet counts once, and so does a message. */
function countsOf(data: Data): Record<Kind, number> {
  const counts = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<Kind, number>;
  const { rows, arrows } = build(data, { hidden: new Set(['packet']), pair: -1 });
  for (const r of rows) counts[r.kind]++;
  counts.message = arrows.filter((a) => a.kind === 'message').length;
  counts.packet = data.packets.length;
  return counts;
}

interface TopProps {
  data: Data;
  live: boolean;
  length: number;
  start: string;
  select(id: string): void;
  look(): void;
}

function Top({ data, live, length, start, select, look }: TopProps) {
  const record = data.record;
  const omitted = data.captures.reduce((n, c) => Math.max(n, c.omitted ?? 0), 0); // both ends have seen the same
  const status = !record ? '' : record.done ? 'done' : record.error || !live ? 'failed' : 'running';
  return (
    <header class="top">
      <div class="title">
        <h1 data-test="title">{record?.job ? t('report.run', { job: record.job }) : live ? t('report.live') : t('report.title')}</h1>
        {status && (
          <span class={`badge ${status}`} data-test="status">
            {t(`report.${status}` as Key)}
          </span>
        )}
        <p class="sums">
          {t('report.events', { n: data.events.length })}
          {data.packets.length > 0 && <> · {omitted > 0 ? t('report.packets.of', { n: data.packets.length, all: data.packets.length + omitted }) : t('report.packets', { n: data.packets.length })}</>}
          {length > 0 && <> · {t('report.duration', { time: duration(length) })}</>}
        </p>
        <div class="looks">
          <select aria-label={t('report.language')} value={language()} onChange={(e) => (setLanguage(e.currentTarget.value as Language), look())} data-test="language">
            {Object.entries(languageNames).map(([code, name]) => (
              <option key={code} value={code}>
                {name}
              </option>
            ))}
          </select>
          <button class="quiet" aria-label={t('report.theme')} title={t('report.theme')} onClick={() => (swapTheme(), look())} data-test="theme">
            ◐
          </button>
        </div>
      </div>
      {live && record && <p class="remark">{typed(t('report.live.only'))}</p>}
      {record?.error && (
        <div class="notice" role="status" data-test="error">
          <strong>{record.failed_end ? t(/ closed the connection/.test(record.error) ? 'report.closed.at' : 'report.failed.at', { end: t(`report.${record.failed_end}`) }) : t('report.failed.unknown')}</strong>
          <p><Hint text={record.error} /></p>
          <WireSays data={data} start={start} select={select} />
        </div>
      )}
      {record && !live && <Ends record={record} />}
      {record && !live && <Unseen data={data} />}
    </header>
  );
}

function Ends({ record }: { record: Header }) {
  return (
    <div class="ends">
      {(['client', 'server'] as End[]).map((end) => {
        const part = record[end];
        return (
          <p key={end}>
            <span class={`tag ${end}`}>{t(`report.${end}`)}</span>{' '}
            {part.present || part.device ? t('report.on', { device: part.device ?? t('report.unknown'), host: part.host || t('report.unknown') }) : t('report.missing', { why: part.why ? marked(part.why) : '' })}
            {part.dropped > 0 && <em>{t('report.space')}{t('report.dropped', { end: t(`report.${end}`), n: part.dropped })}</em>}
          </p>
        );
      })}
    </div>
  );
}

// Whose packets the page has not, and how to get them.
function Unseen({ data }: { data: Data }) {
  const missing = (['client', 'server'] as End[]).filter((end) => !data.captures.some((c) => c.end === end));
  if (missing.length === 0) return null;
  const [end] = missing;
  return (
    <p class="remark" data-test="capture-missing">
      {missing.length > 1 ? t('report.nocapture') : t('report.capture.one', { end: t(`report.${end!}`), other: t(end === 'server' ? 'report.client' : 'report.server') })}{t('report.space')}
      {typed(t('report.capture.how'))}
    </p>
  );
}

// What the reader is to type, between backticks. It breaks only between its words.
const typed = (text: string) => text.split('`').map((part, i) => (i % 2 ? <code key={i}>{part.split(' ').flatMap((word, j) => [j ? ' ' : '', <span key={j}>{word}</span>])}</code> : part));
