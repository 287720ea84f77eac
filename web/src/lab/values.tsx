// The values of modify_qp's attributes: how each begins, its input, and what it becomes in the action.
import type { ComponentChildren } from 'preact';
import type { AV, QPView, Tables, ToldView } from '../api';
import { hex, number, time } from '../common/format';
import { t } from '../texts';

/** What the form has for one bit. */
export interface Entry {
  source: 'own' | 'peer';
  text: string;
  list?: string[];
  flag?: boolean;
  av?: Partial<Record<Exclude<keyof AV, 'gid' | 'local'>, string>>;
}

const fromPeer = new Set(['AV', 'PATH_MTU', 'RQ_PSN', 'DEST_QPN']);
const valueless = new Set(['ALT_PATH', 'PATH_MIG_STATE', 'CAP']);
const remoteAccess = ['REMOTE_READ', 'REMOTE_WRITE', 'REMOTE_ATOMIC'];
const usual: Record<string, string> = {
  CUR_STATE: 'RTS', PKEY_INDEX: '0', PORT: '1', QKEY: '0x11111111', AV: '10.0.0.2', PATH_MTU: '1024', TIMEOUT: '14', RETRY_CNT: '7', RNR_RETRY: '7',
  RQ_PSN: '0x100', MAX_QP_RD_ATOMIC: '1', MIN_RNR_TIMER: '12', SQ_PSN: '0x100', MAX_DEST_RD_ATOMIC: '1', DEST_QPN: '0x11', RATE_LIMIT: '0',
};
const avFields = ['sgid_index', 'port', 'hop_limit', 'traffic_class', 'flow_label'] as const;

/** The value of a bit that the queue pair has, or else the usual one. For SQ_PSN, "peer" means: what this end told the peer, which may be nothing. */
export function startOf(bit: string, qp: QPView): Entry {
  const peer = fromPeer.has(bit) || (bit === 'SQ_PSN' && qp.told_psn !== null);
  const start: Entry = { source: peer ? 'peer' : 'own', text: usual[bit] ?? '0', list: remoteAccess, flag: true };
  const has = qp.attrs.find((attr) => attr.bit === bit && attr.source.from === 'own');
  if (!has || bit === 'AV') return start;
  const [text = start.text] = has.text.split(' '); // "14 (67.1 ms)"
  return { ...start, source: 'own', text, list: remoteAccess.filter((flag) => has.text.split('|').includes(flag)) };
}

/** The value for the action; undefined if only the bit counts. */
export function valueOf(bit: string, entry: Entry): unknown {
  if (valueless.has(bit)) return undefined;
  switch (bit) {
    case 'ACCESS_FLAGS': return entry.list;
    case 'EN_SQD_ASYNC_NOTIFY': return entry.flag;
    case 'CUR_STATE': return entry.text;
    case 'SQ_PSN': return entry.source === 'peer' ? 'own' : Number(number(entry.text));
    case 'AV': return avOf(entry);
    default: return entry.source === 'peer' ? 'peer' : Number(number(entry.text));
  }
}

function avOf(entry: Entry): string | AV {
  const more = Object.entries(entry.av ?? {}).filter(([, text]) => text !== '');
  const local = entry.flag === false;
  if (entry.source === 'peer' && more.length === 0 && !local) return 'peer';
  return {
    gid: entry.source === 'peer' ? 'peer' : entry.text,
    ...Object.fromEntries(more.map(([key, text]) => [key, Number(number(text ?? ''))])),
    ...(local ? { local: true } : {}),
  };
}

interface Props {
  bit: string;
  entry: Entry;
  onChange(entry: Entry): void;
  told: ToldView | undefined;
  toldPSN: number | null;
  tables: Tables;
}

export function BitValue({ bit, entry, onChange, told, toldPSN, tables }: Props) {
  const test = `value.${bit}`;
  const input = (
    <input
      type="text" class="mono" data-test={test} aria-label={bit} value={entry.text} autocomplete="off" spellcheck={false}
      onInput={(event) => onChange({ ...entry, text: event.currentTarget.value })}
    />
  );
  if (valueless.has(bit)) return null;
  if (bit === 'ACCESS_FLAGS') {
    return (
      <Line>
        {remoteAccess.map((flag) => (
          <label class="inline-check">
            <input
              type="checkbox" data-test={`${test}.${flag}`} checked={entry.list?.includes(flag)}
              onChange={(event) => onChange({ ...entry, list: remoteAccess.filter((f) => (f === flag ? event.currentTarget.checked : entry.list?.includes(f))) })}
            />
            {flag}
          </label>
        ))}
      </Line>
    );
  }
  if (bit === 'EN_SQD_ASYNC_NOTIFY') {
    return (
      <Line>
        <label class="inline-check">
          <input type="checkbox" data-test={test} checked={entry.flag} onChange={(event) => onChange({ ...entry, flag: event.currentTarget.checked })} />
          {t('ui.value.notify')}
        </label>
      </Line>
    );
  }
  if (bit === 'CUR_STATE' || (bit === 'PATH_MTU' && entry.source === 'own')) {
    const options = bit === 'CUR_STATE' ? tables.states : ['256', '512', '1024', '2048', '4096'];
    const select = (
      <select data-test={test} aria-label={bit} value={entry.text} onChange={(event) => onChange({ ...entry, text: event.currentTarget.value })}>
        {options.map((option) => <option>{option}</option>)}
      </select>
    );
    return bit === 'CUR_STATE' ? <Line>{select}</Line> : <Line><SourceChoice bit={bit} entry={entry} onChange={onChange} />{select}</Line>;
  }
  if (fromPeer.has(bit) || (bit === 'SQ_PSN' && toldPSN !== null) || bit === 'QKEY') {
    return (
      <>
        <Line>
          <SourceChoice bit={bit} entry={entry} onChange={onChange} />
          {entry.source === 'own' ? input : <span class="value-text" data-test={test}>{peerText(bit, told, toldPSN)}</span>}
        </Line>
        {bit === 'AV' && <Path entry={entry} onChange={onChange} />}
      </>
    );
  }
  return <Line>{input}{meaning(bit, entry.text, tables)}</Line>;
}

const Line = ({ children }: { children: ComponentChildren }) => <div class="bit-value">{children}</div>;

function SourceChoice({ bit, entry, onChange }: Pick<Props, 'bit' | 'entry' | 'onChange'>) {
  return (
    <select
      data-test={`source.${bit}`} aria-label={t('ui.value.source', { bit })} value={entry.source}
      onChange={(event) => onChange({ ...entry, source: event.currentTarget.value as Entry['source'] })}
    >
      <option value="peer">{t(bit === 'SQ_PSN' ? 'ui.source.told' : 'ui.source.peer')}</option>
      <option value="own">{t('ui.source.own')}</option>
    </select>
  );
}

// The fields of the address vector besides the GID.
function Path({ entry, onChange }: Pick<Props, 'entry' | 'onChange'>) {
  return (
    <details class="path">
      <summary data-test="av.more">{t('ui.value.av')}</summary>
      <div class="field-row">
        {avFields.map((key) => (
          <label class="field">
            <span>{key}</span>
            <input
              type="text" class="mono" data-test={`value.AV.${key}`} value={entry.av?.[key] ?? ''} placeholder={{ sgid_index: '1', port: '1', hop_limit: '64' }[key as string] ?? '0'}
              onInput={(event) => onChange({ ...entry, av: { ...entry.av, [key]: event.currentTarget.value } })}
            />
          </label>
        ))}
      </div>
      <label class="inline-check">
        <input type="checkbox" data-test="value.AV.local" checked={entry.flag === false} onChange={(event) => onChange({ ...entry, flag: !event.currentTarget.checked })} />
        {t('ui.value.local')}
      </label>
    </details>
  );
}

// What was told, for a bit that takes it.
function peerText(bit: string, told: ToldView | undefined, toldPSN: number | null): string {
  if (bit === 'SQ_PSN') return hex(toldPSN ?? 0);
  if (!told) return t('ui.value.nothing-told');
  switch (bit) {
    case 'AV': return told.gid;
    case 'PATH_MTU': return String(told.mtu);
    case 'RQ_PSN': return hex(told.psn);
    case 'DEST_QPN': return hex(told.qpn);
    default: return hex(told.qkey, 8);
  }
}

function meaning(bit: string, text: string, tables: Tables) {
  const n = Number(number(text));
  const table = bit === 'TIMEOUT' ? tables.ack_timeouts_ns : bit === 'MIN_RNR_TIMER' ? tables.rnr_timers_ns : undefined;
  const ns = table?.[n];
  if (ns !== undefined) return <span class="value-text">{ns === 0 ? t('ui.value.forever') : time(ns)}</span>;
  if (table && n >= table.length) return <span class="value-text bad">{t('ui.value.above', { max: table.length - 1 })}</span>;
  if (bit === 'RNR_RETRY' && n === 7) return <span class="value-text">{t('ui.value.forever')}</span>;
  return null;
}
