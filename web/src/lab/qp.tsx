// A queue pair: its ladder, its queues, its PSN windows and timers, its attributes.
import type { AttrView, HostView, ObjectView, QPView, RecvView, SendView, Tables } from '../api';
import { hex, time } from '../common/format';
import { find, listed, t } from '../texts';
import { Ladder, undrawn } from './ladder';
import { openModify } from './modify';
import { noteText } from './refusal';

interface Props {
  host: HostView;
  object: ObjectView;
  qp: QPView;
  tables: Tables;
  now: number;
}

export function QueuePair({ host, object, qp, tables, now }: Props) {
  const missing = undrawn(tables.transitions[qp.type] ?? [], qp.state);
  return (
    <>
      <Ladder
        name={object.name} prefix={`${host.name}.${object.name}`} state={qp.state} program={qp.program_state}
        states={tables.states} moves={tables.transitions[qp.type] ?? []} onMove={(to) => openModify(host, object.name, to, tables)}
      />
      {missing.length > 0 && <p class="small muted undrawn">{t('ui.ladder.undrawn', { moves: listed(missing) })}</p>}
      {qp.state !== qp.program_state && <p class="note-box">{t('ui.qp.differs', { state: qp.state, program: qp.program_state })}</p>}
      {qp.timer && <Timer qp={qp} now={now} />}
      {qp.sends.length > 0 && qp.sends.length >= (qp.cap.send_wr ?? 0) && <p class="note-box">{t('ui.qp.full')}</p>}
      {qp.draining && <p class="note-box">{t('ui.qp.draining')}</p>}
      <div class="queues">
        <Queue title={t('ui.qp.sends')} empty={t('ui.qp.no-sends')} places={qp.cap.send_wr}>
          {qp.sends.map((send, i) => <Send key={i} send={send} quiet={!qp.sig_all} />)}
        </Queue>
        {qp.srq
          ? <p class="small muted">{t('ui.qp.srq', { srq: qp.srq })}</p>
          : <Queue title={t('ui.qp.recvs')} empty={t('ui.qp.no-recvs')}>
              {qp.taken && <Recv recv={qp.taken} taken />}
              {qp.recvs.map((recv, i) => <Recv key={i} recv={recv} />)}
            </Queue>}
      </div>
      {qp.state !== 'RESET' && qp.state !== 'INIT' && qp.type !== 'UD' && <PSNWindows qp={qp} />}
      <Attributes attrs={qp.attrs} name={object.name} />
    </>
  );
}

function Queue({ title, empty, places, children }: { title: string; empty: string; places?: number; children: unknown }) {
  const list = [children].flat(2).filter(Boolean);
  return (
    <div class={list.length > 0 ? 'queue' : 'queue none'} role="group" aria-label={title}>
      <h4>{title} <span class="count">{places && list.length > 0 ? `${list.length}/${places}` : list.length}</span></h4>
      {list.length > 0 ? <ol>{list as never}</ol> : <p class="hidden">{empty}</p>}
    </div>
  );
}

// A request is quiet if it completes only when it fails. One that is done keeps its place until a poll frees it.
function Send({ send, quiet }: { send: SendView; quiet: boolean }) {
  const part = (n: number) => `${(100 * n) / Math.max(1, send.packets)}%`;
  return (
    <li class={`wr${send.done ? ' done' : ''}${send.status ? ' bad' : ''}`}>
      <span class="wr-id">{String(send.id)}</span>
      <span class="wr-op">{send.opcode}</span>
      <span class="wr-size">{[send.flags.includes('FENCE') && 'FENCE', quiet && send.flags.includes('SIGNALED') && 'SIGNALED', send.status ?? (send.done ? t('ui.wr.done') : t('ui.bytes', { n: send.length }))].filter(Boolean).join(' · ')}</span>
      <span class="progress" hidden={send.done} role="img" aria-label={t('ui.wr.progress', { sent: send.sent, acked: send.acked, n: send.packets })}>
        <i class="sent" style={{ width: part(send.sent) }} />
        <i class="acked" style={{ width: part(send.acked) }} />
      </span>
    </li>
  );
}

export function Recv({ recv, taken }: { recv: RecvView; taken?: boolean }) {
  const length = recv.sgl.reduce((sum, e) => sum + e.length, 0);
  return (
    <li class={taken ? 'wr taken' : 'wr'}>
      <span class="wr-id">{String(recv.id)}</span>
      <span class="wr-op">{taken ? t('ui.wr.taken') : recv.sgl.map((e) => `${e.mr}+${e.offset}`).join(', ') || t('ui.wr.no-memory')}</span>
      <span class="wr-size">{t('ui.bytes', { n: length })}</span>
    </li>
  );
}

function Timer({ qp, now }: { qp: QPView; now: number }) {
  const { timer } = qp;
  const left = Math.max(0, timer!.ends_ns - now);
  const forever = timer!.kind === 'rnr wait' && parseInt(qp.attrs.find((a) => a.bit === 'RNR_RETRY')?.text ?? '', 10) === 7;
  const about = t(forever ? 'ui.timer.forever' : 'ui.timer', { left: time(left), retries: timer!.kind === 'ack timeout' ? qp.retries : qp.rnr_retries });
  const whole = timerLength(qp) ?? left;
  const part = whole > 0 ? Math.min(1, left / whole) : 0;
  return (
    <div class="timer" role="img" aria-label={t('ui.labelled', { name: find(`ui.timer.${timer!.kind}`), text: about })}>
      <span>{find(`ui.timer.${timer!.kind}`)}</span>
      <span class="bar"><i style={{ width: `${part * 100}%` }} /></span>
      <span class="mono">{about}</span>
    </div>
  );
}

// How long the ACK timeout runs, read from the attribute's text: "10 (4.194304ms)".
function timerLength(qp: QPView): number | undefined {
  if (qp.timer?.kind !== 'ack timeout') return undefined;
  const exponent = parseInt(qp.attrs.find((a) => a.bit === 'TIMEOUT')?.text ?? '', 10);
  return exponent > 0 ? 4096 * 2 ** exponent : undefined;
}

// The PSN windows as a strip: acknowledged, in flight, free, and what the responder expects. Before RTS nothing is numbered,
// on UC nothing is acknowledged, and in ERR nothing waits any more.
function PSNWindows({ qp }: { qp: QPView }) {
  const { psn } = qp;
  const sends = qp.attrs.some((a) => a.bit === 'SQ_PSN' && a.source.from !== 'reset');
  const acks = sends && qp.type === 'RC' && qp.state !== 'ERR';
  const cells = 32;
  const away = (n: number) => (n - psn.una) & 0xffffff;
  const flight = away(psn.next);
  const again = away(psn.max);
  const kind = (i: number) => (i < flight ? 'flight' : i < again ? 'again' : i < psn.window ? 'free' : 'beyond');
  const una = psn.una === psn.max ? t('ui.psn.none') : hex(psn.una);
  const about = t(acks ? 'ui.psn.about' : sends ? 'ui.psn.about-next' : 'ui.psn.about-rtr', { una, next: hex(psn.next), flight: psn.in_flight, window: psn.window, expected: hex(psn.expected) });
  return (
    <div class="psn" role="group" aria-label={about}>
      <h4>{t('ui.psn')}</h4>
      {acks && (
        <svg viewBox="0 0 320 16" aria-hidden="true" preserveAspectRatio="none">
          {Array.from({ length: cells }, (_, i) => <rect key={i} class={kind(i)} x={i * 10 + 0.5} y="2" width="8.600" height="12" rx="2" />)}
        </svg>
      )}
      <dl>
        {acks && <div><dt>{t('ui.psn.una')}</dt><dd>{una}</dd></div>}
        {sends && <div><dt>{t('ui.psn.next')}</dt><dd>{hex(psn.next)}</dd></div>}
        {acks && (
          <div>
            <dt hidden>{t('ui.psn.flight')}</dt>
            <dd>
              <details>
                <summary title={t('ui.psn.window', { window: psn.window })}><span>{t('ui.psn.flight')}</span> {t('ui.psn.flight.value', { n: psn.in_flight, window: psn.window })}</summary>
                {t('ui.psn.window.about')}
              </details>
            </dd>
          </div>
        )}
        <div><dt>{t('ui.psn.expected')}</dt><dd>{hex(psn.expected)}</dd></div>
      </dl>
    </div>
  );
}

// A text that breaks behind a sign.
const parted = (text: string, at: string) => text.split(at).map((part, i) => (i === 0 ? part : <>{at}<wbr />{part}</>));

function Attributes({ attrs, name }: { attrs: AttrView[]; name: string }) {
  const set = attrs.filter((a) => a.source.from !== 'reset').length;
  return (
    <details class="attributes">
      <summary>{t('ui.attrs', { set, n: attrs.length })}</summary>
      <table>
        <caption class="hidden">{t('ui.attrs.of', { name })}</caption>
        <thead><tr><th scope="col">{t('ui.attrs.field')}</th><th scope="col">{t('ui.attrs.value')}</th><th scope="col">{t('ui.attrs.source')}</th></tr></thead>
        <tbody>
          {attrs.map((a) => (
            <tr key={a.bit} class={a.changed ? 'changed' : ''}>
              <th scope="row" class="mono">{parted(a.field, '_')}</th>
              <td class="mono">{parted(noteText(a.text), '|')}</td>
              <td><span class={`source ${a.source.from}`}>{find(`ui.from.${a.source.from}`)}</span></td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
