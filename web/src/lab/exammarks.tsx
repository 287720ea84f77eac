// The result of the examination: the marks per subject, what was wrong and why, and the result to keep.
import { useEffect, useState } from 'preact/hooks';
import type { Tables } from '../api';
import { Prose, inline } from '../common/prose';
import { find, language, t, type Key } from '../texts';
import { attempt, once } from './attempt';
import type { Exam, Part } from './exam';
import { download } from './session';
import { change, open, type State } from './store';

/** The marks of an examination, in all and by subject. */
export interface Marks {
  sum: number;
  done: number; // parts, right or wrong
  all: number;
  subjects: { subject: string; n: number; all: number }[];
}

/** Reports whether a part has an answer, or a task all of its goals. */
export const isDone = (exam: Exam, part: Part) => (part.answers > 0 ? part.id in exam.answers : (exam.met[part.id] ?? []).length === part.goals.length);

/** Reports whether a part is answered or done rightly. */
const isRight = (exam: Exam, part: Part) => (part.answers > 0 ? exam.answers[part.id] === part.right : isDone(exam, part));

/** Reports whether a part has no answer, or a task none of its goals. */
const isUntouched = (exam: Exam, part: Part) => (part.answers > 0 ? !isDone(exam, part) : (exam.met[part.id] ?? []).length === 0);

export function marksOf(exam: Exam, tables: Tables): Marks {
  const count = (parts: Part[]) => parts.filter((part) => isRight(exam, part)).length;
  const subjects = tables.subjects.map((subject) => {
    const own = tables.exam.filter((part) => part.subject === subject);
    return { subject, n: count(own), all: own.length };
  });
  return { sum: count(tables.exam), done: tables.exam.filter((part) => isDone(exam, part)).length, all: tables.exam.length, subjects };
}

// On paper all explanations are open.
function unfold() {
  for (const part of document.querySelectorAll<HTMLDetailsElement>('.wrong-parts details')) part.open = true;
}

const day = (iso: string) => new Date(iso).toLocaleDateString(language(), { dateStyle: 'long' });

export function ExamResult({ exam, state, onAgain }: { exam: Exam; state: State; onAgain(): void }) {
  const { tables } = state;
  const marks = marksOf(exam, tables);
  const wrong = tables.exam.filter((part) => !isRight(exam, part) && !isUntouched(exam, part));
  const left = tables.exam.filter((part) => isUntouched(exam, part));
  const right = tables.exam.filter((part) => isRight(exam, part));
  const [sure, setSure] = useState(false);
  useEffect(() => {
    addEventListener('beforeprint', unfold);
    return () => removeEventListener('beforeprint', unfold);
  }, []);
  return (
    <article class="lesson exam-page exam-result" data-test="exam.result" aria-labelledby="guide-title">
      <h2 id="guide-title" tabIndex={-1}>{t('ui.exam.result')}</h2>
      <p class="small muted">{day(exam.ended)}</p>
      <p class="on-paper">{t('ui.exam.name')} ______________________</p>
      <p class="marks-sum" data-test="exam.sum">{t('ui.exam.sum', { n: marks.sum, all: marks.all })}{marks.done < marks.all && <span class="muted">{t('ui.space')}{t('ui.exam.answered', { n: marks.done })}</span>}</p>
      <table class="marks">
        <caption class="hidden">{t('ui.exam.marks')}</caption>
        <tbody>
          {marks.subjects.map(({ subject, n, all }) => (
            <tr key={subject} data-test={`exam.mark.${subject}`}>
              <th scope="row">{find(`ui.exam.subject.${subject}`)}</th>
              <td aria-hidden="true"><span class="mark-bar"><i style={{ width: `${(100 * n) / all}%` }} /></span></td>
              <td class="mono">{t('ui.exam.mark', { n, all })}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <div class="guide-tools no-print">
        <button type="button" data-test="exam.save" onClick={() => download('rdma-exam.txt', resultText(exam, tables))}>{t('ui.download')}</button>
        <button type="button" data-test="exam.print" onClick={() => print()}>{t('ui.poster.print')}</button>
        <button type="button" data-test="exam.again" onClick={once(() => (sure ? onAgain() : setSure(true)))}>{t(sure ? 'ui.exam.again.sure' : 'ui.exam.again')}</button>
      </div>
      {wrong.length + left.length === 0 && <p class="good">{t('ui.exam.perfect')}</p>}
      {([['wrong', wrong], ['left', left]] as const).map(([kind, parts]) => parts.length > 0 && (
        <div class="wrong-parts" key={kind} data-test={`exam.${kind}`}>
          <h3>{t(`ui.exam.${kind}`)}</h3>
          <ol class="wrong-parts">
            {parts.map((part) => <li key={part.id} data-test={`exam.wrong.${part.id}`}><Wrong exam={exam} part={part} number={tables.exam.indexOf(part) + 1} hidden={kind === 'left'} /></li>)}
          </ol>
        </div>
      ))}
      {right.length > 0 && <h3>{t('ui.exam.rightly')}</h3>}
      <ol class="wrong-parts">
        {right.map((part) => (
          <li key={part.id}>
            <details><summary>{tables.exam.indexOf(part) + 1}. {find(`${part.id}.title`)}</summary><Prose text={find(`${part.id}.ask`)} /><Prose text={find(`${part.id}.why`)} /></details>
          </li>
        ))}
      </ol>
    </article>
  );
}

// A part that was wrong: what was asked and chosen, why that is wrong, and what is right. Of a part that is open, the
// answer stays folded, so that it can still be found.
function Wrong({ exam, part, number, hidden }: { exam: Exam; part: Part; number: number; hidden: boolean }) {
  const text = (key: string) => find(`${part.id}.${key}`);
  const solution = () => attempt(() => {
    open(JSON.stringify({ lesson: part.id }), { future: part.solution });
    change({ message: t('ui.lesson.play', { n: part.solution.length }) });
  });
  const answer = (
    <>
      {whatWasWrong(exam, part).map((line) => <p>{line.label && <strong class={line.tone}>{t(line.label)}</strong>}{inline(line.text)}</p>)}
      <Prose text={text('why')} />
    </>
  );
  return (
    <details>
      <summary>{number}. {text('title')}</summary>
      <Prose text={text('ask')} />
      {hidden ? <details><summary>{t('ui.exam.answer')}</summary>{answer}</details> : answer}
      <div class="guide-tools no-print">
        <button type="button" data-test={`exam.lesson.${part.id}`} onClick={once(() => attempt(() => open(JSON.stringify({ lesson: part.taught_by }))))}>{t('ui.exam.lesson', { title: find(`lesson.${part.taught_by}.title`) })}</button>
        {part.goals.length > 0 && <button type="button" data-test={`exam.solution.${part.id}`} onClick={once(solution)}>{t('ui.lesson.solution')}</button>}
      </div>
    </details>
  );
}

interface Line {
  label?: Key;
  tone?: 'good' | 'bad';
  text: string;
}

// What the learner missed; or what the learner chose, why that is wrong, and what is right.
function whatWasWrong(exam: Exam, part: Part): Line[] {
  const text = (key: string) => find(`${part.id}.${key}`);
  const chosen = exam.answers[part.id];
  const met = exam.met[part.id] ?? [];
  if (part.answers === 0) return part.goals.filter((key) => !met.includes(key)).map((key) => ({ label: 'ui.exam.missed', tone: 'bad', text: text(`goal.${key}`) }));
  const answer: Line[] = chosen
    ? [{ label: 'ui.exam.chosen', tone: 'bad', text: text(`answer.${chosen}`) }, { text: text(`wrong.${chosen}`) }]
    : [{ text: t('ui.exam.open') }];
  return [...answer, { label: 'ui.exam.right', tone: 'good', text: text(`answer.${part.right}`) }];
}

/** The result as a text file. */
function resultText(exam: Exam, tables: Tables): string {
  const marks = marksOf(exam, tables);
  const lines = [t('ui.labelled', { name: t('ui.title'), text: t('ui.exam.result') }), day(exam.ended), t('ui.exam.name'), '', t('ui.exam.sum', { n: marks.sum, all: marks.all }), t('ui.exam.answered', { n: marks.done }), ''];
  for (const { subject, n, all } of marks.subjects) lines.push(`${t('ui.exam.mark', { n, all })}  ${find(`ui.exam.subject.${subject}`)}`);
  lines.push('');
  tables.exam.forEach((part, i) => {
    const right = isRight(exam, part);
    const text = (key: string) => find(`${part.id}.${key}`);
    lines.push(`${String(i + 1).padStart(2)} ${t(right ? 'ui.exam.done.right' : isUntouched(exam, part) ? 'ui.exam.done.left' : 'ui.exam.done.wrong')}${text('title')}`);
    const wrong = () => whatWasWrong(exam, part).map((line) => `${line.label ? t(line.label) : ''}${line.text}`);
    if (!right) lines.push(...[text('ask'), ...wrong(), text('why')].map((line) => `     ${line}`));
  });
  return lines.join('\n').replaceAll('`', '') + '\n';
}
