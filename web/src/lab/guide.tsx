// The panel at the left: the lessons, the mistakes and the free bench, and the one that is open.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Prose, inline } from '../common/prose';
import { Icon } from '../common/icons';
import { find, t } from '../texts';
import { connects } from './connect';
import { CompletionRow } from './objects';
import { refusalText } from './refusal';
import { change, open, openMistake, play, type State } from './store';
import { attempt } from './playback';
import { keep, kept } from './keep';

type List = 'lessons' | 'mistakes';

export function Guide({ state }: { state: State }) {
  const opened: List | null = state.setup.lesson ? 'lessons' : state.mistake ? 'mistakes' : null;
  const [list, setList] = useState<List | 'bench'>(opened ?? 'lessons');
  const [listing, setListing] = useState(false);
  const name = state.setup.lesson ?? state.mistake ?? '';
  const aside = useRef<HTMLElement>(null);
  useEffect(() => {
    setListing(false);
    for (const box of [aside.current, aside.current?.closest('main')]) box?.scrollTo({ top: 0 }); // the guide or, in a narrow window, its pane
    if (opened) setList(opened);
  }, [opened, name]);
  const choose = (to: List) => { setList(to); setListing(true); };
  const body = !listing && opened === list;
  return (
    <aside class="guide" ref={aside} aria-label={t('ui.guide')}>
      <div class="segmented" role="group" aria-label={t('ui.guide')}>
        <button type="button" data-test="tab.lessons" aria-pressed={list === 'lessons'} onClick={() => choose('lessons')}>{t('ui.lessons')}</button>
        <button type="button" data-test="tab.mistakes" aria-pressed={list === 'mistakes'} onClick={() => choose('mistakes')}>{t('ui.mistakes')}</button>
        <button type="button" data-test="bench" aria-pressed={list === 'bench'} onClick={() => { openBench(); setList('bench'); }}>{t('ui.bench')}</button>
      </div>
      {body && list === 'lessons' && <Lesson key={name} state={state} id={name} onMistakes={() => choose('mistakes')} />}
      {body && list === 'mistakes' && <Mistake key={name} state={state} name={name} />}
      {list === 'bench' && <p class="guide-lead" data-test="bench.about">{t('ui.bench.about')}</p>}
      {!body && list !== 'bench' && <Entries list={list} state={state} onOpen={() => setListing(false)} />}
    </aside>
  );
}

const openBench = () => attempt(() => {
  open('{}');
  change({ pane: 'hosts' });
});

// The lessons or the mistakes, to open one. A tick stands at those that are done.
function Entries({ list, state, onOpen }: { list: List; state: State; onOpen(): void }) {
  const lessons = list === 'lessons';
  const done = kept<string[]>(lessons ? 'solved' : 'seen', []);
  const kind = lessons ? 'lesson' : 'mistake';
  const names = lessons ? state.tables.lessons.map((l) => l.id) : state.tables.mistakes.map((m) => m.name);
  const current = lessons ? state.setup.lesson : state.mistake;
  const choose = (name: string) => {
    attempt(() => (lessons ? open(JSON.stringify({ lesson: name })) : openMistake(name)));
    onOpen();
  };
  return (
    <>
      <p class="guide-lead">{t(lessons ? 'ui.lessons.lead' : 'ui.mistakes.lead')}</p>
      <ol class="entries">
        {names.map((name, i) => (
          <li key={name}>
            <button type="button" data-test={`${kind}.${name}`} class={current === name ? 'current' : ''} onClick={() => choose(name)}>
              <span class="entry-number">{done.includes(name) ? <Icon name="check" /> : i + 1}</span>
              <span>{find(`${kind}.${name}.title`) || name}{done.includes(name) && <span class="hidden"> ({t(lessons ? 'ui.lesson.solved' : 'ui.mistake.done')})</span>}</span>
            </button>
          </li>
        ))}
      </ol>
    </>
  );
}

function Lesson({ state, id, onMistakes }: { state: State; id: string; onMistakes(): void }) {
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
const once = (f: () => void) => (event: MouseEvent) => {
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
            {good && <Prose text={find(`lesson.${id}.why`)} />}
          </div>
        )}
      </div>
    </form>
  );
}

function Mistake({ state, name }: { state: State; name: string }) {
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
      <h2 id="guide-title">{text('title') || name}</h2>
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

// What both ends saw since the question: refused calls, completions, and the states at the end.
function Seen({ state, since }: { state: State; since: number }) {
  const results = state.results.map((result, i) => ({ result, host: state.actions[i]!.host })).slice(since);
  return (
    <section class="seen" data-test="mistake.seen" aria-labelledby="seen-title">
      <h3 id="seen-title">{t('ui.mistake.seen')}</h3>
      {state.moment.snapshot.hosts.map((host) => {
        const own = results.filter((r) => r.host === host.name);
        const refused = own.flatMap((r) => r.result?.refused ?? []);
        const completions = own.flatMap((r) => r.result?.completions ?? []);
        return (
          <div class="seen-end" key={host.name} data-test={`seen.${host.name}`}>
            <h4><span class={`badge ${host.name}`}>{find(`ui.host.${host.name}`)}</span></h4>
            <ul>
              {refused.map((r) => <li class="small"><code>{r.op}</code> <strong class="bad">{r.errno}</strong> {refusalText(r)}</li>)}
              {completions.map((wc) => <CompletionRow wc={wc} />)}
              {refused.length + completions.length === 0 && <li class="small muted">{t('ui.mistake.nothing')}</li>}
              {host.objects.filter((o) => o.qp).map((o) => <li class="small mono">{o.name} · {o.qp!.state}</li>)}
            </ul>
          </div>
        );
      })}
    </section>
  );
}
