// What the card of an object shows, by kind: memory as bytes, a CQ as its completions, and so on.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { AHView, Completion, CQView, MRView, MWView, SRQView } from '../api';
import { bytes, hex } from '../common/format';
import { t } from '../texts';
import { Recv } from './qp';
import { intoView } from './view';

const perRow = 8;
const mostRows = 8;

/** Memory: the rows that have something in them, and its keys. */
export function Region({ mr, name }: { mr: MRView; name: string }) {
  return (
    <>
      <Memory mr={mr} name={name} />
      <Facts>
        <Fact name="lkey" value={mr.lkey} />
        <Fact name="rkey" value={mr.rkey} />
        <Fact name="addr" value={mr.addr} />
        <Fact name="length" value={String(mr.length)} />
      </Facts>
      {mr.rkey === mr.lkey && <p class="small muted" data-test="one-key">{t('ui.mr.one-key')}</p>}
      <p class="access">{mr.access.map((a) => <span class="chip">{a}</span>)}{mr.access.length === 0 && <span class="chip">{t('ui.mr.read-only')}</span>}</p>
    </>
  );
}

// Bytes that have changed scroll into view.
function Memory({ mr, name }: { mr: MRView; name: string }) {
  const data = bytes(mr.bytes);
  const fresh = (i: number) => mr.changed.some(([offset, length]) => i >= offset && i < offset + length);
  const rows: number[] = [];
  for (let at = 0; at < data.length && rows.length <= mostRows; at += perRow) {
    const row = data.subarray(at, at + perRow);
    if (row.some((b) => b !== 0) || mr.changed.some(([o, l]) => o < at + perRow && o + l > at)) rows.push(at);
  }
  const box = useRef<HTMLTableElement>(null);
  const changes = mr.changed.join(' ');
  useEffect(() => {
    if (changes) intoView(box.current);
  }, [changes]);
  if (rows.length === 0) return <p class="small muted">{t('ui.mr.zero')}</p>;
  return (
    <table class="memory" ref={box}>
      <caption class="hidden">{t('ui.mr.bytes', { name })}</caption>
      <thead class="hidden"><tr><th scope="col">{t('ui.f.offset')}</th><th scope="col">hex</th><th scope="col">ASCII</th></tr></thead>
      <tbody>
        {rows.slice(0, mostRows).map((at) => {
          const row = [...data.subarray(at, at + perRow)];
          return (
            <tr key={at}>
              <th scope="row">+{at}</th>
              <td>{row.map((b, i) => <span class={fresh(at + i) ? 'fresh' : b === 0 ? 'zero' : ''}>{b.toString(16).padStart(2, '0')} </span>)}</td>
              <td>{row.map((b, i) => <span class={fresh(at + i) ? 'fresh' : ''}>{b >= 32 && b < 127 ? String.fromCharCode(b) : '·'}</span>)}</td>
            </tr>
          );
        })}
      </tbody>
      {rows.length > mostRows && <tfoot><tr><td colSpan={3} class="muted">{t('ui.mr.more')}</td></tr></tfoot>}
    </table>
  );
}

/** How full a completion queue is, for the head of its card. */
export function Depth({ cq }: { cq: CQView }) {
  return (
    <span class="small muted">
      {t('ui.cq.depth', { n: cq.completions.length, depth: cq.depth })}
      {cq.armed && <> · <span class="badge">{t(cq.armed === 'any' ? 'ui.cq.armed' : 'ui.cq.armed-solicited')}</span></>}
      {cq.events > 0 && <> · <span class="badge">{t('ui.cq.events', { n: cq.events })}</span></>}
      {cq.unacked > 0 && <> · <span class="badge">{t('ui.cq.unacked', { n: cq.unacked })}</span></>}
      {cq.overrun && <> · <strong class="bad">{t('ui.cq.overrun')}</strong></>}
    </span>
  );
}

export function Queue({ cq }: { cq: CQView }) {
  const shown = cq.completions.slice(0, 12);
  return (
    <>
      {shown.length > 0 && <ol class="completions">{shown.map((wc, i) => <CompletionRow key={i} wc={wc} />)}</ol>}
      {cq.completions.length > shown.length && <p class="small muted">{t('ui.more', { n: cq.completions.length - shown.length })}</p>}
    </>
  );
}

export function CompletionRow({ wc, children }: { wc: Completion; children?: ComponentChildren }) {
  const good = wc.status === 'SUCCESS';
  return (
    <li class={good ? 'wr good' : 'wr bad'}>
      <span class="wr-id">{String(wc.id)}</span>
      <span class="wr-op">{wc.status}</span>
      <span class="wr-size">{[wc.opcode, wc.byte_len !== undefined ? t('ui.bytes', { n: wc.byte_len }) : '', wc.imm !== undefined ? `imm ${wc.imm}` : '', wc.invalidated_rkey !== undefined ? t('ui.wc.invalidated', { rkey: hex(Number(wc.invalidated_rkey), 0) }) : '', wc.qp].filter(Boolean).join(' · ')}</span>
      {children}
    </li>
  );
}

export function SharedQueue({ srq }: { srq: SRQView }) {
  return (
    <>
      <p class="small">{t('ui.srq.about', { n: srq.recvs.length, max: srq.max_wr, limit: srq.limit })}</p>
      {srq.recvs.length > 0 && <ol class="queue-list">{srq.recvs.map((recv, i) => <Recv key={i} recv={recv} />)}</ol>}
    </>
  );
}

export function AddressHandle({ ah }: { ah: AHView }) {
  return <Facts><Fact name="gid" value={ah.gid} /></Facts>;
}

export function Window({ mw }: { mw: MWView }) {
  return (
    <Facts>
      <Fact name="type" value={String(mw.type)} />
      <Fact name="rkey" value={mw.rkey} />
      <Fact name="addr" value={mw.bound ? mw.addr : t('ui.mw.unbound')} />
      {mw.bound && <Fact name="length" value={String(mw.length)} />}
      {mw.bound && <Fact name="access" value={mw.access.join(' ')} />}
    </Facts>
  );
}

const Facts = ({ children }: { children: ComponentChildren }) => <dl class="facts">{children}</dl>;
const Fact = ({ name, value }: { name: string; value: string }) => <div><dt>{name}</dt><dd class="mono">{value}</dd></div>;
