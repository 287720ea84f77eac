// The laboratory: starts the engine, opens the session that the address names, and shows the page.
import { render } from 'preact';
import '../common/theme.css';
import '../common/graph.css';
import '../common/wire.css';
import { chooseTheme } from '../common/theme';
import { languageNames, setLanguage, type Language } from '../texts';
import { App, Waiting } from './app';
import './bench.css';
import './guide.css';
import './lab.css';
import './sheet.css';
import { closeDialog } from './dialog';
import { load } from './engine';
import { blank, kept } from './keep';
import { listen } from './keys';
import { startOpening } from './opening';
import { openPoster } from './poster';
import { problemText } from './refusal';
import { change, get, link, open, openMistake, subscribe } from './store';

const mostActions = 500; // of a session whose link the address bar follows

/** Opens what the fragment of the address names: a session's link, a lesson or a mistake. */
function openFragment() {
  const fragment = decodeURIComponent(location.hash.slice(1));
  const [, kind, name] = /^(lesson|mistake)=([a-z-]+)$/.exec(fragment) ?? [];
  closeDialog(); // the poster, say, which would hide what is opened
  try {
    if (fragment === 'poster') openPoster();
    else if (kind === 'lesson') open(JSON.stringify({ lesson: name }));
    else if (kind === 'mistake' && name) openMistake(name);
    else if (!fragment && blank()) startOpening();
    else open(fragment || '{}');
    if (fragment && !name && !get().setup.lesson) change({ pane: 'hosts' });
  } catch (error) {
    if (!get()) open('{}');
    change({ message: problemText(error) });
  }
}

// The address follows the session, once the user pauses for a moment.
let timer = 0;
function writeFragment() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const { actions, mistake, setup, solution, opening } = get();
    if (opening !== null) return;
    const about = mistake ? `mistake=${mistake}` : setup.lesson ? `lesson=${setup.lesson}` : '';
    const plain = mistake || (setup.lesson && solution); // a link has neither
    const fragment = actions.length === 0 || actions.length > mostActions || plain ? about : link();
    if (fragment === location.hash.slice(1)) return;
    history.replaceState(null, '', fragment ? `#${fragment}` : location.pathname + location.search);
  }, 300) as unknown as number;
}

function start() {
  open('{}'); // for the tables; the fragment may name something else
  openFragment();
  render(<App />, document.getElementById('app')!);
  subscribe(writeFragment);
  addEventListener('hashchange', openFragment);
  listen();
}

const chosen = kept<string>('language', navigator.language.slice(0, 2));
setLanguage(chosen in languageNames ? (chosen as Language) : 'en');
chooseTheme(kept('theme', ''));
render(<Waiting />, document.getElementById('app')!);
load().then(start).catch((error: unknown) => {
  document.getElementById('app')!.textContent = String(error);
});
