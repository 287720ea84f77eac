// The final examination: twenty parts, of which ten are done on the bench. What the learner did is kept after each part, so
// a closed page loses nothing. exammarks.tsx has the result.
import { useEffect, useState } from 'preact/hooks';
import { Prose } from '../common/prose';
import { find, t } from '../texts';
import { attempt, once } from './attempt';
import { ExamResult, isDone, marksOf } from './exammarks';
import { Answers, Goals } from './goals';
import { keep, kept } from './keep';
import { benchBesideGuide, change, open, type State } from './store';

/** An examination that is under way or finished. */
export interface Exam {
  seed: number; // of the order of the answers
  at: number; // the part that is open
  answers: Record<string, number>; // of questions, by their ids
  met: Record<string, string[]>; // the goals of tasks
  ended: string; // when, as a date; '' while it is under way
}

export type Part = State['tables']['exam'][number];

/** Returns the examination of this browser, or null. */
export const currentExam = () => kept<Exam | null>('exam', null);

const save = (exam: Exam | null) => {
  keep('exam', exam);
  change({});
};

/** Reports whether the open session is a task of the examination. */
export const isTask = (state: State) => state.tables.exam.some((part) => part.id === state.setup.lesson);

/** Returns the numbers 1 to n in an order that a seed and a name determine. */
export function shuffled(n: number, seed: number, name: string): number[] {
  let x = [...name].reduce((h, c) => Math.imul(h ^ c.charCodeAt(0), 0x01000193), seed >>> 0);
  const order = Array.from({ length: n }, (_, i) => i + 1);
  for (let i = n - 1; i > 0; i--) {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x297a2d39;
    const j = (x >>> 8) % (i + 1);
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}

/** Goes to a part. A task begins with its start. */
function goToPart(exam: Exam, state: State, at: number) {
  const part = state.tables.exam[at]!;
  attempt(() => (part.goals.length > 0 ? open(JSON.stringify({ lesson: part.id })) : open('{}', { scratch: true })));
  save({ ...exam, at });
}

export function ExamPane({ state }: { state: State }) {
  const exam = currentExam();
  const parts = state.tables.exam;
  const begin = () => goToPart({ seed: Math.floor(Math.random() * 2 ** 31), at: 0, answers: {}, met: {}, ended: '' }, state, 0);
  // A task that the session shows is the part that is open, also after a link or a reload.
  const shown = parts.findIndex((part) => part.id === state.setup.lesson);
  useEffect(() => {
    if (exam && !exam.ended && shown >= 0 && shown !== exam.at) save({ ...exam, at: shown });
  }, [shown]);
  if (!exam) {
    return (
      <article class="lesson exam-page" data-test="exam.begin">
        <h2 id="guide-title" tabIndex={-1}>{t('ui.exam')}</h2>
        <Prose text={t('ui.exam.intro', { n: parts.length, questions: parts.filter((p) => p.answers > 0).length, tasks: parts.filter((p) => p.goals.length > 0).length })} />
        <button type="button" class="primary next" data-test="exam.start" onClick={once(begin)}>{t('ui.exam.begin')}</button>
      </article>
    );
  }
  if (exam.ended) return <ExamResult exam={exam} state={state} onAgain={() => { attempt(benchBesideGuide); save(null); }} />;
  return <PartPage key={parts[exam.at]!.id} exam={exam} state={state} />;
}

function PartPage({ exam, state }: { exam: Exam; state: State }) {
  const parts = state.tables.exam;
  const part = parts[exam.at]!;
  const text = (key: string) => find(`${part.id}.${key}`);
  const isLast = exam.at === parts.length - 1;
  const isShown = part.goals.length > 0 ? state.setup.lesson === part.id : state.scratch;
  const [sure, setSure] = useState(false);
  const left = parts.filter((p) => !isDone(exam, p)).length;
  const end = () => {
    if (left > 0 && !sure) return setSure(true);
    save({ ...exam, ended: new Date().toISOString() });
    keep('exam.best', Math.max(kept('exam.best', 0), marksOf(exam, state.tables).sum));
    attempt(benchBesideGuide);
  };
  return (
    <article class="lesson" data-test="exam.part" data-part={part.id} aria-labelledby="guide-title">
      <p class="eyebrow">{t('ui.exam.number', { n: exam.at + 1, all: parts.length })} · {find(`ui.exam.subject.${part.subject}`)}</p>
      <h2 id="guide-title" tabIndex={-1}>{text('title')}</h2>
      {part.goals.length > 0 ? <Task exam={exam} part={part} state={state} /> : <Question exam={exam} part={part} />}
      <div class="guide-tools">
        {!isLast && <button type="button" class={isDone(exam, part) ? 'primary' : ''} data-test="exam.next" onClick={once(() => goToPart(exam, state, exam.at + 1))}>{t(isDone(exam, part) ? 'ui.exam.next' : 'ui.exam.leave')}</button>}
        <button type="button" class={isLast ? 'primary' : ''} data-test="exam.end" onClick={once(end)}>{sure && left > 0 ? t('ui.exam.sure', { n: left }) : t('ui.exam.end')}</button>
      </div>
      <nav aria-label={t('ui.exam.parts')}>
        <ol class="exam-parts">
          {parts.map((p, i) => (
            <li key={p.id}>
              <button type="button" class={isDone(exam, p) ? 'done' : ''} data-test={`exam.to.${i + 1}`} aria-current={i === exam.at ? 'step' : undefined} onClick={once(() => (i === exam.at && isShown ? undefined : goToPart(exam, state, i)))} title={find(`${p.id}.title`)}>
                {i + 1}<span class="hidden"> {find(`${p.id}.title`)}{isDone(exam, p) && ` (${t('ui.exam.done')})`}</span>
              </button>
            </li>
          ))}
        </ol>
      </nav>
    </article>
  );
}

// A question. Its answers are in the order of the seed; whether one is right is said at the end.
function Question({ exam, part }: { exam: Exam; part: Part }) {
  const choose = (n: number) => save({ ...exam, answers: { ...exam.answers, [part.id]: n } });
  return (
    <div class="question">
      <Answers
        name="exam.answer" legend={find(`${part.id}.ask`)} order={shuffled(part.answers, exam.seed, part.id)} chosen={exam.answers[part.id]}
        text={(n) => find(`${part.id}.answer.${n}`)} onChoose={choose}
      />
    </div>
  );
}

// A task: the engine checks the goals. It is solved if all are reached in one attempt, and then stays solved.
function Task({ exam, part, state }: { exam: Exam; part: Part; state: State }) {
  const text = (key: string) => find(`${part.id}.${key}`);
  const own = state.setup.lesson === part.id;
  const reached = own ? state.moment.snapshot.goals.filter((g) => g.met >= 0).map((g) => g.key) : [];
  const saved = exam.met[part.id] ?? [];
  const met = own && saved.length < part.goals.length ? reached : saved;
  const past = state.cursor < state.actions.length;
  useEffect(() => {
    if (past || met.length === saved.length) return;
    save({ ...exam, met: { ...exam.met, [part.id]: met } });
    if (met.length === part.goals.length) change({ message: t('ui.exam.reached') }); // a narrow window may show another pane
  }, [met.length, past]);
  const restart = () => attempt(() => open(JSON.stringify({ lesson: part.id })));
  return (
    <>
      <Prose text={text('ask')} />
      <Goals keys={part.goals} met={met} text={text} />
      <div class="guide-tools"><button type="button" data-test="exam.restart" onClick={once(restart)}>{t(own ? 'ui.lesson.restart' : 'ui.exam.bench')}</button></div>
    </>
  );
}
