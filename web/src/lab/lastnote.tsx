// A note over the lower edge of the hosts, in a narrow window, where the details are in another pane: why a call was refused
// or a polled request has failed, and what to try; or what else the last action has to say.
import type { Completion } from '../api';
import { find, t } from '../texts';
import { lostText } from './dock';
import { EngineText, noteText, refusalText } from './refusal';
import { change, type State } from './store';

export function LastNote({ state }: { state: State }) {
  const { refused, note, completions = [] } = state.moment.snapshot.result ?? {};
  const failed = completions.filter((wc) => wc.status !== 'SUCCESS');
  const wc = failed.find(({ status }) => status !== 'WR_FLUSH_ERR') ?? failed[0]; // what is flushed follows from it
  const host = state.actions[state.cursor - 1]?.host;
  if (!refused && !wc) return note ? <p class="last-note note-box" data-test="last-note"><EngineText text={note} /></p> : null;
  const row = state.tables.statuses.find(({ status }) => status === wc?.status);
  const name = refused ? `${refused.op} ${refused.errno}` : wc!.status;
  const { missing = [], illegal = [] } = refused?.transition ?? {};
  const bits = [...missing.map((bit) => `+${bit}`), ...illegal.map((bit) => `−${bit}`)].join(' ');
  const why = refused ? refusalText(refused) : causeOf(state, host ?? '', wc!) || noteText(row?.cause ?? '');
  const hint = refused ? (bits ? '' : refused.hint) : row?.remedy;
  return (
    <section class="last-note refusal" data-test="last-note">
      <div>
        <p>{host && <span class={`badge ${host}`}>{find(`ui.host.${host}`)}</span>} <strong class="bad">{name}</strong>{why && t('ui.colon') + why} {bits && <code>{bits}</code>}</p>
        {hint && <p class="hint"><strong>{t('ui.refused.try')}</strong><EngineText text={hint} /></p>}
      </div>
      <button type="button" class="small-button" data-test="last-note.more" onClick={() => change({ pane: 'details', detail: 'result' })}>{t('ui.details')}</button>
    </section>
  );
}

// What this run shows of a failure: the check that the request has failed, or its packets that did not get through.
const causeOf = (state: State, host: string, wc: Completion) => (wc.check ? noteText(wc.check) : wc.status === 'RETRY_EXC_ERR' ? lostText(state, host, wc) : '');
