// The page: its header, the guide, the two hosts with the wire between them, the details, the playback.
import { useEffect, useReducer, useState } from 'preact/hooks';
import { Icon } from '../common/icons';
import { inline } from '../common/prose';
import { isDark, onSystemTheme, swapTheme } from '../common/theme';
import { find, language, languageNames, setLanguage, t, type Language } from '../texts';
import { DialogHost } from './dialog';
import { Dock } from './dock';
import { isTask } from './exam';
import { Guide } from './guide';
import { LastNote } from './lastnote';
import { HostCard } from './host';
import { keep } from './keep';
import { openKeys } from './keys';
import { openPoster } from './poster';
import { Opening } from './opening';
import { Playback } from './playback';
import { resultText } from './refusal';
import { openSession } from './session';
import { change, get, subscribe, type Pane, type State } from './store';
import { useActionInView } from './view';
import { WirePane } from './wirepane';

const panes: Pane[] = ['guide', 'hosts', 'wire', 'details'];
const twoPanes = matchMedia('(min-width: 900px) and (max-width: 1199px)'); // as in lab.css: the guide, and one of the others

export function App() {
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  useEffect(() => subscribe(() => redraw(undefined as never)), []);
  useEffect(() => onSystemTheme(() => redraw(undefined as never)), []);
  useEffect(() => {
    const resized = () => redraw(undefined as never);
    twoPanes.addEventListener('change', resized);
    return () => twoPanes.removeEventListener('change', resized);
  }, []);
  const state = get();
  useActionInView(state);
  const { hosts, now_ns } = state.moment.snapshot;
  const [client, server] = [hosts[0]!, hosts[1]!];
  const pane = twoPanes.matches && state.pane === 'guide' ? 'hosts' : state.pane;
  return (
    <div class={`page show-${pane} detail-${state.detail}`}>
      <Header onChange={() => redraw(undefined as never)} />
      <nav class="panes" aria-label={t('ui.panes')}>
        {panes.slice(twoPanes.matches ? 1 : 0).map((name) => (
          <button type="button" data-test={`pane.${name}`} aria-pressed={name === pane} onClick={() => change({ pane: name })}>{t(`ui.pane.${name}`)}</button>
        ))}
      </nav>
      {state.opening === null && <NextGoal state={state} />}
      {state.opening !== null && <Opening state={state} />}
      <main>
        <Guide state={state} />
        <div class="bench">
          <HostCard host={client} peer={server} tables={state.tables} now={now_ns} />
          <WirePane state={state} />
          <HostCard host={server} peer={client} tables={state.tables} now={now_ns} />
          <LastNote state={state} />
        </div>
        <Dock state={state} />
      </main>
      <Playback state={state} />
      <Said state={state} />
      <DialogHost />
    </div>
  );
}

/** The frame of the page, until the engine is there. */
export function Waiting() {
  return (
    <div class="page show-guide">
      <header class="top"><Mark /><h1>{t('ui.title')}</h1></header>
      <main aria-busy="true">
        <aside class="guide" />
        <div class="bench"><div class="host client" /><div class="wire-pane" /><div class="host server" /></div>
        <div class="dock" />
      </main>
      <footer class="playback" />
      <p class="loading" role="status">{t('ui.loading')}</p>
    </div>
  );
}

const Mark = () => (
  <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <path class="posts" d="M6 4v24M26 4v24" />
    <path class="there" d="M7 8l18 7" />
    <path class="back" d="M25 18L7 25" />
  </svg>
);

function Header({ onChange }: { onChange(): void }) {
  const dark = isDark();
  const toggle = () => {
    keep('theme', swapTheme());
    onChange();
  };
  const speak = (to: Language) => {
    setLanguage(to);
    keep('language', to);
    onChange();
  };
  return (
    <header class="top">
      <Mark />
      <h1 data-test="title">{t('ui.title')}</h1>
      <span class="gap" />
      <button type="button" data-test="poster" onClick={openPoster}>{t('ui.poster')}</button>
      <button type="button" data-test="session" onClick={openSession}>{t('ui.session')}</button>
      <button type="button" class="round" data-test="keys" title={t('ui.keys')} aria-label={t('ui.keys')} onClick={openKeys}><Icon name="help" /></button>
      <button type="button" class="round" data-test="theme" title={t('ui.theme')} aria-label={t('ui.theme')} aria-pressed={dark} onClick={toggle}><Icon name={dark ? 'light' : 'dark'} /></button>
      <label>
        <span class="hidden">{t('ui.language')}</span>
        <select data-test="language" value={language()} onChange={(event) => speak(event.currentTarget.value as Language)}>
          {Object.entries(languageNames).map(([key, name]) => <option value={key} lang={key}>{name}</option>)}
        </select>
      </label>
    </header>
  );
}

// In a narrow window, the first goal that is left stands below the tabs while the guide is not shown.
function NextGoal({ state }: { state: State }) {
  const { goals } = state.moment.snapshot;
  const next = goals.find((goal) => goal.met < 0);
  const id = state.setup.lesson;
  if (!next || !id || isTask(state)) return null; // the examination keeps which goals of a task were met once
  const text = find(`lesson.${id}.goal.${next.key}`);
  return <p class="next-goal" data-test="goal.next"><strong>{t('ui.lesson.next-goal', { n: goals.indexOf(next) + 1, all: goals.length })}</strong> <span title={text.replaceAll('`', '')}>{inline(text)}</span></p>;
}

// The live region: what the engine said last. It is shown as a note for a moment too.
function Said({ state }: { state: State }) {
  const [shown, setShown] = useState('');
  useEffect(() => {
    setShown(state.message);
    const timer = setTimeout(() => setShown(''), 6000);
    return () => clearTimeout(timer);
  }, [state.message, state.actions.length]);
  const visible = shown && !document.querySelector('dialog[open]'); // a dialog shows its own errors
  const { result } = state.moment.snapshot;
  const elsewhere = state.detail === 'result' && shown === resultText(result);
  return <div class={`said ${visible ? 'shown' : ''} ${elsewhere ? 'elsewhere' : ''}`} role="status" data-test="said">{shown}</div>;
}
