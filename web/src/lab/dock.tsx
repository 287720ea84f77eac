// The details below the hosts: what the last action did, the selected packet, and all packets and events
// as tables, which say in words what the wire draws.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Action, Code, Completion, Event, PacketView, Tables } from '../api';
import { hex, time } from '../common/format';
import { find, language, listed, t, translated } from '../texts';
import { Graph, type Dot, type DotKind } from '../common/graph';
import { CompletionRow } from './objects';
import { fateText, ignored, lost, PacketPanel, packetsOf, selectPacket } from './packet';
import { checkedBy, EngineText, noteText, RefusalBox } from './refusal';
import { change, loadAll, type Detail, type State } from './store';
import { calls, closers, making } from './forms';
import { bad, markText, nanoseconds, owner } from './wirepane';

const tabs: Detail[] = ['result', 'packet', 'packets', 'graph', 'events'];
const newest = 100; // rows of a table

export function Dock({ state }: { state: State }) {
  const panel = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (['result', 'packet'].includes(state.detail)) panel.current?.scrollTo({ top: 0 });
  }, [state.detail, state.detail === 'result' ? state.cursor : state.selected]); // a reader of the fields keeps the place while it plays
  const onKey = (event: KeyboardEvent) => {
    const move = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const to = tabs[(tabs.indexOf(state.detail) + move + tabs.length) % tabs.length]!;
    change({ detail: to });
    document.getElementById(`tab-${to}`)?.focus();
  };
  return (
    <section class="dock" aria-label={t('ui.details')}>
      <div class="tabs" role="tablist" aria-label={t('ui.details')} onKeyDown={onKey}>
        {tabs.map((tab) => (
          <button
            type="button" role="tab" id={`tab-${tab}`} data-test={`detail.${tab}`} aria-selected={state.detail === tab} aria-controls="dock-panel"
            tabIndex={state.detail === tab ? 0 : -1} onClick={() => change({ detail: tab })}
          >
            {find(`ui.detail.${tab}`)}
            {tab === 'packets' && <span class="count">{state.moment.snapshot.packets_total}</span>}
            {tab === 'events' && <span class="count">{state.moment.snapshot.events_total}</span>}
          </button>
        ))}
      </div>
      <div class="dock-panel" id="dock-panel" ref={panel} role="tabpanel" aria-labelledby={`tab-${state.detail}`} tabIndex={0}>
        {state.detail === 'result' && <ResultPanel state={state} />}
        {state.detail === 'packet' && <PacketPanel state={state} />}
        {state.detail === 'packets' && <PacketsTable state={state} />}
        {state.detail === 'graph' && <PSNGraph state={state} />}
        {state.detail === 'events' && <EventsTable state={state} />}
      </div>
    </section>
  );
}

/** An action of a session in a few words: "ibv_modify_qp qp → INIT". */
export function actionText(action: Action, all: Action[]): string {
  const call = action.do === 'close' ? closerOf(action, all) : calls[action.do] ?? (find(`ui.verb.${action.do}`) || action.do);
  const to = action.do === 'modify_qp' ? `→ ${String(action.attr?.STATE ?? '?')}` : '';
  if (action.do === 'delay') return t('ui.action.delay', { id: action.packet ?? 0, by: time(action.ns ?? 0) });
  const packet = action.packet !== undefined ? `#${action.packet}` : '';
  const on = action.do === 'selective_repeat' ? t(action.on ? 'ui.on' : 'ui.off') : '';
  return [call, action.name ?? action.mr ?? '', to, packet, on].filter(Boolean).join(' ');
}

// The call that closes an object, by the action before it that made the object.
function closerOf(close: Action, all: Action[]): string {
  const before = all.slice(0, all.indexOf(close)).reverse();
  const made = before.find((a) => a.host === close.host && a.name === close.name && making.some(([verb]) => verb === a.do));
  const kind = making.find(([verb]) => verb === made?.do)?.[1];
  return kind ? closers[kind] : 'close';
}

function ResultPanel({ state }: { state: State }) {
  const { result } = state.moment.snapshot;
  const action = state.actions[state.cursor - 1];
  if (!action || !result) return <p class="empty">{t('ui.result.none')}</p>;
  const changes = changed(state);
  const failed = new Set((result.completions ?? []).map((wc) => wc.status).filter((status) => status !== 'SUCCESS'));
  const checks = new Map((result.completions ?? []).flatMap((wc) => (wc.check ? [[wc.check, checkedBy(wc.status)]] : [])));
  return (
    <div class="result" data-test="result">
      <div class="result-said">
        <h3>
          {action.host && <span class={`badge ${action.host}`}>{find(`ui.host.${action.host}`)}</span>} <code>{actionText(action, state.actions)}</code>
          <span class="muted small"> {t('ui.result.number', { n: state.cursor })}</span>
        </h3>
        {result.refused ? <RefusalBox refusal={result.refused} test="result.refused" /> : !result.note && <p class={failed.size > 0 ? '' : 'good'} data-test="result.said">{said(state)}</p>}
        {action.do === 'query_qp' && !result.refused && <Queried state={state} action={action} />}
        {result.note && <p class="note-box"><EngineText text={result.note} /></p>}
        {result.completions && result.completions.length > 0 && <ol class="completions">{result.completions.map((wc, i) => <CompletionRow key={i} wc={wc}><LastPacket state={state} from={action.host!} wc={wc} /></CompletionRow>)}</ol>}
        {[...checks].map(([check, by]) => <p class="small" key={check} data-test="check">{t(by)}<strong class="bad"><EngineText text={check} /></strong> <span class="muted">{t('ui.result.check.about')}</span></p>)}
        {(result.completions ?? []).filter((wc) => wc.status === 'RETRY_EXC_ERR').map((wc) => lostText(state, action.host!, wc)).filter(Boolean).map((text) => <p key={text} class="small" data-test="lost">{text}</p>)}
        {[...failed].map((status) => <Failed key={status} status={status} tables={state.tables} />)}
        {changes.length > 0 && <ul class="changes">{changes.map((text) => <li>{text}</li>)}</ul>}
      </div>
      <Lines code={result.code} />
    </div>
  );
}

// A link to the last packet of a request that has completed. A completion with an error does not say whether it is a receive's.
function LastPacket({ state, from, wc }: { state: State; from: string; wc: Completion }) {
  const sent = packetsOf(state, from, wc.qp, wc.id).filter((p) => p.why.kind === 'request' && p.copy_of === undefined).at(-1);
  const srq = state.moment.snapshot.hosts.find((h) => h.name === from)?.objects.find((o) => o.name === wc.qp)?.qp?.srq;
  const received = () => state.actions.slice(0, state.cursor).some((a) => a.do === 'post_recv' && a.host === from && [wc.qp, srq].includes(a.name) && a.wrs?.some((wr) => String(wr.id) === String(wc.id)));
  if (!sent || (wc.opcode ? wc.opcode.startsWith('RECV') : received())) return null;
  return <button type="button" class="plain link small" data-test="result.packet" onClick={() => selectPacket(sent.id)}>{t('ui.packet.number', { id: sent.id })}</button>;
}

const mostLost = 8; // packets that are named

/** Names the packets of an unanswered request, and their answers, that did not get through; '' if there are none. A wr_id may be that of an earlier request, too. */
export function lostText(state: State, from: string, wc: Completion): string {
  const { packets } = state.moment;
  const posted = state.actions.slice(0, state.cursor).map((a) => a.do === 'post_send' && a.host === from && a.wrs?.some((wr) => String(wr.id) === String(wc.id))).lastIndexOf(true);
  const own = packetsOf(state, from, wc.qp, wc.id).filter((p) => p.action >= posted);
  const answers = packets.filter((p) => own.some(({ id }) => id === p.why.answers));
  const gone = [...own, ...answers].filter((p) => lost(p) || ignored(p));
  if (gone.length === 0) return '';
  const names = gone.slice(0, mostLost).map((p) => `#${p.id} ${p.outcome ? find(`ui.outcome.${p.outcome}`) : fateText(p)}`);
  if (gone.length > mostLost) names.push(t('ui.result.lost.more', { n: gone.length - mostLost }));
  return t('ui.result.lost', { packets: listed(names) });
}

// What ibv_query_qp has returned. The call changes nothing, so the moment has the same.
function Queried({ state, action }: { state: State; action: Action }) {
  const { attrs = [] } = state.moment.snapshot.hosts.find((h) => h.name === action.host)?.objects.find((o) => o.name === action.name)?.qp ?? {};
  return <dl class="facts" data-test="result.attrs">{attrs.map((a) => <div key={a.bit}><dt>{a.field}</dt><dd class="mono">{noteText(a.text)}</dd></div>)}</dl>;
}

// What a status of failed completions means, and what to try.
function Failed({ status, tables }: { status: string; tables: Tables }) {
  const { cause, remedy } = tables.statuses.find((row) => row.status === status) ?? {};
  if (!cause || !remedy) return null;
  return (
    <div class="small" data-test={`status.${status}`}>
      <p><code>{status}</code>{t('ui.colon')}<EngineText text={cause} /></p>
      <p><strong>{t('ui.refused.try')}</strong><EngineText text={remedy} /></p>
    </div>
  );
}

function said(state: State): string {
  const { result } = state.moment.snapshot;
  const action = state.actions[state.cursor - 1]?.do;
  if (result?.completions) return result.completions.length > 0 ? t('ui.result.polled', { n: result.completions.length }) : t('ui.result.polled-none');
  if (action === 'get_cq_event') return t('ui.result.event');
  if (action === 'step' || action === 'run') return t('ui.result.clock', { at: time(state.moment.snapshot.now_ns) });
  if (result?.accepted !== undefined) return t('ui.result.accepted', { n: result.accepted });
  return t('ui.result.done');
}

// What the action changed in attributes and memory, in words.
function changed(state: State): string[] {
  const texts: string[] = [];
  for (const host of state.moment.snapshot.hosts) {
    const where = find(`ui.host.${host.name}`);
    for (const object of host.objects) {
      for (const a of object.qp?.attrs ?? []) {
        if (a.changed) texts.push(t('ui.changed.attr', { where, name: object.name, field: a.field, value: noteText(a.text), from: find(`ui.from.${a.source.from}`) }));
      }
      for (const [offset, length] of object.mr?.changed ?? []) texts.push(t('ui.changed.memory', { where, name: object.name, offset, length }));
    }
  }
  return texts;
}

function Lines({ code }: { code: Code }) {
  return (
    <div class="code-pair">
      {(['c', 'go'] as const).map((language) => (
        <figure>
          <figcaption>{language === 'c' ? 'C' : 'Go'}</figcaption>
          <pre data-test={`code.${language}`} tabIndex={0} aria-label={language === 'c' ? 'C' : 'Go'}>{code[language].length > 0 ? unbroken(code[language].map(commented).join('\n')) : t('ui.code.none')}</pre>
        </figure>
      ))}
    </div>
  );
}

// A line of code, with a comment in the reader's language.
const commented = (line: string) => line.replace(/^(\/\/|\/\*) (.*?)( \*\/)?$/, (_, begin: string, text: string, end = '') => `${begin} ${translated(text) ?? text}${end}`);

// A line may break at a hyphen, but not in a member's name: p->lkey.
const unbroken = (code: string) => code.split(/([\w\])]+->\w+)/).map((part, i) => (i % 2 === 1 ? <span class="whole-name">{part}</span> : part));

interface NewestProps<T> {
  list: T[]; // the ones that are loaded
  total: number;
  columns: string[]; // keys of ui.col
  caption: string;
  empty: string;
  row(item: T): JSX.Element;
}

// A table of the newest packets or events. Earlier ones come with a button.
function Newest<T>({ list, total, columns, caption, empty, row }: NewestProps<T>) {
  const [more, setMore] = useState(0);
  const shown = list.slice(-(newest + more));
  const hidden = total - shown.length;
  const earlier = () => {
    if (list.length < total) loadAll();
    setMore((n) => n + 1000);
  };
  useEffect(() => { // the newest are in view
    const panel = document.getElementById('dock-panel');
    panel?.scrollTo({ top: panel.scrollHeight });
  }, [total]);
  if (list.length === 0) return <p class="empty">{empty}</p>;
  return (
    <table class="list">
      <caption class="hidden">{caption}</caption>
      <thead><tr>{columns.map((key) => <th scope="col" key={key}>{find(`ui.col.${key}`)}</th>)}</tr></thead>
      <tbody>
        {hidden > 0 && <tr><td colSpan={columns.length}><button type="button" class="plain" onClick={earlier}>{t('ui.wire.earlier', { n: hidden })}</button></td></tr>}
        {shown.map(row)}
      </tbody>
    </table>
  );
}

// What the headers carry: a list of the engine, "VA 0x…, rkey 0x…, 64 bytes", in the reader's signs.
const carried = (text: string) => (language() === 'zh' && noteText(text) === text ? text.replaceAll(', ', '，').replace(/ bytes?\b/, ' 字节') : noteText(text));

const packetColumns = ['number', 'from', 'opcode', 'psn', 'sent', 'arrives', 'fate', 'why'];

function PacketsTable({ state }: { state: State }) {
  const row = (p: PacketView) => (
    <tr key={p.id} class={p.id === state.selected ? 'chosen' : ''}>
      <th scope="row"><button type="button" class="plain link" aria-label={t('ui.packet.number', { id: p.id })} onClick={() => selectPacket(p.id)}>{p.id}</button></th>
      <td><span class={`badge ${p.from}`}>{find(`ui.host.${p.from}`)}</span></td>
      <td class="mono">{p.opcode}{p.carries && ` ${carried(p.carries)}`}</td>
      <td class="mono">{hex(p.psn)}</td>
      <td class="mono when">{time(p.sent_ns)}</td>
      <td class="mono when">{lost(p) ? '–' : `+${time(p.arrives_ns - p.sent_ns)}`}</td>
      <td class="fate">{fateText(p)}{p.outcome && <span class="bad"> {find(`ui.outcome.${p.outcome}`)}</span>}</td>
      <td><EngineText text={p.why.text} /></td>
    </tr>
  );
  const { packets, snapshot } = state.moment;
  return <Newest list={packets} total={snapshot.packets_total} columns={packetColumns} caption={t('ui.detail.packets')} empty={t('ui.wire.empty')} row={row} />;
}

const dotKind: Record<string, DotKind> = { response: 'response', ack: 'ack', nak: 'nak', 'rnr nak': 'nak' };

function PSNGraph({ state }: { state: State }) {
  // A queue pair that goes to RESET has other PSNs afterwards: another graph.
  const resets = state.moment.events.filter((e) => e.event === 'qp.transition' && e.attrs?.to === 'RESET' && e.attrs.error === undefined);
  const connection = (p: PacketView) => {
    const n = resets.filter((e) => e.end === p.from && e.action <= p.action && owner(state.moment.snapshot.hosts, e) === p.why.qp).length;
    return n > 0 ? ` ${n + 1}` : '';
  };
  const byId = new Map(state.moment.packets.map((p) => [p.id, p]));
  const dots = state.moment.packets.map((p): Dot => {
    const asked = p.why.kind === 'request' ? p : byId.get(p.why.answers ?? 0);
    const requester = asked ? `${asked.from} ${asked.why.qp}${connection(asked)}` : `${p.from === 'client' ? 'server' : 'client'} ?`;
    const gone = lost(p) || ignored(p);
    const request = p.why.kind === 'request';
    const kind = request ? (p.why.again === 'probe' ? 'probe' : p.why.again ? 'again' : 'request') : gone ? 'stray' : dotKind[p.why.kind] ?? 'response';
    return { id: String(p.id), requester, at: request ? p.sent_ns : p.arrives_ns, psn: p.psn, kind, lost: request && gone };
  });
  const named = (requester: string) => {
    const [host = '', qp = '', number = ''] = requester.split(' ');
    return { host: find(`ui.host.${host}`), qp, number };
  };
  const words = {
    title(r: string) {
      const { number, ...values } = named(r);
      const title = t('ui.graph.title', values);
      return number ? t('ui.graph.number', { title, n: number }) : title;
    },
    end: (end: string) => find(`ui.host.${end}`), kind: (kind: string) => find(`ui.graph.${kind}`), empty: t('ui.wire.empty'),
    about: (r: string, n: number, from: string, to: string) => t('ui.graph.about', { ...named(r), n, from, to }),
  };
  return <Graph dots={dots.sort((a, b) => a.at - b.at)} selected={String(state.selected ?? '')} onSelect={(id) => change({ selected: Number(id) })} words={words} />;
}

const eventColumns = ['number', 'time', 'host', 'call', 'event'];

function EventsTable({ state }: { state: State }) {
  const row = (e: Event) => (
    <tr key={e.n} class={bad(e) ? 'warn' : ''}>
      <th scope="row" class="mono">{e.n}</th>
      <td class="mono when">{time(nanoseconds(e))}</td>
      <td><span class={`badge ${e.end}`}>{find(`ui.host.${e.end}`)}</span></td>
      <td class="mono">{e.verb === 'tcp' ? 'TCP' : e.verb}</td>
      <td>{markText(e)} {attributes(e.attrs) && <details class="raw"><summary aria-label={t('ui.events.fields')} title={t('ui.events.fields')}>…</summary> <span class="mono small">{attributes(e.attrs)}</span></details>}</td>
    </tr>
  );
  const { events, snapshot } = state.moment;
  return <Newest list={events} total={snapshot.events_total} columns={eventColumns} caption={t('ui.detail.events')} empty={t('ui.events.empty')} row={row} />;
}

function attributes(attrs: Record<string, unknown> | undefined): string {
  return Object.entries(attrs ?? {}).filter(([, v]) => typeof v !== 'object').map(([k, v]) => `${k}=${String(v)}`).join(' ');
}
