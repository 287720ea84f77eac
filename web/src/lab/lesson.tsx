// A lesson in the guide: its text, its goals, the question at its end, and what follows.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Prose } from '../common/prose';
import { find, listed, t } from '../texts';
import { attempt, once } from './attempt';
import { connects } from './connect';
import { Answers, Goals } from './goals';
import type { List } from './guide';
import { keep, kept } from './keep';
import { CourseEnd, LessonEnd } from './lessonend';
import { Predict } from './predict';
import { change, open, type State } from './store';

export function Lesson({ state, id, onList }: { state: State; id: string; onList(list: List): void }) {
  const at = state.tables.lessons.findIndex((l) => l.id === id);
  const lesson = state.tables.lessons[at]!;
  const text = (key: string) => find(`lesson.${id}.${key}`);
  const goals = state.moment.snapshot.goals;
  const met = goals.filter((g) => g.met >= 0).length;
  const done = goals.length > 0 && met === goals.length;
  const next = state.tables.lessons[at + 1];
  const [answered, setAnswered] = useState(false);
  const solved = kept<string[]>('solved', []);
  const end = useRef<HTMLDivElement>(null);
  const reached = useRef(goals); // the goals at the end, also while the past is shown
  if (done) reached.current = goals;
  const complete = useRef(false); // at the end: a look at the past keeps the question, and what is chosen
  if (done || state.cursor === state.actions.length) complete.current = done;
  const ended = complete.current || answered;
  const fresh = state.actions.length <= lesson.start.length;
  useEffect(() => { if (fresh) setAnswered(false); }, [fresh]);
  useEffect(() => {
    if (!ended) return;
    const box = end.current!;
    if (box.offsetParent === null) change({ message: t('ui.lesson.done') }); // a narrow window shows another pane
    (answered ? box.lastElementChild! : box).scrollIntoView({ block: 'nearest' });
  }, [ended, answered]);
  const solution = () => attempt(() => open(JSON.stringify({ lesson: id }), { future: lesson.solution }));
  return (
    <article class="lesson" data-test="lesson" aria-labelledby="guide-title">
      <p class="eyebrow">{t('ui.lesson.number', { n: at + 1, all: state.tables.lessons.length })}</p>
      <h2 id="guide-title" tabIndex={-1}>{text('title') || id}</h2>
      <Prose text={text('intro')} />
      <Goals keys={goals.map((g) => g.key)} met={goals.filter((g) => g.met >= 0).map((g) => g.key)} text={text} hints />
      <Predict state={state} />
      {!done && <Stuck state={state} />}
      <div class="guide-tools">
        <button type="button" data-test="lesson.restart" onClick={once(() => attempt(() => open(JSON.stringify({ lesson: id }))))}>{t('ui.lesson.restart')}</button>
        <button type="button" data-test="lesson.solution" onClick={once(solution)}>{t('ui.lesson.solution')}</button>
      </div>
      {state.solution && state.future.length > 0 && state.cursor === state.actions.length && <Note name="ready">{t('ui.lesson.play', { n: state.future.length })}</Note>}
      {ended && (
        <div class="lesson-end" ref={end}>
          {text('question') && <Question id={id} answers={lesson.answers} right={lesson.right} played={state.solution} onRight={() => setAnswered(true)} />}
          {answered && <LessonEnd state={state} id={id} goals={reached.current} />}
          {next && (
            <button type="button" class={answered ? 'primary next' : 'next'} data-test="lesson.next" onClick={once(() => attempt(() => open(JSON.stringify({ lesson: next.id }))))}>
              {t('ui.lesson.next', { title: find(`lesson.${next.id}.title`) || next.id })}
            </button>
          )}
          {(next ? answered && state.tables.lessons.every((l) => solved.includes(l.id)) : answered || solved.includes(id)) && <CourseEnd state={state} onList={onList} />}
        </div>
      )}
    </article>
  );
}

// Says how to go on after an error that was not the last goal.
function Stuck({ state }: { state: State }) {
  const failed = state.moment.snapshot.hosts.flatMap((host) => host.objects.filter((o) => o.qp?.state === 'ERR' && o.qp.program_state !== 'ERR').map((o) => `${find(`ui.host.${host.name}`)} ${o.name}`));
  if (failed.length === 0) return null;
  const overrun = state.moment.snapshot.hosts.filter((host) => host.objects.some((o) => o.cq?.overrun));
  if (overrun.length > 0) return <Note name="stuck">{t('ui.lesson.overrun', { names: listed(overrun.map((host) => find(`ui.host.${host.name}`))) })}</Note>;
  if (state.moment.snapshot.hosts.some((host) => host.objects.some((o) => o.cq?.completions.length))) return null; // a poll may be what is asked for
  return <Note name="stuck">{t('ui.lesson.stuck', { names: listed(failed) })} {connects(state) && t('ui.lesson.stuck.connect')}</Note>;
}

// A note that scrolls into view: it stands below what the user has just seen or pressed.
function Note({ name, children }: { name: string; children: ComponentChildren }) {
  const box = useRef<HTMLParagraphElement>(null);
  useEffect(() => box.current?.scrollIntoView({ block: 'nearest' }), []);
  return <p class="note-box" role="status" data-test={name} ref={box}>{children}</p>;
}

function Question({ id, answers, right, played, onRight }: { id: string; answers: number; right: number; played: boolean; onRight(): void }) {
  const [chosen, setChosen] = useState(0);
  const [checked, setChecked] = useState(false);
  const good = chosen === right;
  useEffect(() => {
    if (!checked || !good) return;
    const list = played ? 'watched' : 'solved'; // what the page's solution did is not the learner's
    keep(list, [...new Set([...kept<string[]>(list, []), id])]);
    onRight();
  }, [checked, good]);
  return (
    <form class="question" data-test="question" onSubmit={(event) => { event.preventDefault(); setChecked(chosen > 0); }}>
      <Answers
        name="answer" legend={find(`lesson.${id}.question`)} order={Array.from({ length: answers }, (_, i) => i + 1)} chosen={chosen} text={(n) => find(`lesson.${id}.answer.${n}`)}
        classOf={(n) => (checked && n === chosen ? (good ? 'right' : 'wrong') : '')} onChoose={(n) => { setChosen(n); setChecked(false); }}
      />
      <button type="submit" data-test="answer.check" disabled={chosen === 0}>{t('ui.question.check')}</button>
      <div aria-live="polite">
        {checked && (
          <div class={good ? 'verdict right' : 'verdict wrong'} data-test="verdict" data-right={good}>
            <strong>{t(good ? 'ui.question.right' : 'ui.question.wrong')}</strong>
            {!good && <Prose text={find(`lesson.${id}.wrong.${chosen}`)} />}
          </div>
        )}
      </div>
    </form>
  );
}
