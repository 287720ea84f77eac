// Everything that is known of one row.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { FieldAbout, headersOf, outer, written, type HeaderField } from '../common/header';
import { attr, group, nanoseconds, otherEnd, type Data, type Event, type Packet, type Value } from './data';
import { opcodeText, psn, type Model, type Row } from './model';
import { Quoted } from '../common/quoted';
import { duration, errorText, eventText, moment, named, plain, t, translated, type Key } from './texts';

interface Props {
  row: Row;
  data: Data;
  model: Model;
  select(id: string): void;
  close(): void;
}

export function Details({ row, data, model, select, close }: Props) {
  const e = row.event;
  return (
    <section class={`details ${row.end}`} aria-label={t('report.details')} data-test="details" tabIndex={-1}>
      <header>
        <p class="kind">
          <span class={`tag ${row.end}`}>{t(`report.${row.end}`)}</span> {t(`report.one.${row.kind}` as Key)}
        </p>
        <button class="quiet" onClick={close} aria-label={t('report.close')} title={t('report.close')} data-test="close">
          ✕
        </button>
        <h2 class={row.failed ? 'failed' : ''}>{row.text}</h2>
      </header>
      {e && <EventDetails e={e} row={row} data={data} select={select} />}
      {row.packet && <PacketDetails p={row.packet} data={data} model={model} select={select} />}
    </section>
  );
}

function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl>
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

const clock = (time: string) => time.slice(11, -1);

function EventDetails({ e, row, data, select }: { e: Event; row: Row; data: Data; select(id: string): void }) {
  const facts: [string, ComponentChildren][] = [[t('report.time'), `${clock(e.time)} UTC · ${t('report.after', { time: moment(row.at) })}`]];
  if (e.verb === 'tcp') facts.push([t('report.carrier'), t('report.carrier.tcp')]);
  else if (e.verb) facts.push([t('report.call'), <code>{e.verb}</code>]);
  facts.push([t('report.kindname'), <code>{e.event}</code>]);
  if (e.who !== e.end) facts.push([t('report.who'), e.who]);
  const error = attr(e, 'error');
  const packets = e.event === 'wr.posted' ? packetsOf(data, row.index) : [];
  return (
    <>
      {e.event === 'qp.transition' && error && (
        <div class="notice">
          <strong>{t('report.refused')}</strong>
          <p><Hint text={error} /></p>
        </div>
      )}
      {data.record?.error && e.event === 'qp.transition' && attr(e, 'to') === 'ERR' && !error && e.verb && <p class="notice" data-test="cleanup">{t('report.cleanup', { error: errorText(data.record.error) })}</p>}
      <HintOf e={e} data={data} />
      {e.event === 'wr.posted' && e.verb === 'ibv_post_send' && packets.length === 0 && <p class="remark">{t('report.arrow.inferred')}</p>}
      <Facts rows={facts} />
      {e.event === 'qp.transition' && <Changed e={e} row={row} data={data} />}
      {packets.length > 0 && (
        <>
          <h3>{t('report.request.packets')}</h3>
          <ul class="links">
            {packets.slice(0, 12).map(([p, i]) => (
              <li key={i}>
                <button class="link" onClick={() => select(`p${i}${p.sent ? 's' : 'r'}`)}>
                  {opcodeText(p.opcode)} · PSN {psn(p.psn)}
                </button>
              </li>
            ))}
            {packets.length > 12 && <li>{t('report.more', { n: packets.length - 12 })}</li>}
          </ul>
        </>
      )}
      <Attributes e={e} />
    </>
  );
}

function packetsOf(data: Data, event: number): [Packet, number][] {
  return data.packets.map((p, i): [Packet, number] => [p, i]).filter(([p]) => p.event === event);
}

/** Explains a status that is an error, or an event of the device. */
function HintOf({ e, data }: { e: Event; data: Data }) {
  const name = e.event === 'wr.completed' ? attr(e, 'status') : e.event === 'async.event' ? /IBV_EVENT_\w+/.exec(e.msg)?.[0] ?? '' : '';
  const hint = name !== 'IBV_WC_SUCCESS' ? data.hints[name] : undefined;
  if (!hint) return null;
  return (
    <div class="notice" data-test="hint">
      <strong>
        {name}: <Hint text={hint.text} />
      </strong>
      <h3>{t('report.hint')}</h3>
      <p><Hint text={hint.cause} /></p>
      <h3>{t('report.remedy')}</h3>
      <p><Hint text={hint.remedy} /></p>
    </div>
  );
}

/** A text from Go, which says so if it is English in a page of another language. */
export const Hint = ({ text }: { text: string }) => <Quoted text={plain(text)} translation={translated(text) && plain(translated(text)!)} note={t('report.english')} />;

/** The attributes of a transition, with the values that the queue pair had before. */
function Changed({ e, row, data }: { e: Event; row: Row; data: Data }) {
  const values = group(e, 'attr');
  const names = Object.keys(values);
  if (names.length === 0) return null;
  const before: { [name: string]: Value } = {};
  for (const old of data.events.slice(0, row.index)) {
    if (old.end === e.end && attr(old, 'qpn') === attr(e, 'qpn') && (old.event === 'qp.dump' || (old.event === 'qp.transition' && attr(old, 'error') === ''))) Object.assign(before, group(old, 'attr'));
  }
  return (
    <>
      <h3>{t('report.changed')}</h3>
      <table data-test="changed">
        <thead>
          <tr>
            <th>{t('report.bit')}</th>
            <th>{t('report.before')}</th>
            <th>{t('report.value')}</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => (
            <tr key={name} class={String(before[name] ?? '') !== String(values[name]) ? 'changed' : ''}>
              <th scope="row">
                <code>{name}</code>
              </th>
              <td class="old">{String(before[name] ?? '–')}</td>
              <td>{String(values[name])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function Attributes({ e }: { e: Event }) {
  const own = Object.entries(e.attrs ?? {}).filter(([name, value]) => value !== '' && !(e.event === 'qp.transition' && (name === 'attr' || name === 'error')));
  if (own.length === 0) return null;
  return (
    <>
      <h3>{t('report.attributes')}</h3>
      <table>
        <tbody>
          {own.flatMap(([name, value]) =>
            (typeof value === 'object' ? Object.entries(value).map(([inner, v]): [string, Value] => [inner, v]) : [[name, value] as [string, Value]]).map(([key, v]) => (
              <tr key={name + key}>
                <th scope="row">
                  <code>{key.replace(/_ns$/, '')}</code>
                </th>
                <td>{typeof v === 'object' ? JSON.stringify(v) : attribute(key, v)}</td>
              </tr>
            )),
          )}
        </tbody>
      </table>
    </>
  );
}

const attribute = (name: string, value: Value) => (name.endsWith('_ns') && typeof value === 'number' ? duration(value) : String(value));

function PacketDetails({ p, data, model, select }: { p: Packet; data: Data; model: Model; select(id: string): void }) {
  const all = data.shapes[p.shape]?.fields ?? [];
  const to = otherEnd(p.from);
  const seen = (time: string | undefined) => (time ? `${clock(time)} UTC · ${t('report.after', { time: moment(nanoseconds(time, model.start)) })}` : <em>{t('report.seen.inferred')}</em>);
  const post = p.event === undefined ? undefined : data.events[p.event];
  const end = Math.max(0, ...all.map((f) => f.bit + f.width));
  const payload = p.head.slice(end / 4);
  return (
    <>
      {p.lost && <p class="notice">{t('report.lost', { end: t(`report.${to}`) })}</p>}
      {p.again && <p class="notice">{t('report.again')}</p>}
      {p.probe && <p class="remark">{t('report.probe')}</p>}
      <Facts
        rows={[
          [t('report.seen.sent', { end: t(`report.${p.from}`) }), seen(p.sent)],
          [t('report.seen.received', { end: t(`report.${to}`) }), p.lost ? '–' : seen(p.received)],
          ...(p.icrc ? [['ICRC', p.icrc_computed ? t('report.icrc.wrong', { icrc: p.icrc, computed: p.icrc_computed }) : t('report.icrc.right', { icrc: p.icrc })] as [string, string]] : []),
          ...(p.carries ? [[t('report.carries'), named(p.carries)] as [string, string]] : []),
        ]}
      />
      {post && (
        <>
          <h3>{t('report.request')}</h3>
          <button class="link" onClick={() => select(`e${p.event}`)}>
            {eventText(post)} #{attr(post, 'wr_id')}
          </button>
        </>
      )}
      {payload && (
        <>
          <h3>{t('report.payload')}</h3>
          <pre data-test="payload">{dump(payload)}</pre>
        </>
      )}
      <Fields key={`${p.from} ${p.psn} ${p.sent ?? p.received}`} p={p} data={data} />
    </>
  );
}

// Bytes as hexadecimal digits, eight per line, and as text.
function dump(hex: string): string {
  const line = (digits: string) => `${digits.replace(/../g, '$& ').padEnd(25)}${digits.replace(/../g, (byte) => (/[2-6].|7[^f]/.test(byte) ? String.fromCharCode(parseInt(byte, 16)) : '.'))}`;
  return hex.match(/.{1,16}/g)!.map(line).join('\n');
}

const bits = (from: number, to: number) => (from === to ? String(from) : `${from}–${to}`);
const words = { name: named, bits: (from: number, to: number) => t(from === to ? 'report.field.bit' : 'report.field.bits', { bits: bits(from, to) }), about: (text: string) => <Hint text={text} /> };

/** The header fields. A press on one says what it means. */
function Fields({ p, data }: { p: Packet; data: Data }) {
  const [chosen, choose] = useState<number>();
  const all = (data.shapes[p.shape]?.fields ?? []).map((f, i): HeaderField => ({ ...f, value: valueOf(p.head, f.bit, f.width), ...(p.meanings?.[i] && { meaning: p.meanings[i] }) }));
  const headers = headersOf(all);
  return (
    <>
      <h3>{t('report.fields')}</h3>
      <p class="muted">{t('report.choose')}</p>
      <table class="fields" data-test="fields">
        {[...headers.filter((h) => !outer.includes(h.name)), ...headers.filter((h) => outer.includes(h.name))].map(({ name, start, fields }) => (
          <tbody key={start}>
            <tr class="header"><th colSpan={3} scope="rowgroup">{named(name)}</th></tr>
            {fields.map((f) => (
              <>
                <tr key={f.bit}>
                  <th scope="row"><button class="link" aria-expanded={chosen === f.bit} onClick={() => choose(chosen === f.bit ? undefined : f.bit)}>{named(f.name)}</button></th>
                  <td class="bits">{bits(f.bit - start, f.bit - start + f.width - 1)}</td>
                  <td><code>{written(f)}</code>{f.meaning && <span class="meaning"> {named(f.meaning)}</span>}</td>
                </tr>
                {chosen === f.bit && <tr class="about"><td colSpan={3} aria-live="polite" data-test="field-about"><FieldAbout field={f} start={start} words={words} /></td></tr>}
              </>
            ))}
          </tbody>
        ))}
      </table>
    </>
  );
}

/** Cuts the bits of a field out of the packet, as hexadecimal digits. */
function valueOf(head: string, bit: number, width: number): string {
  let n = 0n;
  for (let i = bit >> 3; i < (bit + width + 7) >> 3; i++) n = (n << 8n) | BigInt(parseInt(head.slice(2 * i, 2 * i + 2), 16) || 0);
  const after = (8 - ((bit + width) & 7)) & 7;
  n = (n >> BigInt(after)) & ((1n << BigInt(width)) - 1n);
  return n.toString(16).padStart(Math.ceil(width / 4), '0');
}
