// The selected packet: why it was sent, every header field by bit range, its ICRC, and what can be done
// to it while it is in flight.
import { useEffect, useState } from 'preact/hooks';
import type { FieldView, PacketDetail, PacketView } from '../api';
import { hex, number, time } from '../common/format';
import { FieldAbout, headersOf, outer, written, type Header } from '../common/header';
import { find, listed, t } from '../texts';
import { attempt } from './attempt';
import { EngineText, noteText } from './refusal';
import { change, get, packetDetail, perform, type State } from './store';

export function selectPacket(id: number) {
  change({ selected: id, detail: 'packet' });
}

/** The packets that a host has sent for a request. */
export const packetsOf = (state: State, host: string, qp: string | undefined, id: unknown) => state.moment.packets.filter((p) => p.from === host && p.why.qp === qp && String(p.why.wr) === String(id));

/** Reports whether a packet never arrives. */
export const lost = (p: PacketView) => p.fate === 'dropped' || p.fate === 'unrouted';

/** Reports whether a packet has arrived, and the receiver has dropped or refused it. */
export const ignored = (p: PacketView) => /^(drop|bad|refused)_|^(sequence|rnr)_naks$/.test(p.outcome);

/** What has become of a packet, in words. */
export function fateText(p: PacketView) {
  const fate = p.outcome.startsWith('refused_') ? t('ui.fate.refused') : ignored(p) ? t('ui.fate.ignored') : find(`ui.fate.${p.fate}`);
  return p.marked && p.outcome !== 'congestion_marks' ? `${fate} · ${t('ui.outcome.congestion_marks')}` : fate;
}

export function PacketPanel({ state }: { state: State }) {
  const packet = state.moment.packets.find((p) => p.id === state.selected);
  if (!packet) return <p class="empty">{t('ui.packet.none')}</p>;
  let detail: PacketDetail | undefined;
  try {
    detail = packetDetail(packet.id);
  } catch {
    // The engine keeps the frames of the newest packets only.
  }
  return <Panel packet={packet} detail={detail} />;
}

// A bit of a packet, as the user writes it.
interface Bit {
  start: number; // of the header in which it is counted
  text: string;
}

function Panel({ packet, detail }: { packet: PacketView; detail: PacketDetail | undefined }) {
  const headers = headersOf(detail?.fields ?? []);
  const first = headers.find((h) => h.name === 'payload') ?? headers.find((h) => h.name === 'BTH');
  const [field, setField] = useState<FieldView | null>(null);
  const [bit, setBit] = useState<Bit>({ start: 0, text: '0' });
  useEffect(() => {
    setField(null);
    setBit({ start: first?.start ?? 0, text: '0' });
  }, [packet.id]);
  const startOf = (f: FieldView) => headers.find((h) => h.fields.some((other) => other.bit === f.bit))?.start ?? 0;
  const choose = (f: FieldView) => {
    setField(f);
    setBit({ start: startOf(f), text: String(f.bit - startOf(f)) });
  };
  const { why } = packet;
  const flying = packet.fate === 'in flight';
  return (
    <div class="packet-panel">
      <div class="packet-summary">
        <h3><span class={`badge ${packet.from}`}>{find(`ui.host.${packet.from}`)}</span> {packet.opcode} <span class="muted">#{packet.id}</span></h3>
        <p><EngineText text={why.text} /></p>
        {flying ? <Fates packet={packet} headers={headers} bit={bit} onBit={setBit} /> : <p class="small muted">{t(packet.fate === 'delivered' ? 'ui.packet.arrived' : 'ui.packet.lost')}</p>}
        <dl class="facts">
          <div><dt>PSN</dt><dd class="mono">{hex(packet.psn)}</dd></div>
          <div><dt>{t('ui.packet.payload')}</dt><dd>{t('ui.bytes', { n: packet.bytes })}</dd></div>
          <div><dt>{t('ui.packet.sent')}</dt><dd>{time(packet.sent_ns)}</dd></div>
          <div><dt>{t('ui.packet.fate')}</dt><dd>{fateText(packet)}{flying && ` · ${t('ui.packet.arrives', { at: time(packet.arrives_ns) })}`}</dd></div>
          {packet.outcome && <div><dt>{t('ui.packet.outcome')}</dt><dd><span class={packet.outcome === 'kept' ? '' : 'bad'}>{find(`ui.outcome.${packet.outcome}`)}</span> <span class="mono small muted">{packet.outcome}</span></dd></div>}
          {packet.check && packet.outcome !== 'kept' && <div><dt>{t('ui.packet.check')}</dt><dd class="bad"><EngineText text={packet.check} /></dd></div>}
          {why.answers !== undefined && <div><dt>{t('ui.packet.answers')}</dt><dd><Other id={why.answers} /></dd></div>}
          {why.because !== undefined && <div><dt>{t('ui.packet.because')}</dt><dd><Other id={why.because} /></dd></div>}
          {packet.copy_of !== undefined && <div><dt>{t('ui.packet.copy-of')}</dt><dd><Other id={packet.copy_of} /></dd></div>}
          {detail && (
            <div><dt>ICRC</dt><dd class={detail.icrc.right ? 'mono good' : 'mono bad'}>
              {detail.icrc.carried} {detail.icrc.right ? t('ui.packet.icrc-right') : t('ui.packet.icrc-wrong', { computed: detail.icrc.computed })}
            </dd></div>
          )}
        </dl>
      </div>
      {detail && (
        <div class="packet-fields">
          <p class="field-about" aria-live="polite">
            {field
              ? <FieldAbout field={field} start={startOf(field)} words={words} />
              : <span class="muted">{t('ui.packet.choose')}</span>}
          </p>
          <Fields headers={headers} flipped={packet.flipped ?? []} marked={packet.marked ?? false} chosen={field} onChoose={choose} />
        </div>
      )}
    </div>
  );
}

const Other = ({ id }: { id: number }) => (
  <button type="button" class="plain link" onClick={() => selectPacket(id)}>{t('ui.packet.number', { id })}</button>
);

// The bits of a field, counted from the beginning of its header.
const bits = (from: number, to: number) => (from === to ? `${t('ui.packet.bit')} ${from}` : `${t('ui.packet.bits')} ${from}–${to}`);
const range = (f: FieldView, start: number) => bits(f.bit - start, f.bit - start + f.width - 1);
const words = { name: noteText, bits, about: (text: string) => <EngineText text={text} /> };

// What the network can do to a packet, without a value.
const verbs = ['drop', 'duplicate', 'reorder', 'mark', 'deliver'];
const act = (packet: PacketView, verb: string, more: object = {}) => attempt(() => perform({ do: verb, packet: packet.id, ...more }));

interface FatesProps {
  packet: PacketView;
  headers: Header<FieldView>[];
  bit: Bit;
  onBit(bit: Bit): void;
}

function Fates({ packet, headers, bit, onBit }: FatesProps) {
  const [ns, setNs] = useState('50000');
  return (
    <div class="fates" role="group" aria-label={t('ui.packet.do')}>
      {verbs.map((verb) => (
        <button type="button" class={verb === 'drop' ? 'danger' : ''} data-test={`packet.${verb}`} title={find(`ui.about.${verb}`)} onClick={() => act(packet, verb)}>{find(`ui.verb.${verb}`)}</button>
      ))}
      <span class="pair">
        <input type="text" class="mono" data-test="packet.ns" aria-label={t('ui.packet.ns')} value={ns} onInput={(e) => setNs(e.currentTarget.value)} />
        <button type="button" data-test="packet.delay" onClick={() => act(packet, 'delay', { ns: Number(number(ns)) })}>{t('ui.verb.delay')}</button>
      </span>
      <span class="pair">
        <select data-test="packet.header" aria-label={t('ui.packet.header')} value={String(bit.start)} onChange={(e) => onBit({ ...bit, start: Number(e.currentTarget.value) })}>
          {headers.map((h) => <option value={String(h.start)}>{noteText(h.name)}</option>)}
        </select>
        <input type="text" class="mono" data-test="packet.bit" aria-label={t('ui.packet.bit')} value={bit.text} onInput={(e) => onBit({ ...bit, text: e.currentTarget.value })} />
        <button type="button" data-test="packet.corrupt" onClick={() => act(packet, 'corrupt', { bit: bit.start + Number(number(bit.text)) })}>{t('ui.verb.corrupt')}</button>
      </span>
    </div>
  );
}

// In a drawn header, where a field may be narrow.
const shortNames: Record<string, string> = { PadCnt: 'Pad', Version: 'Ver' };

/** The network's acts on the selected packet, for a narrow window, where the details are elsewhere. */
export function PacketActs({ state }: { state: State }) {
  const packet = state.moment.packets.find((p) => p.id === state.selected);
  if (!packet) return null;
  return (
    <div class="wire-act" role="group" aria-label={t('ui.packet.do')} data-test="wire.act">
      <strong>#{packet.id}</strong> <span>{fateText(packet)}</span>
      <button type="button" class="small-button" data-test="wire.details" onClick={() => change({ pane: 'details', detail: 'packet' })}>{t('ui.details')}</button>
      {packet.fate === 'in flight' && [...verbs, 'delay'].map((verb) => (
        <button
          type="button" class={verb === 'drop' ? 'small-button danger' : 'small-button'} data-test={`wire.${verb}`} title={find(`ui.about.${verb}`)}
          onClick={() => act(packet, verb, verb === 'delay' ? { ns: 50_000 } : {})}
        >
          {verb === 'delay' ? t('ui.wire.delay', { by: time(50_000) }) : find(`ui.verb.${verb}`)}
        </button>
      ))}
    </div>
  );
}

interface FieldsProps {
  headers: Header<FieldView>[];
  flipped: number[];
  marked: boolean;
  chosen: FieldView | null;
  onChoose(field: FieldView): void;
}

// The headers as rows of 32 bits, each field as wide as its bits. The payload and other long fields take
// one row. The same fields are a list of buttons for the keyboard and for screen readers.
function Fields({ headers, flipped, marked, chosen, onChoose }: FieldsProps) {
  const changed = (f: FieldView) => (marked && f.name === 'ECN') || flipped.some((b) => b >= f.bit && b < f.bit + f.width);
  const around = headers.filter((h) => outer.includes(h.name));
  const show = ({ name, start, fields }: Header<FieldView>) => (
    <div class="header" role="group" key={start} aria-label={noteText(name)}>
      <h4>{noteText(name)}</h4>
      <div class="bits-grid">
        {fields.map((f) => {
          const wide = Math.min(32, f.width);
          const value = written(f);
          return (
            <button
              type="button" key={f.bit} style={{ gridColumn: `span ${wide}` }} data-test={`field.${f.header}.${f.name}`} aria-pressed={chosen?.bit === f.bit}
              class={`cell ${changed(f) ? 'wrong' : ''} ${wide < 6 ? 'narrow' : ''}`} title={`${noteText(f.name)} = ${value}${f.meaning ? ` (${noteText(f.meaning)})` : ''}`}
              onClick={() => onChoose(f)}
            >
              <span class="cell-name">{shortNames[f.name] ?? noteText(f.name)}</span>
              <span class="cell-value">{value.length > 24 ? `${value.slice(0, 22)}…` : value}</span>
              <span class="hidden">, {range(f, start)}{f.meaning && `, ${noteText(f.meaning)}`}</span>
            </button>
          );
        })}
      </div>
    </div>
  );
  return (
    <div class="headers">
      {headers.filter((h) => !around.includes(h)).map(show)}
      <details class="outer" open={around.some((h) => h.fields.some(changed))}>
        <summary data-test="packet.outer">{t('ui.packet.outer', { names: listed(around.map((h) => h.name)) })}</summary>
        {around.map(show)}
      </details>
    </div>
  );
}

/** Selects the packet before or after the selected one. */
export function selectNext(by: 1 | -1) {
  const { moment, selected } = get();
  const { packets } = moment;
  const at = packets.findIndex((p) => p.id === selected);
  const next = at < 0 ? packets.at(-1) : packets[at + by];
  if (next) selectPacket(next.id);
}
