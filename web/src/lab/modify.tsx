// The attribute editor: ibv_modify_qp to a state, with every bit of the mask. The bits stand in three
// groups: the transition requires, allows or forbids them. A refusal is shown at the bit that caused it.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Action, BitRow, HostView, MoveRow, QPView, Refusal, Tables } from '../api';
import { t } from '../texts';
import { OutcomeBox, openDialog, SheetHead, submit, type Outcome } from './dialog';
import { Choice } from './fields';
import { EngineText } from './refusal';
import { get } from './store';
import { BitValue, startOf, valueOf, type Entry } from './values';

export function openModify(host: HostView, name: string, to: string, tables: Tables) {
  const qp = host.objects.find((o) => o.name === name)!.qp!;
  openDialog(<ModifySheet key={`modify-${performance.now()}`} host={host} name={name} qp={qp} to={to} tables={tables} />);
}

/** The queue pair of the peer that a queue pair talks to, as far as the peer has told: the one of the same name, or the newest. */
export const partner = (host: HostView, name: string) => (host.told.find((p) => p.qp === name) ?? host.told.at(-1))?.qp ?? '';

/** The values that the dialog begins with, by bit. */
export const startEntries = (tables: Tables, qp: QPView): Record<string, Entry> =>
  Object.fromEntries(tables.bits.filter(({ bit }) => bit !== 'STATE').map(({ bit }) => [bit, startOf(bit, qp)]));

/** The move to a state, with the bits of a mask and their values. */
export function moveAction(host: HostView, name: string, to: string, mask: Set<string>, entries: Record<string, Entry>, peer: string, tables: Tables): Action {
  const chosen = tables.bits.map((b) => b.bit).filter((bit) => mask.has(bit));
  const attr: Record<string, unknown> = {};
  for (const bit of chosen) {
    const value = bit === 'STATE' ? to : valueOf(bit, entries[bit]!);
    if (value !== undefined) attr[bit] = value;
  }
  const usesPeer = chosen.some((bit) => bit !== 'STATE' && entries[bit]!.source === 'peer');
  return { do: 'modify_qp', host: host.name, name, mask: chosen, attr, ...(usesPeer && host.told.length > 1 ? { peer } : {}) };
}

interface Props {
  host: HostView;
  name: string;
  qp: QPView;
  to: string;
  tables: Tables;
}

function ModifySheet({ host, name, qp, to, tables }: Props) {
  const bits = tables.bits.filter((bit) => bit.bit !== 'STATE');
  const [mask, setMask] = useState<Set<string>>(new Set(['STATE']));
  const [entries, setEntries] = useState<Record<string, Entry>>(() => startEntries(tables, qp));
  const [peer, setPeer] = useState(partner(host, name));
  const [outcome, setOutcome] = useState<Outcome>({});

  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    form.current?.querySelector('.bit.wrong, [data-test=problem]')?.scrollIntoView({ block: 'nearest' });
  }, [outcome]);

  const from = qp.state;
  const move = (tables.transitions[qp.type] ?? []).find((m) => m.from === from && m.to === to);
  const groups = grouped(bits, move);
  const left = leftOf(outcome, mask);
  const tick = (bit: string, on: boolean) => setMask((old) => {
    const next = new Set(old);
    if (on) next.add(bit);
    else next.delete(bit);
    return next;
  });
  const fill = () => setMask(new Set(['STATE', ...(move?.required ?? [])]));

  const row = (bit: BitRow) => (
    <Bit
      key={bit.bit} bit={bit} on={mask.has(bit.bit)} onTick={(on) => tick(bit.bit, on)} entry={entries[bit.bit]!}
      onEntry={(entry) => setEntries((old) => ({ ...old, [bit.bit]: entry }))}
      error={errorOf(bit.bit, left.refused)} host={host} peer={peer} toldPSN={qp.told_psn} tables={tables}
    />
  );

  return (
    <form ref={form} onSubmit={(event) => { event.preventDefault(); setOutcome(submit(moveAction(host, name, to, mask, entries, peer, tables))); }}>
      <SheetHead title={t('ui.labelled', { name, text: `${from} → ${to}` })} call="ibv_modify_qp" host={host.name} />
      {move ? <p class="lead">{t(move.required.length > 0 ? 'ui.modify.lead' : 'ui.modify.lead-none', { n: move.required.length })}</p> : <p class="problem">{t('ui.modify.impossible', { from, to })}</p>}
      {qp.program_state !== from && <p class="note-box">{t('ui.modify.differs', { state: from, program: qp.program_state })}</p>}
      <OutcomeBox outcome={left} marked />
      <div class="bit-tools">
        {host.told.length > 1 && (
          <Choice test="f.peer" label={t('ui.modify.peer')} value={peer} onChange={setPeer} options={host.told.map((p) => ({ value: p.qp }))} />
        )}
        {move && move.required.length > 0 && !get().setup.lesson && ( // in a lesson the learner ticks
          <button type="button" data-test="fill" onClick={fill}>{t('ui.modify.fill')}</button>
        )}
      </div>
      <fieldset class="bits">
        <legend>{t('ui.modify.required')}</legend>
        <label class="bit-head state">
          <input type="checkbox" data-test="bit.STATE" checked={mask.has('STATE')} onChange={(e) => tick('STATE', e.currentTarget.checked)} />
          <code>IBV_QP_STATE</code> <span class="value-text">{to}</span>
        </label>
        {groups.required.map(row)}
      </fieldset>
      {groups.optional.length > 0 && (
        <fieldset class="bits">
          <legend>{t('ui.modify.optional')}</legend>
          {groups.optional.map(row)}
        </fieldset>
      )}
      <details class="bits" open={groups.forbidden.some((b) => mask.has(b.bit))}>
        <summary data-test="forbidden">{t(move ? 'ui.modify.forbidden' : 'ui.modify.all', { n: groups.forbidden.length })}</summary>
        {groups.forbidden.map(row)}
      </details>
      <footer class="sheet-foot">
        <code class="mask">{t('ui.modify.mask')}{[...mask].join(' | ') || '0'}</code>
        <button type="submit" class="primary" data-test="submit">ibv_modify_qp</button>
      </footer>
    </form>
  );
}

function grouped(bits: BitRow[], move: MoveRow | undefined) {
  const required = bits.filter((b) => move?.required.includes(b.bit));
  const optional = bits.filter((b) => move?.optional.includes(b.bit));
  const forbidden = bits.filter((b) => !required.includes(b) && !optional.includes(b));
  return { required, optional, forbidden };
}

// What is left of an outcome, once bits that it names are ticked or cleared.
function leftOf(outcome: Outcome, mask: Set<string>): Outcome {
  const { refused } = outcome;
  const at = refused?.transition;
  if (!at || at.missing.length + at.illegal.length === 0) return outcome;
  const missing = at.missing.filter((bit) => !mask.has(bit));
  const illegal = at.illegal.filter((bit) => mask.has(bit));
  return missing.length + illegal.length > 0 ? { refused: { ...refused, transition: { ...at, missing, illegal } } } : {};
}

// What a refusal says about a bit.
function errorOf(bit: string, refusal: Refusal | undefined): string | undefined {
  const at = refusal?.transition;
  if (at?.missing.includes(bit)) return t('ui.modify.missing');
  if (at?.illegal.includes(bit)) return t('ui.modify.illegal', { from: at.from, to: at.to });
  return undefined;
}

interface BitProps {
  bit: BitRow;
  on: boolean;
  onTick(on: boolean): void;
  entry: Entry;
  onEntry(entry: Entry): void;
  error: string | undefined;
  host: HostView;
  peer: string;
  toldPSN: number | null;
  tables: Tables;
}

function Bit({ bit, on, onTick, entry, onEntry, error, host, peer, toldPSN, tables }: BitProps) {
  const id = `bit-${bit.bit}`;
  return (
    <div class={`bit ${on ? 'on' : ''} ${error ? 'wrong' : ''}`}>
      <label class="bit-head">
        <input
          type="checkbox" data-test={`bit.${bit.bit}`} checked={on} aria-describedby={`${id}-about`}
          onChange={(event) => onTick(event.currentTarget.checked)}
        />
        <code>IBV_QP_{bit.bit}</code> <span class="field-name">{bit.field}</span>
      </label>
      <p class="about" id={`${id}-about`}><EngineText text={bit.about} /></p>
      {on && <BitValue bit={bit.bit} entry={entry} onChange={onEntry} told={host.told.find((p) => p.qp === peer)} toldPSN={toldPSN} tables={tables} />}
      {error && <p class="bit-error" role="alert" data-test={`bit-error.${bit.bit}`}>{error}</p>}
    </div>
  );
}
