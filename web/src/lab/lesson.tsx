// A lesson in the guide: its text, its goals, the question at its end, and what follows.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../common/icons';
import { Prose, inline } from '../common/prose';
import { find, t } from '../texts';
import { connects } from './connect';
import { keep, kept } from './keep';
import { attempt } from './playback';
import { Predict } from './predict';
import { change, open, type State } from './store';

export const openBench = () => attempt(() => {
  open('{}');
  change({ pane: 'hosts' });
});

export function Lesson({ state, id, onMistakes }: { state: State; id: string; onMistakes(): void }) {
  const at = state.tables.lessons.findIndex((l) => l.id === id);
  const lesson = state.tables.lessons[at]!;
  const text = (key: string) => find(`lesson.${id}.${key}`);
  const goals = state.moment.snapshot.goals;
  const met = goals.filter((g) => g.met >= 0).length;
  const done = goals.length > 0 && met === goals.length;
  const next = state.tables.lessons[at + 1];
  const [answered, setAnswered] = useState(false);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!done) return;
    const box = end.current!;
    if (box.offsetParent === null) change({ message: t('ui.lesson.done') }); // a narrow window shows another pane
    (answered ? box.lastElementChild! : box).scrollIntoView({ block: 'nearest' });
  }, [done, answered]);
  const solution = () => attempt(() => open(JSON.stringify({ lesson: id }), { future: lesson.solution }));
  return (
    <article class="lesson" data-test="lesson" aria-labelledby="guide-title">
      <p class="eyebrow">{t('ui.lesson.number', { n: at + 1, all: state.tables.lessons.length })}</p>
      <h2 id="guide-title">{text('title') || id}</h2>
      <Prose text={text('intro')} />
      <h3>{t('ui.lesson.goals')} <span class="count">{met}/{goals.length}</span></h3>
      <ol class="goals">
        {goals.map((goal) => (
          <li key={goal.key} class={goal.met >= 0 ? 'met' : ''} data-test={`goal.${goal.key}`} data-met={goal.met >= 0}>
            <span class="tick">{goal.met >= 0 ? <Icon name="check" /> : null}</span>
            <div>
              <p>{inline(text(`goal.${goal.key}`) || goal.key)}{goal.met >= 0 && <span class="hidden"> ({t('ui.lesson.met')})</span>}</p>
              {text(`hint.${goal.key}`) && (
                <details data-test={`hint.${goal.key}`}><summary>{t('ui.lesson.hint')}</summary><Prose text={text(`hint.${goal.key}`)} /></details>
              )}
            </div>
          </li>
        ))}
      </ol>
      <Predict state={state} />
      {!done && <Stuck state={state} />}
      <div class="guide-tools">
        <button type="button" data-test="lesson.restart" onClick={once(() => attempt(() => open(JSON.stringify({ lesson: id }))))}>{t('ui.lesson.restart')}</button>
        <button type="button" data-test="lesson.solution" onClick={once(solution)}>{t('ui.lesson.solution')}</button>
      </div>
      {state.future.length > 0 && state.cursor === state.actions.length && <Note name="ready">{t('ui.lesson.play', { n: state.future.length })}</Note>}
      {done && (
        <div class="lesson-end" ref={end}>
          {text('question') && <Question id={id} answers={lesson.answers} right={lesson.right} onRight={() => setAnswered(true)} />}
          {next
            ? <button type="button" class="primary next" data-test="lesson.next" onClick={once(() => attempt(() => open(JSON.stringify({ lesson: next.id }))))}>
                {t('ui.lesson.next', { title: find(`lesson.${next.id}.title`) || next.id })}
              </button>
            : kept<string[]>('solved', []).includes(id) && <Last state={state} onMistakes={onMistakes} />}
        </div>
      )}
    </article>
  );
}

// The second click of a double click does not count: it may hit a button that the first one has brought here.
export const once = (f: () => void) => (event: MouseEvent) => {
  if (event.detail < 2) f();
};

// What follows the last lesson.
function Last({ state, onMistakes }: { state: State; onMistakes(): void }) {
  const solved = kept<string[]>('solved', []).length;
  return (
    <section class="note-box" data-test="lessons.end">
      <p>{t('ui.lessons.end', { n: solved, all: state.tables.lessons.length })}</p>
      <div class="guide-tools">
        <button type="button" class="primary" data-test="end.mistakes" onClick={once(onMistakes)}>{t('ui.mistakes')}</button>
        <button type="button" data-test="end.bench" onClick={once(openBench)}>{t('ui.bench')}</button>
      </div>
    </section>
  );
}

// Says how to go on after an error that was not the last goal.
function Stuck({ state }: { state: State }) {
  const failed = state.moment.snapshot.hosts.flatMap((host) => host.objects.filter((o) => o.qp?.state === 'ERR' && o.qp.program_state !== 'ERR').map((o) => `${find(`ui.host.${host.name}`)} ${o.name}`));
  if (failed.length === 0) return null;
  return <Note name="stuck">{t('ui.lesson.stuck', { names: failed.join(', ') })} {connects(state) && t('ui.lesson.stuck.connect')}</Note>;
}

// A note that scrolls into view: it stands below what the user has just seen or pressed.
function Note({ name, children }: { name: string; children: ComponentChildren }) {
  const box = useRef<HTMLParagraphElement>(null);
  useEffect(() => box.current?.scrollIntoView({ block: 'nearest' }), []);
  return <p class="note-box" role="status" data-test={name} ref={box}>{children}</p>;
}

function Question({ id, answers, right, onRight }: { id: string; answers: number; right: number; onRight(): void }) {
  const [chosen, setChosen] = useState(0);
  const [checked, setChecked] = useState(false);
  const good = chosen === right;
  useEffect(() => {
    if (!checked || !good) return;
    keep('solved', [...new Set([...kept<string[]>('solved', []), id])]);
    onRight();
  }, [checked, good]);
  return (
    <form class="question" data-test="question" onSubmit={(event) => { event.preventDefault(); setChecked(chosen > 0); }}>
      <fieldset>
        <legend>{inline(find(`lesson.${id}.question`))}</legend>
        {Array.from({ length: answers }, (_, i) => i + 1).map((n) => (
          <label class={checked && n === chosen ? (good ? 'right' : 'wrong') : ''}>
            <input type="radio" name="answer" data-test={`answer.${n}`} checked={chosen === n} onChange={() => { setChosen(n); setChecked(false); }} />
            <span>{inline(find(`lesson.${id}.answer.${n}`))}</span>
          </label>
        ))}
      </fieldset>
      <button type="submit" data-test="answer.check" disabled={chosen === 0}>{t('ui.question.check')}</button>
      <div aria-live="polite">
        {checked && (
          <div class={good ? 'verdict right' : 'verdict wrong'} data-test="verdict" data-right={good}>
            <strong>{t(good ? 'ui.question.right' : 'ui.question.wrong')}</strong>
            <Prose text={find(`lesson.${id}.${good ? 'why' : `wrong.${chosen}`}`)} />
          </div>
        )}
      </div>
    </form>
  );
}
