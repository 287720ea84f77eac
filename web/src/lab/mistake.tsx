// A mistake in the guide: its setting and question, a prediction, and what both ends saw.
import { useEffect, useState } from 'preact/hooks';
import { Prose } from '../common/prose';
import { eventText, find, t } from '../texts';
import { attempt, once } from './attempt';
import { engine } from './engine';
import { shuffled } from './exam';
import { keep, kept } from './keep';
import { CompletionRow } from './objects';
import { Choices } from './predict';
import { refusalText } from './refusal';
import { beginning, openMistake, play, type State } from './store';

type MistakeView = State['tables']['mistakes'][number];

export function Mistake({ state, name }: { state: State; name: string }) {
  const [guess, setGuess] = useState('');
  const mistake = state.tables.mistakes.find((m) => m.name === name)!;
  const text = (key: string) => find(`mistake.${name}.${key}`);
  const begun = state.actions.length > mistake.question;
  const done = state.actions.length >= mistake.actions.length && state.solution;
  const next = state.tables.mistakes[state.tables.mistakes.indexOf(mistake) + 1];
  useEffect(() => {
    if (done) keep('seen', [...new Set([...kept<string[]>('seen', []), name])]);
  }, [done]);
  return (
    <article class="lesson" data-test="mistake" aria-labelledby="guide-title">
      <p class="eyebrow">{t('ui.mistake')} · <code>{name}</code></p>
      <h2 id="guide-title" tabIndex={-1}>{text('title') || name}</h2>
      <Prose text={text('setting')} />
      <h3>{t('ui.mistake.question')}</h3>
      <Prose class="asked" text={text('question')} />
      {begun && !state.solution && <p class="note-box" data-test="mistake.own">{t('ui.mistake.own')}</p>}
      {!begun && (
        <>
          <p class="small" id="guess-title">{t('ui.mistake.guess')}</p>
          <Choices options={optionsOf(name, outcomeOf(mistake))} name="guess" title="guess-title" guess={guess} text={outcomeText} onChoose={setGuess} />
          <p class="small muted">{t('ui.mistake.think')}</p>
        </>
      )}
      <div class="guide-tools">
        {!done && state.solution && <button type="button" class="primary" data-test="mistake.go" onClick={() => play(!state.playing)}>{t(state.playing ? 'ui.pause' : 'ui.mistake.go')}</button>}
        {begun && <button type="button" data-test="mistake.restart" onClick={once(() => attempt(() => { setGuess(''); openMistake(name); }))}>{t('ui.lesson.restart')}</button>}
      </div>
      <div aria-live="polite">
        {done && (
          <>
            {guess && <Guessed guess={guess} outcome={outcomeOf(mistake)} />}
            <Seen state={state} since={mistake.question} />
            <div data-test="mistake.why">
              <h3>{t('ui.mistake.why')}</h3>
              <Prose text={text('why')} />
              <h3>{t('ui.mistake.remedy')}</h3>
              <Prose text={text('remedy')} />
              {/soft0/.test(text('why') + text('remedy')) && <p class="small muted">{t(name === 'unsignaled-overflow' ? 'ui.mistake.places' : 'ui.mistake.sim0')}</p>}
            </div>
            {next && <button type="button" class="next" data-test="mistake.next" onClick={once(() => attempt(() => openMistake(next.name)))}>{t('ui.lesson.next', { title: find(`mistake.${next.name}.title`) || next.name })}</button>}
          </>
        )}
      </div>
    </article>
  );
}

const statuses = ['RETRY_EXC_ERR', 'RNR_RETRY_EXC_ERR', 'REM_ACCESS_ERR', 'REM_INV_REQ_ERR', 'REM_OP_ERR', 'LOC_PROT_ERR', 'WR_FLUSH_ERR'];
const outcomes = new Map<string, string>(); // of the mistakes, by their names

// Carries a mistake out beside the page's session. Returns what the client's program sees in the end: REFUSED, a status, or SUCCESS.
function outcomeOf(mistake: MistakeView): string {
  let outcome = outcomes.get(mistake.name);
  if (outcome) return outcome;
  outcome = 'SUCCESS';
  const { session } = engine.open(beginning(mistake));
  for (const action of mistake.actions.slice(mistake.question)) {
    const { result } = engine.do(session, action);
    if (action.host !== 'client' || !result) continue;
    if (result.refused) outcome = 'REFUSED';
    for (const { status } of result.completions ?? []) if (status !== 'SUCCESS') outcome = status;
  }
  engine.close(session);
  outcomes.set(mistake.name, outcome);
  return outcome;
}

// Five options: a refusal, a success, and three statuses, always the same ones for a mistake.
function optionsOf(name: string, outcome: string): string[] {
  const others = statuses.filter((status) => status !== outcome);
  const chosen = shuffled(others.length, 1, name).slice(0, statuses.includes(outcome) ? 2 : 3).map((n) => others[n - 1]!); // their number says nothing
  return ['REFUSED', 'SUCCESS', ...statuses.filter((status) => status === outcome || chosen.includes(status))];
}

const outcomeText = (outcome: string) => (outcome === 'REFUSED' ? t('ui.mistake.refused') : outcome === 'SUCCESS' ? t('ui.mistake.success') : outcome);

function Guessed({ guess, outcome }: { guess: string; outcome: string }) {
  const right = guess === outcome;
  return (
    <div class={`verdict ${right ? 'right' : 'wrong'} note-box`} data-test="guess.verdict" data-right={right}>
      <p><strong>{t(right ? 'ui.predict.right' : 'ui.predict.wrong')}</strong> {t('ui.mistake.was', { was: outcomeText(outcome), guess: outcomeText(guess) })}</p>
    </div>
  );
}

// What both ends saw since the question: refused calls, completions, asynchronous events, and the states at the end.
function Seen({ state, since }: { state: State; since: number }) {
  const results = state.results.map((result, i) => ({ result, host: state.actions[i]!.host })).slice(since, state.cursor);
  return (
    <section class="seen" data-test="mistake.seen" aria-labelledby="seen-title">
      <h3 id="seen-title">{t('ui.mistake.seen')}</h3>
      {state.moment.snapshot.hosts.map((host) => {
        const own = results.filter((r) => r.host === host.name);
        const refused = own.flatMap((r) => r.result?.refused ?? []);
        const completions = own.flatMap((r) => r.result?.completions ?? []);
        const events = state.moment.events.filter((e) => e.event === 'async.event' && e.end === host.name && e.action >= since);
        return (
          <div class="seen-end" key={host.name} data-test={`seen.${host.name}`}>
            <h4><span class={`badge ${host.name}`}>{find(`ui.host.${host.name}`)}</span></h4>
            <ul>
              {refused.map((r) => <li class="small"><code>{r.op}</code> <strong class="bad">{r.errno}</strong> {refusalText(r)}</li>)}
              {completions.map((wc) => <CompletionRow wc={wc} />)}
              {events.map((e) => <li class="small event">{eventText(e)}</li>)}
              {refused.length + completions.length + events.length === 0 && <li class="small muted">{t('ui.mistake.nothing')}</li>}
              {host.objects.filter((o) => o.qp).map((o) => <li class="small mono">{o.name} · {o.qp!.state}</li>)}
            </ul>
          </div>
        );
      })}
    </section>
  );
}
