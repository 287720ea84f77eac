// The wire of the laboratory: the newest packets and calls, drawn with time downwards.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Event, HostView, PacketView } from '../api';
import { hex, opcode } from '../common/format';
import { Wire, type Mark, type Message } from '../common/wire';
import { eventText, find, t } from '../texts';
import { byDevice } from '../texts/events';
import { loadAll, type State } from './store';
import { fateText, ignored, lost, PacketActs, selectPacket } from './packet';
import { noteText } from './refusal';

const newest = 60; // packets that are drawn at first

export function WirePane({ state }: { state: State }) {
  const { packets, events, snapshot } = state.moment;
  const [more, setMore] = useState(0);
  const scroll = useRef<HTMLDivElement>(null);
  const shown = packets.slice(-(newest + more));
  const since = shown.length < packets.length ? shown[0]!.sent_ns : -1;
  const hidden = snapshot.packets_total - shown.length;
  const name = namer(snapshot.hosts);
  const keys = new Map<string, string>(); // the newest rkey that each host has sent: only a new one is written, and the one that a SEND invalidates
  const fresh = ({ carries, from }: PacketView) => {
    const [key = ''] = /rkey 0x\w+/.exec(carries) ?? [];
    if (!key || (keys.get(from) === key && carries !== key)) return '';
    keys.set(from, key);
    return key;
  };
  const messages = [...talks(events, since), ...shown.map((p) => message(p, name(p.why.qp), fresh(p)))];
  const empty = messages.length === 0;

  // The newest packet stays in view.
  useEffect(() => {
    scroll.current?.scrollTo({ top: scroll.current.scrollHeight });
  }, [snapshot.packets_total, snapshot.now_ns, snapshot.actions, state.pane]);

  useEffect(() => scroll.current?.querySelector('.selected')?.scrollIntoView({ block: 'nearest' }), [state.selected]);

  const earlier = () => {
    if (packets.length < snapshot.packets_total) loadAll();
    setMore((n) => n + 300);
  };
  return (
    <section class="wire-pane" aria-labelledby="wire-title">
      <header class="wire-head">
        <span class="end client">{t('ui.host.client')}</span>
        <h2 id="wire-title">{t('ui.wire')}</h2>
        <span class="end server">{t('ui.host.server')}</span>
      </header>
      <div class="wire-scroll" ref={scroll} tabIndex={0} role="region" aria-label={t('ui.wire.label')}>
        {hidden > 0 && <button type="button" class="plain" data-test="wire.earlier" onClick={earlier}>{t('ui.wire.earlier', { n: hidden })}</button>}
        {empty
          ? <p class="empty">{t('ui.wire.empty')}</p>
          : <Wire
              label={t('ui.wire.label')} messages={messages} marks={marks(events, since, (e) => name(owner(snapshot.hosts, e)))}
              now={snapshot.now_ns} selected={state.selected} onSelect={selectPacket}
            />}
      </div>
      <PacketActs state={state} />
    </section>
  );
}

// Returns a function that puts the name of a queue pair before a text, if a host has several.
function namer(hosts: HostView[]) {
  const several = hosts.some((host) => host.objects.filter((o) => o.qp).length > 1);
  return (qp: string | undefined) => (several && qp ? t('ui.labelled', { name: qp, text: '' }) : '');
}

// The name of the queue pair that an event is about.
export const owner = (hosts: HostView[], e: Event) =>
  hosts.find((host) => host.name === e.end)?.objects.find((o) => o.qp && hex(o.qp.qpn) === e.attrs?.qpn)?.name;

// An acknowledgement is called by what its AETH says: ACK, or the reason of a NAK.
function title(p: PacketView): string {
  return p.opcode === 'RC_ACKNOWLEDGE' ? noteText(p.carries || 'ACK') : opcode(p.opcode);
}

function message(p: PacketView, name: string, rkey: string): Message {
  const tone = p.why.kind === 'request' ? 'request' : p.why.kind.includes('nak') || p.why.kind === 'cnp' ? 'refusal' : 'answer';
  const notes = [
    p.why.again ? find(`ui.again.${p.why.again}`) : '',
    p.copy_of !== undefined ? t('ui.packet.copy') : '',
    p.flipped?.length ? t('ui.packet.corrupted') : '',
    p.marked && p.outcome !== 'congestion_marks' ? t('ui.outcome.congestion_marks') : '',
    p.why.again && p.outcome === 'duplicates' ? t('ui.packet.duplicate') : p.check ? noteText(p.check) : p.outcome && find(`ui.outcome.${p.outcome}`),
  ];
  const detail = [!p.check && rkey, p.imm !== undefined && `imm ${p.imm}`];
  const fate = p.fate === 'in flight' ? 'in flight' : lost(p) ? 'lost' : ignored(p) ? 'ignored' : 'delivered';
  return {
    id: p.id, from: p.from === 'client' ? 'left' : 'right', sent: p.sent_ns, arrives: lost(p) ? null : p.arrives_ns, order: p.action,
    label: `${name}${title(p)}`, psn: hex(p.psn), calm: p.outcome === 'kept', detail: detail.filter(Boolean).join(' · '), note: notes.filter(Boolean).join(' · '), tone, fate,
    about: t('ui.packet.about', { id: p.id, from: find(`ui.host.${p.from}`), opcode: p.opcode, psn: hex(p.psn), fate: fateText(p), why: noteText(p.why.text) }),
    attributes: { 'data-test': `packet.${p.id}`, 'data-fate': p.fate },
  };
}

// The messages over TCP: what the hosts tell each other. Their ids are negative, because they are no packets.
function talks(events: Event[], since: number): Message[] {
  return events
    .filter((e) => e.event === 'oob.message' && e.attrs?.sent === true && nanoseconds(e) >= since)
    .map((e) => ({
      id: -1 - e.n, from: e.end === 'client' ? 'left' : 'right', sent: nanoseconds(e), arrives: nanoseconds(e), order: e.action, tone: 'talk', fate: 'delivered',
      label: t('ui.labelled', { name: 'TCP', text: String(e.attrs?.name ?? e.attrs?.message ?? '') }), about: eventText(e),
    } as Message));
}

function marks(events: Event[], since: number, name: (e: Event) => string): Mark[] {
  const shown = events.filter((e) => (/^qp\.transition$|^wr\.|^async\.|^wait\.begun$|^completion\./.test(e.event) || e.attrs?.error !== undefined) && nanoseconds(e) >= since);
  return shown.map((e) => ({
    key: e.n, side: e.end === 'client' ? 'left' : 'right', at: nanoseconds(e), order: e.action, text: name(e) + markText(e),
    tone: bad(e) ? 'bad' : undefined,
  }));
}

/** Reports whether an event is a refused call, a failed request or a failure that the device reports. */
export const bad = (e: Event) => byDevice(e) || e.attrs?.error !== undefined || e.attrs?.fatal === true || (e.event === 'wr.completed' && !String(e.attrs?.status).endsWith('SUCCESS'));

/** An event in a few words, with the wr_id and the status of a request. */
export function markText(e: Event): string {
  if (e.event === 'wr.completed') return t('ui.wire.polled', { what: [e.attrs?.opcode, e.attrs?.status, e.attrs?.wr_id].filter((part) => part !== undefined && part !== '').join(' ').replaceAll('IBV_WC_', '') });
  const text = e.event === 'wr.posted' ? `${eventText(e)} ${e.attrs?.wr_id ?? ''}` : eventText(e);
  if (e.attrs?.error !== undefined) return t('ui.wire.refused', { what: text });
  return byDevice(e) ? t('ui.wire.device', { what: text }) : text;
}

/** The time of an event, in nanoseconds of the virtual clock, which starts with 2026. */
export function nanoseconds(e: Event): number {
  const [, seconds = '0', fraction = '0'] = /T00:(\d\d:\d\d)\.(\d{9})/.exec(e.time) ?? [];
  const [m, s] = seconds.split(':').map(Number);
  return ((m ?? 0) * 60 + (s ?? 0)) * 1e9 + Number(fraction);
}
