// The dialog of ibv_post_send and ibv_post_recv: a list of work requests, each with its elements.
import { useState } from 'preact/hooks';
import type { Action, HostView, ObjectView, Tables, WR } from '../api';
import { number } from '../common/format';
import { find, t } from '../texts';
import { OutcomeBox, openDialog, SheetHead, submit, type Outcome } from './dialog';
import { Choice, Many, Row, Text, type Option } from './fields';
import { calls } from './forms';
import { partner } from './modify';
import { freshId } from './store';

interface Target {
  host: HostView;
  object: ObjectView;
  receive: boolean;
  tables: Tables;
}

/** A work request as the form has it: texts. */
interface Draft {
  id: string;
  opcode: string;
  flags: string[];
  sgl: { mr: string; offset: string; length: string; lkey: string }[];
  imm: string;
  remote: string; // a region that the peer told, or '' for plain numbers
  offset: string;
  rkey_add: string;
  addr: string;
  rkey: string;
  compare_add: string;
  swap: string;
  mw: string;
  bind_mr: string;
  bind_offset: string;
  bind_length: string;
  bind_access: string[];
  flush_type: string;
  flush_length: string;
  ah: string;
  remote_qp: string;
  remote_qpn: string;
  remote_qkey: string;
}

const named = (host: HostView, kind: string) => host.objects.filter((o) => o.kind === kind).map((o) => ({ value: o.name }));
const needsRemote = (opcode: string) => /^(RDMA|ATOMIC|FLUSH)/.test(opcode) || opcode === 'SEND_WITH_INV';
const hasData = (opcode: string) => !['LOCAL_INV', 'BIND_MW', 'FLUSH'].includes(opcode);

export function openPost(host: HostView, object: ObjectView, receive: boolean, tables: Tables) {
  openDialog(<PostSheet key={`post-${performance.now()}`} host={host} object={object} receive={receive} tables={tables} />);
}

function PostSheet(target: Target) {
  const { host, object, receive } = target;
  const [drafts, setDrafts] = useState<Draft[]>(() => [draft(target, 0)]);
  const [outcome, setOutcome] = useState<Outcome>({});
  const verb = receive ? 'post_recv' : 'post_send';
  const action = (): Action => ({ do: verb, host: host.name, name: object.name, wrs: drafts.map((d) => wrOf(d, target)) });
  return (
    <form onSubmit={(event) => { event.preventDefault(); setOutcome(submit(action())); }}>
      <SheetHead title={t('ui.labelled', { name: object.name, text: t(receive ? 'ui.verb.post_recv' : 'ui.verb.post_send') })} call={object.kind === 'SRQ' ? 'ibv_post_srq_recv' : calls[verb]} host={host.name} />
      <p class="lead">{t(receive ? 'ui.about.post_recv' : 'ui.about.post_send')}</p>
      {drafts.map((d, i) => (
        <Request
          key={i} n={i} draft={d} target={target} wrong={outcome.refused?.index === i}
          onChange={(next) => setDrafts((all) => all.map((old, j) => (j === i ? next : old)))}
          onRemove={drafts.length > 1 ? () => setDrafts((all) => all.filter((_, j) => j !== i)) : undefined}
        />
      ))}
      <button type="button" data-test="wr.add" onClick={() => setDrafts((all) => [...all, draft(target, all.length)])}>{t('ui.post.add')}</button>
      <OutcomeBox outcome={outcome} />
      <footer class="sheet-foot">
        <button type="submit" class="primary" data-test="submit">{t(receive ? 'ui.verb.post_recv' : 'ui.verb.post_send')}</button>
      </footer>
    </form>
  );
}

// A new request: its wr_id is one that the host has not used, because requests of several queues may share a CQ.
function draft({ host, object, receive, tables }: Target, n: number): Draft {
  const mr = named(host, 'MR')[0]?.value;
  const length = receive ? (object.qp?.type === 'UD' ? 104 : 64) : 16;
  const behind = n + (object.qp?.recvs ?? object.srq?.recvs ?? []).length; // each receive has bytes of its own, as far as there are some
  const offset = receive && (behind + 1) * length <= (host.objects.find((o) => o.name === mr)?.mr?.length ?? 0) ? behind * length : 0;
  return {
    id: String(freshId(host.name) + n), opcode: receive ? '' : tables.opcodes[object.qp!.type]?.find((o) => o === 'SEND') ?? '', flags: [],
    sgl: mr ? [{ mr, offset: String(offset), length: String(length), lkey: '' }] : [],
    imm: '7', remote: host.regions.at(-1)?.mr ?? '', offset: '0', rkey_add: '', addr: '0', rkey: '0', compare_add: '0', swap: '0',
    mw: named(host, 'MW')[0]?.value ?? '', bind_mr: mr ?? '', bind_offset: '0', bind_length: '64', bind_access: ['REMOTE_READ', 'REMOTE_WRITE'],
    flush_type: '1', flush_length: '', ah: named(host, 'AH')[0]?.value ?? '', remote_qp: partner(host, object.name), remote_qpn: '', remote_qkey: '',
  };
}

const num = (text: string) => Number(number(text));

function wrOf(d: Draft, { object, receive }: Target): WR {
  const wr: WR = { id: number(d.id) };
  if (!receive) wr.opcode = d.opcode;
  if (d.flags.length > 0) wr.flags = d.flags;
  if (receive || hasData(d.opcode)) {
    wr.sgl = d.sgl.map((e) => ({ mr: e.mr, ...(num(e.offset) ? { offset: num(e.offset) } : {}), length: num(e.length), ...(e.lkey ? { lkey: number(e.lkey) } : {}) }));
  }
  if (receive) return wr;
  if (d.opcode.endsWith('WITH_IMM')) wr.imm = num(d.imm);
  if (needsRemote(d.opcode)) {
    const remote = d.remote
      ? { mr: d.remote, ...(num(d.offset) ? { offset: num(d.offset) } : {}), ...(d.rkey_add ? { rkey_add: num(d.rkey_add) } : {}) }
      : { addr: number(d.addr), rkey: number(d.rkey) };
    if (d.opcode === 'SEND_WITH_INV') wr.invalidate = remote;
    else wr.remote = remote;
  }
  if (/^ATOMIC_(CMP|FETCH)/.test(d.opcode)) wr.compare_add = number(d.compare_add);
  if (d.opcode === 'ATOMIC_CMP_AND_SWP') wr.swap = number(d.swap);
  if (d.opcode === 'BIND_MW' || d.opcode === 'LOCAL_INV') wr.mw = d.mw;
  if (d.opcode === 'BIND_MW') wr.bind = { mr: d.bind_mr, offset: num(d.bind_offset), length: num(d.bind_length), access: d.bind_access };
  if (d.opcode === 'FLUSH') wr.flush = { type: num(d.flush_type), ...(d.flush_length ? { length: num(d.flush_length) } : {}) };
  if (object.qp?.type === 'UD') {
    wr.ah = d.ah;
    if (d.remote_qp) wr.remote_qp = d.remote_qp;
    if (d.remote_qpn) wr.remote_qpn = number(d.remote_qpn);
    if (d.remote_qkey) wr.remote_qkey = number(d.remote_qkey);
  }
  return wr;
}

interface RequestProps {
  n: number;
  draft: Draft;
  target: Target;
  wrong: boolean;
  onChange(draft: Draft): void;
  onRemove: (() => void) | undefined;
}

function Request({ n, draft: d, target, wrong, onChange, onRemove }: RequestProps) {
  const { host, object, receive, tables } = target;
  const set = <K extends keyof Draft>(key: K) => (value: Draft[K]) => onChange({ ...d, [key]: value });
  const at = (name: string) => `wr.${n}.${name}`;
  const text = (key: 'id' | 'imm' | 'offset' | 'rkey_add' | 'addr' | 'rkey' | 'compare_add' | 'swap' | 'bind_offset' | 'bind_length' | 'flush_length' | 'remote_qpn' | 'remote_qkey', hint?: string) => (
    <Text mono test={at(key)} label={find(`ui.f.${key}`) || key} value={d[key]} onChange={set(key)} hint={hint} />
  );
  const pick = (key: 'opcode' | 'mw' | 'bind_mr' | 'flush_type' | 'ah' | 'remote_qp' | 'remote', options: Option[]) => (
    <Choice test={at(key)} label={find(`ui.f.${key}`) || key} value={d[key]} onChange={set(key)} options={options} />
  );
  const by = { value: '', label: t('ui.post.by-number') };
  const ud = object.qp?.type === 'UD';
  return (
    <fieldset class={`request ${wrong ? 'wrong' : ''}`}>
      <legend>{t('ui.post.request', { n: n + 1 })}</legend>
      {onRemove && <button type="button" class="plain remove" data-test={at('remove')} onClick={onRemove}>{t('ui.post.remove')}</button>}
      <Row>
        {text('id')}
        {!receive && pick('opcode', (tables.opcodes[object.qp!.type] ?? []).map((value) => ({ value })))}
      </Row>
      {(receive || hasData(d.opcode)) && <Elements n={n} draft={d} host={host} onChange={onChange} />}
      {!receive && d.opcode.endsWith('WITH_IMM') && text('imm')}
      {!receive && needsRemote(d.opcode) && (
        <div class="group">
          {pick('remote', [...host.regions.map((r) => ({ value: r.mr, label: `${r.mr} · rkey ${r.rkey}` })), by])}
          {d.remote ? <Row>{text('offset')}{text('rkey_add', t('ui.f.rkey_add.hint'))}</Row> : <Row>{text('addr')}{text('rkey')}</Row>}
        </div>
      )}
      {!receive && /^ATOMIC_(CMP|FETCH)/.test(d.opcode) && <Row>{text('compare_add')}{d.opcode === 'ATOMIC_CMP_AND_SWP' && text('swap')}</Row>}
      {!receive && (d.opcode === 'BIND_MW' || d.opcode === 'LOCAL_INV') && pick('mw', named(host, 'MW'))}
      {!receive && d.opcode === 'BIND_MW' && (
        <div class="group">
          <Row>{pick('bind_mr', named(host, 'MR'))}{text('bind_offset')}{text('bind_length')}</Row>
          <Many test={at('bind_access')} label={t('ui.f.access')} value={d.bind_access} onChange={set('bind_access')} options={tables.access.filter((a) => a.startsWith('REMOTE')).map((value) => ({ value }))} />
        </div>
      )}
      {!receive && d.opcode === 'FLUSH' && <Row>{pick('flush_type', [{ value: '1', label: '1 GLOBAL' }, { value: '2', label: '2 PERSISTENT' }])}{text('flush_length')}</Row>}
      {!receive && ud && (
        <div class="group">
          <Row>{pick('ah', named(host, 'AH'))}{pick('remote_qp', [...host.told.map((p) => ({ value: p.qp })), by])}</Row>
          <Row>{text('remote_qpn')}{text('remote_qkey')}</Row>
        </div>
      )}
      {!receive && <Many test={at('flags')} label={t('ui.f.flags')} value={d.flags} onChange={set('flags')} options={tables.flags.map((value) => ({ value }))} />}
    </fieldset>
  );
}

function Elements({ n, draft: d, host, onChange }: { n: number; draft: Draft; host: HostView; onChange(draft: Draft): void }) {
  const options = named(host, 'MR');
  const add = () => onChange({ ...d, sgl: [...d.sgl, { mr: options[0]?.value ?? '', offset: '0', length: '16', lkey: '' }] });
  return (
    <div class="group">
      {d.sgl.map((e, i) => {
        const set = (part: Partial<typeof e>) => onChange({ ...d, sgl: d.sgl.map((old, j) => (j === i ? { ...old, ...part } : old)) });
        const at = (name: string) => `wr.${n}.sge.${i}.${name}`;
        return (
          <Row key={i}>
            <Choice test={at('mr')} label={t('ui.f.mr')} value={e.mr} options={options} onChange={(mr) => set({ mr })} />
            <Text mono test={at('offset')} label={t('ui.f.offset')} value={e.offset} onChange={(offset) => set({ offset })} />
            <Text mono test={at('length')} label={t('ui.f.length')} value={e.length} onChange={(length) => set({ length })} />
            <Text mono test={at('lkey')} label="lkey" placeholder={t('ui.post.own-lkey')} value={e.lkey} onChange={(lkey) => set({ lkey })} />
            <button type="button" class="plain" data-test={at('remove')} aria-label={t('ui.post.remove-element')} onClick={() => onChange({ ...d, sgl: d.sgl.filter((_, j) => j !== i) })}>×</button>
          </Row>
        );
      })}
      {options.length === 0 && d.sgl.length === 0 && <p class="small muted">{t('ui.post.no-region')}</p>}
      {options.length > 0 && <button type="button" class="plain" data-test={`wr.${n}.sge.add`} onClick={add}>{t('ui.post.add-element')}</button>}
    </div>
  );
}
