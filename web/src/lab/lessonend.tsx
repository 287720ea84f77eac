// The end of a lesson, and of all of them: what was done, what to remember, and how far the learner is.
import type { GoalState } from '../api';
import { Icon } from '../common/icons';
import { Prose, inline } from '../common/prose';
import { find, t } from '../texts';
import { attempt, once } from './attempt';
import type { List } from './guide';
import { kept } from './keep';
import { predictions } from './predict';
import { goTo, open, openBench, type State } from './store';

const solved = () => kept<string[]>('solved', []);
const title = (id: string) => find(`lesson.${id}.title`) || id;

/** What the learner has done in a lesson, once its question is answered. */
export function LessonEnd({ state, id, goals }: { state: State; id: string; goals: GoalState[] }) {
  const counts = predictions();
  return (
    <section class="end-page" data-test="lesson.end" aria-labelledby="end-title">
      <h3 id="end-title">{t(state.solution ? 'ui.end.solution-did' : 'ui.end.did')}</h3>
      <ol class="did">
        {goals.map((goal) => (
          <li key={goal.key}>
            <Icon name="check" /> <span>{inline(find(`lesson.${id}.goal.${goal.key}`))} <button type="button" class="plain link small" data-test={`end.step.${goal.key}`} onClick={() => attempt(() => goTo(goal.met + 1))}>{t('ui.end.step', { n: goal.met + 1 })}</button></span>
          </li>
        ))}
      </ol>
      <h3>{t('ui.end.remember')}</h3>
      <Prose text={find(`lesson.${id}.why`)} />
      <Progress state={state} current={id} />
      {counts.all > 0 && <p class="small muted">{t('ui.predict.count', { n: counts.right, all: counts.all })}</p>}
    </section>
  );
}

// One part per lesson; those that are solved are filled, and those whose solution was played in half.
function Progress({ state, current }: { state: State; current: string }) {
  const done = solved();
  const watched = kept<string[]>('watched', []);
  const { lessons } = state.tables;
  return (
    <div class="course">
      <p class="small" data-test="end.progress">{t('ui.end.progress', { n: lessons.filter((l) => done.includes(l.id)).length, all: lessons.length })}</p>
      <div class="course-parts" aria-hidden="true">
        {lessons.map((l) => <i key={l.id} class={`${done.includes(l.id) ? 'done' : watched.includes(l.id) ? 'watched' : ''} ${l.id === current ? 'current' : ''}`} />)}
      </div>
    </div>
  );
}

/** What follows the last lesson: what is left of the course, and where to go on. */
export function CourseEnd({ state, onList }: { state: State; onList(list: List): void }) {
  const done = solved();
  const left = state.tables.lessons.filter((l) => !done.includes(l.id));
  const best = kept('exam.best', 0);
  const { exam } = state.tables;
  const seen = kept<string[]>('seen', []).length;
  return (
    <section class="note-box end-page" data-test="lessons.end" aria-labelledby="course-end">
      <h3 id="course-end">{t(left.length > 0 ? 'ui.end.last' : 'ui.end.all')}</h3>
      <p>{best > 0 ? t('ui.end.exam.best', { n: best, all: exam.length }) : t('ui.end.exam', { n: exam.length, tasks: exam.filter((part) => part.goals.length > 0).length })}</p>
      <p>{t('ui.end.mistakes', { n: seen, all: state.tables.mistakes.length })}</p>
      <div class="guide-tools">
        <button type="button" class="primary" data-test="end.exam" onClick={once(() => onList('exam'))}>{t('ui.exam')}</button>
        <button type="button" data-test="end.mistakes" onClick={once(() => onList('mistakes'))}>{t('ui.mistakes')}</button>
        <button type="button" data-test="end.bench" onClick={once(() => attempt(openBench))}>{t('ui.bench')}</button>
      </div>
      {left.length > 0 && (
        <>
          <p>{t('ui.end.left', { n: left.length })}</p>
          <ul>{left.map((l) => <li key={l.id}><button type="button" class="plain link" data-test={`end.lesson.${l.id}`} onClick={once(() => attempt(() => open(JSON.stringify({ lesson: l.id }))))}>{title(l.id)}</button></li>)}</ul>
        </>
      )}
    </section>
  );
}
