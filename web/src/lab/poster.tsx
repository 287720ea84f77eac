// The poster: the states of a queue pair, who may post in each, and what each move needs; one page of A4 to print. The
// bits come from the engine's transition table.
import type { MoveRow, Tables } from '../api';
import { inline } from '../common/prose';
import { find, listed, t } from '../texts';
import { openDialog, SheetHead } from './dialog';
import { Ladder } from './ladder';
import { get } from './store';

const types = ['RC', 'UC', 'UD'] as const;

export function openPoster() {
  openDialog(<Poster key="poster" tables={get().tables} />);
}

// A row: the moves to one state whose bits are the same.
interface Row {
  from: string[];
  to: string;
  moves: (MoveRow | undefined)[]; // by type
}

function rowsOf(tables: Tables): Row[] {
  const rows = new Map<string, Row>();
  for (const from of tables.states) {
    for (const to of tables.states) {
      const moves = types.map((type) => (tables.transitions[type] ?? []).find((m) => m.from === from && m.to === to));
      if (!moves.some(Boolean)) continue;
      const bits = moves.map((m) => m && [m.required, m.optional]);
      const key = bare(moves) ? to : JSON.stringify([to, bits]); // moves without bits are alike, even if a type never has the state
      const row = rows.get(key) ?? { from: [], to, moves };
      row.from.push(from);
      rows.set(key, row);
    }
  }
  return [...rows.values()].sort((a, b) => Number(bare(a.moves)) - Number(bare(b.moves)));
}

const bare = (moves: (MoveRow | undefined)[]) => moves.every((m) => !m || m.required.length + m.optional.length === 0);

// "RTR", or "any but RESET" where the names would fill the row.
function fromText(from: string[], states: string[]): string {
  const others = states.filter((state) => !from.includes(state));
  if (from.length === 1 || others.length > 1) return listed(from);
  return others.length === 0 ? t('ui.poster.any') : t('ui.poster.any-but', { state: others[0]! });
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
        <div>
          <div inert><Ladder name="" prefix="poster" state="" program="" states={tables.states} moves={all} onMove={() => {}} /></div>
          <p class="small muted">{t('ui.poster.drawn')}</p>
        </div>
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
      <table class="list moves">
        <caption class="hidden">{t('ui.poster.needs')}</caption>
        <thead><tr><th scope="col">{t('ui.poster.needs')}</th>{types.map((type) => <th scope="col" key={type}>{type}</th>)}</tr></thead>
        <tbody>
          {rowsOf(tables).map(({ from, to, moves }) => (
            <tr key={from[0]! + to} data-from={from.join(' ')} data-to={to}>
              <th scope="row">{fromText(from, tables.states)} → {to}</th>
              {bare(moves) ? <td colSpan={types.length}><code>STATE</code></td> : moves.map((move, i) => <td key={i}><Bits move={move} /></td>)}
            </tr>
          ))}
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
      {move.optional.length > 0 && <p class="muted">{t('ui.poster.optional')}<code>{move.optional.join(' ')}</code></p>}
    </>
  );
}
