// A mistake in the guide: its setting and question, and what both ends saw.
import { useEffect } from 'preact/hooks';
import { Prose } from '../common/prose';
import { eventText, find, t } from '../texts';
import { attempt, once } from './attempt';
import { keep, kept } from './keep';
import { CompletionRow } from './objects';
import { refusalText } from './refusal';
import { openMistake, play, type State } from './store';

export function Mistake({ state, name }: { state: State; name: string }) {
  const mistake = state.tables.mistakes.find((m) => m.name === name)!;
  const text = (key: string) => find(`mistake.${name}.${key}`);
  const done = state.actions.length >= mistake.actions.length;
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
      {!done && (
        <>
          <p class="small muted">{t('ui.mistake.think')}</p>
          <button type="button" class="primary" data-test="mistake.go" onClick={() => play(!state.playing)}>{t(state.playing ? 'ui.pause' : 'ui.mistake.go')}</button>
        </>
      )}
      <div aria-live="polite">
        {done && (
          <>
            <Seen state={state} since={mistake.question} />
            <div data-test="mistake.why">
              <h3>{t('ui.mistake.why')}</h3>
              <Prose text={text('why')} />
              <h3>{t('ui.mistake.remedy')}</h3>
              <Prose text={text('remedy')} />
            </div>
            {next && <button type="button" class="next" data-test="mistake.next" onClick={once(() => attempt(() => openMistake(next.name)))}>{t('ui.lesson.next', { title: find(`mistake.${next.name}.title`) || next.name })}</button>}
          </>
        )}
      </div>
    </article>
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
