// The poster: the states of a queue pair, who may post in each, and what each move needs; one page of A4 to print. The
// bits come from the engine's transition table.
import type { MoveRow, Tables } from '../api';
import { inline } from '../common/prose';
import { find, t } from '../texts';
import { openDialog, SheetHead } from './dialog';
import { Ladder } from './ladder';
import { get } from './store';

const types = ['RC', 'UC', 'UD'] as const;
const moves: [string, string][] = [['RESET', 'INIT'], ['INIT', 'RTR'], ['RTR', 'RTS'], ['RTS', 'SQD'], ['SQD', 'RTS'], ['SQE', 'RTS']];

export function openPoster() {
  openDialog(<Poster key="poster" tables={get().tables} />);
}

function Poster({ tables }: { tables: Tables }) {
  const all = [...new Map(types.flatMap((type) => tables.transitions[type] ?? []).map((m) => [`${m.from} ${m.to}`, m])).values()];
  return (
    <div class="poster" data-test="poster.page">
      <SheetHead title={t('ui.poster.title')} />
      <div class="buttons no-print">
        <button type="button" class="primary" data-test="poster.print" onClick={() => print()}>{t('ui.poster.print')}</button>
      </div>
      <div class="poster-top">
        <div inert><Ladder name="" prefix="poster" state="" program="" states={tables.states} moves={all} onMove={() => {}} /></div>
        <ol>{[1, 2, 3, 4].map((n) => <li key={n}>{inline(find(`ui.poster.rule.${n}`))}</li>)}</ol>
      </div>
      <table class="list">
        <caption class="hidden">{t('ui.poster.title')}</caption>
        <thead><tr>{['state', 'recv', 'send', 'in'].map((key) => <th scope="col" key={key}>{find(`ui.poster.${key}`)}</th>)}</tr></thead>
        <tbody>
          {tables.states.map((state) => (
            <tr key={state}>
              <th scope="row"><span class={`state-chip ${state}`}>{state}</span> {find(`ui.poster.${state}`)}</th>
              {['recv', 'send', 'in'].map((key) => <td key={key} class={find(`ui.poster.${state}.${key}`).startsWith(t('ui.poster.may-not')) ? 'muted' : ''}>{find(`ui.poster.${state}.${key}`)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
      <table class="list">
        <caption class="hidden">{t('ui.poster.needs')}</caption>
        <thead><tr><th scope="col">{t('ui.poster.needs')}</th>{types.map((type) => <th scope="col" key={type}>{type}</th>)}</tr></thead>
        <tbody>
          {moves.map(([from, to]) => (
            <tr key={from + to}>
              <th scope="row">{from} → {to}</th>
              {types.map((type) => <td key={type}><Bits move={(tables.transitions[type] ?? []).find((m) => m.from === from && m.to === to)} /></td>)}
            </tr>
          ))}
          <tr><th scope="row">{t('ui.poster.any')}</th><td colSpan={3}><code>STATE</code></td></tr>
        </tbody>
      </table>
    </div>
  );
}

// The bits of a move: the required ones, then the others.
function Bits({ move }: { move: MoveRow | undefined }) {
  if (!move) return <span class="muted">{t('ui.poster.no-move')}</span>;
  return (
    <>
      <code>{['STATE', ...move.required].join(' ')}</code>
      {move.optional.length > 0 && <p class="muted">{t('ui.poster.optional')} <code>{move.optional.join(' ')}</code></p>}
    </>
  );
}
