// The panel at the left: the lessons, the mistakes, the examination and the free bench, and the one that is open.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../common/icons';
import { find, t } from '../texts';
import { attempt } from './attempt';
import { currentExam, ExamPane, isTask } from './exam';
import { kept } from './keep';
import { Lesson } from './lesson';
import { Mistake } from './mistake';
import { startOpening } from './opening';
import { open, openBench, openMistake, type State } from './store';

export type List = 'lessons' | 'mistakes' | 'exam';

export function Guide({ state }: { state: State }) {
  const opened: List | null = isTask(state) ? 'exam' : state.setup.lesson ? 'lessons' : state.mistake ? 'mistakes' : null;
  const [list, setList] = useState<List | 'bench'>(opened ?? 'lessons');
  const [listing, setListing] = useState(false);
  const name = state.setup.lesson ?? state.mistake ?? '';
  useEffect(() => {
    setListing(false);
    if (opened) setList(opened);
  }, [opened, name]);
  const choose = (to: List) => { setList(to); setListing(true); };
  const body = !listing && opened === list;
  const exam = list === 'exam' && currentExam();
  const shown = exam && exam.ended ? exam.ended : [list, body, name, exam && exam.at].join(); // a result stays while solutions are played
  const aside = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    for (const box of [aside.current, aside.current?.closest('main')]) box?.scrollTo({ top: 0 }); // the guide or, in a narrow window, its pane
    if (document.activeElement === document.body) document.getElementById('guide-title')?.focus(); // the pressed button is gone
  }, [shown]);
  return (
    <aside class="guide" ref={aside} aria-label={t('ui.guide')}>
      <div class="segmented" role="group" aria-label={t('ui.guide')}>
        <button type="button" data-test="tab.lessons" aria-pressed={list === 'lessons'} onClick={() => choose('lessons')}>{t('ui.lessons')}</button>
        <button type="button" data-test="tab.mistakes" aria-pressed={list === 'mistakes'} onClick={() => choose('mistakes')}>{t('ui.mistakes')}</button>
        <button type="button" data-test="tab.exam" aria-pressed={list === 'exam'} onClick={() => choose('exam')}>{t('ui.exam')}</button>
        <button type="button" data-test="bench" aria-pressed={list === 'bench'} onClick={() => { attempt(openBench); setList('bench'); }}>{t('ui.bench')}</button>
      </div>
      {body && list === 'lessons' && <Lesson key={name} state={state} id={name} onList={choose} />}
      {body && list === 'mistakes' && <Mistake key={name} state={state} name={name} />}
      {list === 'exam' && <ExamPane state={state} />}
      {list === 'bench' && <p class="guide-lead" data-test="bench.about">{t('ui.bench.about')}</p>}
      {!body && (list === 'lessons' || list === 'mistakes') && <Entries list={list} state={state} onOpen={() => setListing(false)} />}
    </aside>
  );
}

// The lessons or the mistakes, to open one. A tick stands at those that are done.
function Entries({ list, state, onOpen }: { list: 'lessons' | 'mistakes'; state: State; onOpen(): void }) {
  const lessons = list === 'lessons';
  const done = kept<string[]>(lessons ? 'solved' : 'seen', []);
  const watched = lessons ? kept<string[]>('watched', []).filter((name) => !done.includes(name)) : [];
  const kind = lessons ? 'lesson' : 'mistake';
  const names = lessons ? state.tables.lessons.map((l) => l.id) : state.tables.mistakes.map((m) => m.name);
  const current = lessons ? state.setup.lesson : state.mistake;
  const choose = (name: string) => {
    if (name !== current || !lessons) attempt(() => (lessons ? open(JSON.stringify({ lesson: name })) : openMistake(name)));
    onOpen();
  };
  return (
    <>
      <p class="guide-lead">{t(lessons ? 'ui.lessons.lead' : 'ui.mistakes.lead')} {lessons && <button type="button" class="plain link" data-test="opening.again" onClick={() => attempt(startOpening)}>{t('ui.opening.again')}</button>}</p>
      <ol class="entries">
        {names.map((name, i) => (
          <li key={name}>
            {lessons && find(`ui.lessons.from.${name}`) && <h2>{find(`ui.lessons.from.${name}`)}</h2>}
            <button type="button" data-test={`${kind}.${name}`} class={current === name ? 'current' : ''} onClick={() => choose(name)}>
              <span class={watched.includes(name) ? 'entry-number watched' : 'entry-number'}>{done.includes(name) ? <Icon name="check" /> : i + 1}</span>
              <span>{find(`${kind}.${name}.title`) || name}{done.includes(name) && <span class="hidden"> ({t(lessons ? 'ui.lesson.solved' : 'ui.mistake.done')})</span>}{watched.includes(name) && <span class="hidden"> ({t('ui.end.watched')})</span>}</span>
            </button>
          </li>
        ))}
      </ol>
    </>
  );
}
