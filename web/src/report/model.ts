// What is drawn of a run: one row for each event and for each end of a packet, in the order of their
// times, and arrows between rows. The drawing shows a part of it.
import { attr, group, nanoseconds, otherEnd, type Data, type End, type Event, type Packet } from './data';
import { fold, type Folds } from './fold';
import { errorText, eventText, named, t } from './texts';
import { byDevice } from '../texts/events';

export const kinds = ['transition', 'message', 'post', 'completion', 'packet', 'object', 'note', 'dump'] as const;
export type Kind = (typeof kinds)[number];

export interface Row {
  id: string; // "e12": line 12 of the events; "p3s", "p3r": packet 3, sent and received; "f12": messages from line 12 on
  kind: Kind;
  end: End;
  at: number; // ns after the first row
  text: string;
  failed: boolean;
  ordinary?: boolean; // a move to ERR at the end of a run that has succeeded
  qpn: string; // '' if it belongs to none, or to all
  event?: Event | undefined;
  packet?: Packet;
  fold?: 'open' | 'closed'; // the row stands for messages
  received?: boolean; // the row is where something arrives
  index: number; // in its list
}

/** An arrow begins at a row of one end and goes to the other end. */
export interface Arrow {
  from: number; // row
  to: number; // row at the other end; the same row if the moment there is not known
  end: End; // where it begins
  kind: 'message' | 'packet' | 'request';
  text: string;
  failed: boolean;
  lost: boolean; // it does not arrive
  unseen: 'none' | 'begin' | 'end' | 'both'; // which half no record and no capture shows
  response: boolean;
}

/** A stretch of rows in which a queue pair is in one state. */
export interface Stretch {
  end: End;
  qpn: string;
  state: string;
  ordinary: boolean; // ERR, though the run has succeeded
  from: number;
  to: number;
}

export interface Pair {
  client: string;
  server: string;
}

export interface Model {
  rows: Row[];
  arrows: Arrow[];
  stretches: Stretch[];
  pairs: Pair[];
  start: string; // the time of the first row
  gaps: { from: number; to: number; packets: number }[]; // times in which packets are not drawn
  length: number; // of the run, whatever is shown, ns
}

export interface Filter {
  hidden: Set<Kind>;
  pair: number; // of the pairs; -1: all
  folds?: Folds; // undefined: each message has its rows
}

const both = (data: Data) => data.record?.client.present !== false && data.record?.server.present === true;

export function kindOf(e: Event): Kind {
  switch (e.event) {
    case 'qp.transition':
      return 'transition';
    case 'oob.message':
      return 'message';
    case 'wr.posted':
      return 'post';
    case 'wr.completed':
      return 'completion';
    case 'object.made':
    case 'object.freed':
    case 'device.opened':
    case 'port.queried':
    case 'device.queried':
    case 'gid.chosen':
    case 'peer.tuple':
    case 'region.known':
      return 'object';
    case 'qp.dump':
    case 'wr.dump':
    case 'sge.dump':
    case 'wc.dump':
      return 'dump';
  }
  return 'note';
}

function textOf(e: Event): string {
  const id = attr(e, 'wr_id') && ` #${attr(e, 'wr_id')}`;
  switch (kindOf(e)) {
    case 'message':
      return eventText({ event: e.event, msg: attr(e, 'message') + (attr(e, 'name') && ` “${attr(e, 'name')}”`) });
    case 'post': {
      const bytes = attr(e, 'bytes');
      const count = attr(e, 'count');
      return eventText(e) + id + (count && ` ×${count}`) + (bytes && t('report.bytes', { n: bytes }));
    }
    case 'completion': {
      const status = attr(e, 'status');
      if (status !== 'IBV_WC_SUCCESS') return status.replace('IBV_WC_', '') + id;
      const bytes = attr(e, 'byte_len');
      return attr(e, 'opcode').replace('IBV_WC_', '') + id + (bytes && t('report.bytes', { n: bytes }));
    }
    case 'dump':
      return e.event.replace('.dump', '').toUpperCase() + ' ' + (attr(e, 'qpn') || attr(e, 'opcode') || attr(e, 'addr'));
  }
  if (e.event === 'job.failed') return t('report.job.failed', { error: errorText(attr(e, 'error')) });
  return byDevice(e) ? t('report.device', { what: eventText(e) }) : eventText(e);
}

// Reports whether an event moves a queue pair to ERR although the run has succeeded: so programs end what they have posted.
const ordinaryEnd = (e: Event, data: Data) => !!data.record?.done && e.event === 'qp.transition' && !byDevice(e) && attr(e, 'to') === 'ERR' && attr(e, 'error') === '';

function failedOf(e: Event): boolean {
  if (e.event === 'job.failed') return true;
  if (e.event === 'wr.completed') return attr(e, 'status') !== 'IBV_WC_SUCCESS';
  if (e.event === 'oob.message') return attr(e, 'message') === 'error';
  if (e.event === 'qp.transition') return byDevice(e) || attr(e, 'error') !== '';
  return e.level.startsWith('ERROR');
}

/** Returns the queue pairs that belong together, by their numbers. */
export function pairsOf(data: Data): Pair[] {
  const peers = new Map<string, string>(); // "client 0x000011" to the server's number, and the other way round
  const tuples: Record<string, string[]> = {};
  for (const e of data.events) {
    if (e.event === 'qp.transition') {
      const dest = String(group(e, 'attr')['DEST_QPN'] ?? '');
      if (dest) {
        peers.set(`${e.end} ${attr(e, 'qpn')}`, dest);
        if (!peers.has(`${otherEnd(e.end)} ${dest}`)) peers.set(`${otherEnd(e.end)} ${dest}`, attr(e, 'qpn'));
      }
    } else if (e.event === 'peer.tuple') {
      (tuples[e.end + attr(e, 'side')] ??= []).push(attr(e, 'qpn'));
    }
  }
  for (const end of ['client', 'server'] as const) {
    const remote = tuples[end + 'remote'] ?? [];
    (tuples[end + 'local'] ?? []).forEach((qpn, i) => {
      const peer = remote[i];
      if (peer === undefined) return;
      if (!peers.has(`${end} ${qpn}`)) peers.set(`${end} ${qpn}`, peer);
      if (!peers.has(`${otherEnd(end)} ${peer}`)) peers.set(`${otherEnd(end)} ${peer}`, qpn);
    });
  }
  const pairs: Pair[] = [];
  for (const [key, peer] of peers) {
    const [end, qpn] = key.split(' ') as [End, string];
    const pair = end === 'client' ? { client: qpn, server: peer } : { client: peer, server: qpn };
    if (!pairs.some((p) => p.client === pair.client && p.server === pair.server)) pairs.push(pair);
  }
  return pairs;
}

export const psn = (n: number) => '0x' + n.toString(16).padStart(6, '0');
export const opcodeText = (opcode: string) => opcode.replace(/^(RC|UC|UD)_/, '').replaceAll('_', ' ');

/** What a packet is: of an acknowledgement what its AETH says. */
export const packetWhat = (p: Packet) => (p.opcode.endsWith('_ACKNOWLEDGE') && !p.opcode.includes('ATOMIC') && p.carries ? named(p.carries) : opcodeText(p.opcode));

function packetText(p: Packet): string {
  const what = p.probe ? t('report.packet.probe', { opcode: opcodeText(p.opcode) }) : packetWhat(p);
  return `${what} · PSN ${psn(p.psn)}${p.bytes > 0 ? ` · ${t('report.packet.bytes', { n: p.bytes })}` : ''}`;
}

export function build(data: Data, filter: Filter): Model {
  const times = data.events.map((e) => e.time).concat(data.packets.map((p) => p.sent || p.received || ''));
  const start = times.reduce((least, time) => (least === '' || (time !== '' && time < least) ? time : least), '');
  const last = data.packets.map((p) => p.received ?? '').concat(times).reduce((most, time) => (time > most ? time : most), '');
  const pairs = pairsOf(data);
  const pair = pairs[filter.pair];
  const wanted = (end: End, qpn: string) => !pair || qpn === '' || pair[end] === qpn;

  // Of a run that failed before its job began, the moves to ERR are all that shows where.
  const onlyMoves = !!data.record?.error && !data.events.some(failedOf);

  let rows: Row[] = [];
  data.events.forEach((e, index) => {
    const kind = kindOf(e);
    const qpn = attr(e, 'qpn') || (e.event === 'wc.dump' ? attr(e, 'qp_num') : '');
    const failed = failedOf(e) || (onlyMoves && e.event === 'qp.transition' && attr(e, 'to') === 'ERR');
    const ordinary = ordinaryEnd(e, data);
    if ((filter.hidden.has(kind) && !(failed && kind === 'object')) || !wanted(e.end, kind === 'object' && e.event === 'peer.tuple' ? '' : qpn)) return;
    rows.push({ id: `e${index}`, kind, end: e.end, at: nanoseconds(e.time, start), text: textOf(e) + (ordinary ? ` · ${t('report.ordinary')}` : ''), failed, ordinary, qpn, event: e, index, received: kind === 'message' && attr(e, 'sent') === 'false' });
  });
  if (!filter.hidden.has('packet')) {
    data.packets.forEach((packet, index) => {
      const to = otherEnd(packet.from);
      if (!wanted(to, packet.qpn)) return;
      const common = { kind: 'packet' as const, text: packetText(packet), failed: !!packet.failed || packet.icrc_computed !== undefined, packet, index };
      if (packet.sent) rows.push({ ...common, id: `p${index}s`, end: packet.from, at: nanoseconds(packet.sent, start), qpn: packet.sender_qp ?? '' });
      if (packet.received) rows.push({ ...common, id: `p${index}r`, end: to, at: nanoseconds(packet.received, start), qpn: packet.qpn, received: true });
    });
  }
  rows.sort((a, b) => a.at - b.at || order(a) - order(b));

  if (filter.folds) rows = fold(rows, messages(rows, both(data)), filter.folds);
  const arrows = [...messages(rows, both(data)), ...packets(rows), ...requests(rows, data)];
  const gaps = data.captures.flatMap((c) => (c.omitted && c.omitted_after ? [{ from: nanoseconds(c.omitted_after, start), to: c.omitted_until ? nanoseconds(c.omitted_until, start) : Infinity, packets: c.omitted }] : []));
  return { rows, arrows, stretches: stretches(rows), pairs, start, gaps, length: times.length > 0 ? nanoseconds(last, start) : 0 };
}

// At the same time a request is posted before its packet is sent, and a packet arrives before its
// request completes.
const order = (r: Row) => (r.kind === 'post' ? 0 : r.kind === 'packet' ? 1 : r.kind === 'completion' ? 2 : 0);

/** Joins each message that was sent with the same message that was received: TCP keeps the order. */
function messages(rows: Row[], both: boolean): Arrow[] {
  const arrows: Arrow[] = [];
  const waiting: Record<End, { row: number; text: string }[]> = { client: [], server: [] };
  const arrived: Record<End, { row: number; text: string }[]> = { client: [], server: [] };
  rows.forEach((r, row) => {
    if (r.kind === 'message' && !r.fold) (r.received ? arrived[r.end] : waiting[r.end]).push({ row, text: r.text });
  });
  for (const end of ['client', 'server'] as const) {
    const to = arrived[otherEnd(end)];
    let next = 0;
    for (const sent of waiting[end]) {
      let match = -1;
      for (let i = next; both && i < to.length && i < next + 4; i++) {
        if (to[i]!.text === sent.text) {
          match = i;
          break;
        }
      }
      const common = { end, kind: 'message' as const, text: sent.text, failed: rows[sent.row]!.failed, lost: false, response: false };
      if (match < 0) {
        arrows.push({ ...common, from: sent.row, to: sent.row, unseen: 'end' });
        continue;
      }
      for (; next < match; next++) arrows.push(alone(to[next]!.row));
      arrows.push({ ...common, from: sent.row, to: to[match]!.row, unseen: 'none' });
      next = match + 1;
    }
    for (; next < to.length; next++) arrows.push(alone(to[next]!.row));
    function alone(row: number): Arrow {
      const r = rows[row]!;
      return { from: row, to: row, end, kind: 'message', text: r.text, failed: r.failed, lost: false, unseen: 'begin', response: false };
    }
  }
  return arrows;
}

function packets(rows: Row[]): Arrow[] {
  const arrows: Arrow[] = [];
  const sent = new Map<Packet, number>();
  rows.forEach((r, row) => {
    const p = r.packet;
    if (!p) return;
    const common = { end: p.from, kind: 'packet' as const, text: r.text, failed: r.failed, response: !!p.response };
    if (!r.received) {
      sent.set(p, row);
      if (!p.received) arrows.push({ ...common, from: row, to: row, lost: !!p.lost, unseen: 'end' });
    } else if (!p.sent) {
      arrows.push({ ...common, from: row, to: row, lost: false, unseen: 'begin' });
    }
  });
  rows.forEach((r, row) => {
    const from = r.packet && r.received ? sent.get(r.packet) : undefined;
    if (r.packet && from !== undefined) {
      arrows.push({ end: r.packet.from, kind: 'packet', text: r.text, failed: r.failed, response: !!r.packet.response, from, to: row, lost: false, unseen: 'none' });
    }
  });
  return arrows;
}

const receives = new Set(['IBV_WC_RECV', 'IBV_WC_RECV_RDMA_WITH_IMM']);

/** Draws the requests of which no packet was captured: they are inferred from posts and completions. */
function requests(rows: Row[], data: Data): Arrow[] {
  const captured = new Set<number>();
  for (const p of data.packets) if (p.event !== undefined) captured.add(p.event);
  const arrived: Record<End, { row: number; qpn: string }[]> = { client: [], server: [] };
  const done = new Map<string, number[]>(); // rows of completions, by end, queue pair and wr_id
  const key = (r: Row) => `${r.end} ${r.qpn} ${attr(r.event!, 'wr_id')}`;
  const gaps = data.events.some((e) => e.event === 'record.gap' || e.event === 'operations.omitted');
  rows.forEach((r, row) => {
    if (r.kind !== 'completion' || r.failed) return;
    if (receives.has(attr(r.event!, 'opcode'))) arrived[r.end].push({ row, qpn: r.qpn });
    else if (done.get(key(r))?.push(row) === undefined) done.set(key(r), [row]);
  });
  const arrows: Arrow[] = [];
  const next: Record<string, number> = {};
  rows.forEach((r, row) => {
    if (r.kind !== 'post' || r.event!.verb !== 'ibv_post_send') return;
    const opcode = r.event!.msg.replace('post ', '');
    const common = { end: r.end, kind: 'request' as const, failed: false, lost: false, unseen: 'both' as const, response: false };
    const bytes = attr(r.event!, 'bytes');
    const text = opcode + (bytes && t('report.bytes', { n: bytes }));
    // The nth request that takes a receive completes the nth receive, as long as the record has all.
    let to = row;
    if (!gaps && (opcode.startsWith('SEND') || opcode.endsWith('WITH_IMM'))) {
      const list = arrived[otherEnd(r.end)];
      const n = next[r.end] ?? 0;
      next[r.end] = n + 1;
      const there = list[n]?.row;
      if (there !== undefined && there > row) to = there;
    }
    const own = done.get(key(r))?.shift();
    if (captured.has(r.index)) return;
    arrows.push({ ...common, from: row, to, text });
    if (own !== undefined && (opcode === 'RDMA_READ' || opcode.startsWith('ATOMIC'))) {
      arrows.push({ ...common, end: otherEnd(r.end), from: own, to: own, text: t('report.response', { opcode }), response: true });
    }
  });
  return arrows;
}

function stretches(rows: Row[]): Stretch[] {
  const all: Stretch[] = [];
  const open = new Map<string, Stretch>();
  rows.forEach((r, row) => {
    const e = r.event;
    if (!e) return;
    const key = `${r.end} ${r.qpn}`;
    const begin = (state: string) => {
      const old = open.get(key);
      if (old) old.to = row;
      const s = { end: r.end, qpn: r.qpn, state, ordinary: !!r.ordinary, from: row, to: rows.length };
      open.set(key, s);
      all.push(s);
    };
    if (e.event === 'qp.transition' && attr(e, 'error') === '') {
      if (!open.has(key) && attr(e, 'from')) all.push({ end: r.end, qpn: r.qpn, state: attr(e, 'from'), ordinary: false, from: Math.max(0, madeAt(rows, row)), to: row });
      begin(attr(e, 'to'));
    } else if (e.event === 'object.freed' && e.verb === 'ibv_destroy_qp') {
      const qpn = /0x[0-9a-f]+/.exec(e.msg)?.[0] ?? '';
      const old = open.get(`${r.end} ${qpn}`);
      if (old) old.to = row;
    }
  });
  return all;
}

/** Returns the row in which the queue pair of a transition was made, else that of the transition. */
function madeAt(rows: Row[], row: number): number {
  const { end, qpn } = rows[row]!;
  for (let i = row; i >= 0; i--) {
    const e = rows[i]!.event;
    if (e && rows[i]!.end === end && e.verb === 'ibv_create_qp' && rows[i]!.qpn === qpn) return i;
  }
  return row;
}
