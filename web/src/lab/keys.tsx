// The keyboard: one key per command, outside of fields and dialogs, and the list of them.
import { t, type Key } from '../texts';
import { attempt } from './attempt';
import { openDialog, SheetHead } from './dialog';
import { selectNext } from './packet';
import { advance, change, forward, get, goTo, perform, play, redo, undo } from './store';

interface Command {
  keys: string[]; // as KeyboardEvent.key; "Ctrl+z" with the modifier
  shown: string;
  text: Key;
  run(): unknown;
}

const fate = (verb: string) => () => {
  const { selected } = get();
  if (selected !== null) perform({ do: verb, packet: selected });
};
const focus = (selector: string) => () => document.querySelector<HTMLElement>(selector)?.focus();

const commands: Command[] = [
  { keys: [' ', 'k'], shown: 'Space', text: 'ui.key.play', run: () => play(!get().playing) },
  { keys: ['ArrowRight'], shown: '→', text: 'ui.forward', run: forward },
  { keys: ['ArrowLeft'], shown: '←', text: 'ui.back', run: () => goTo(get().cursor - 1) },
  { keys: ['Home'], shown: 'Home', text: 'ui.key.start', run: () => goTo(0) },
  { keys: ['End'], shown: 'End', text: 'ui.past.now', run: () => goTo(get().actions.length) },
  { keys: ['s'], shown: 's', text: 'ui.step', run: () => advance({ do: 'step' }) },
  { keys: ['r'], shown: 'r', text: 'ui.run', run: () => advance({ do: 'run' }) },
  { keys: ['Ctrl+z', 'u'], shown: 'Ctrl+Z', text: 'ui.undo', run: undo },
  { keys: ['Ctrl+y', 'Ctrl+Z'], shown: 'Ctrl+Y', text: 'ui.redo', run: redo },
  { keys: ['['], shown: '[', text: 'ui.key.previous', run: () => selectNext(-1) },
  { keys: [']'], shown: ']', text: 'ui.key.next', run: () => selectNext(1) },
  { keys: ['d'], shown: 'd', text: 'ui.key.drop', run: fate('drop') },
  { keys: ['2'], shown: '2', text: 'ui.key.duplicate', run: fate('duplicate') },
  { keys: ['a'], shown: 'a', text: 'ui.key.deliver', run: fate('deliver') },
  { keys: ['c'], shown: 'c', text: 'ui.key.client', run: focus('.host.client button') },
  { keys: ['v'], shown: 'v', text: 'ui.key.server', run: focus('.host.server button') },
  { keys: ['l'], shown: 'l', text: 'ui.key.guide', run: focus('.guide button') },
  { keys: ['?'], shown: '?', text: 'ui.keys', run: openKeys },
];

export function openKeys() {
  openDialog(
    <div key="keys">
      <SheetHead title={t('ui.keys')} />
      <p class="lead">{t('ui.keys.about')}</p>
      <table class="keys">
        <tbody>{commands.map((c) => <tr><th scope="row"><kbd>{c.shown}</kbd></th><td>{t(c.text)}</td></tr>)}</tbody>
      </table>
    </div>,
  );
}

/** Starts listening. */
export function listen() {
  document.addEventListener('keydown', (event) => {
    const target = event.target as HTMLElement;
    if (event.defaultPrevented || event.altKey || document.querySelector('dialog[open]')) return;
    if (target.closest('input, select, textarea')) return;
    if ((event.key === ' ' || event.key === 'Enter') && target.closest('button, summary, [role=button], [role=tab]')) return;
    if (event.key.startsWith('Arrow') && target.closest('[role=tablist]')) return;
    const ctrl = event.ctrlKey || event.metaKey;
    const key = ctrl ? `Ctrl+${event.shiftKey ? event.key.toUpperCase() : event.key}` : event.key;
    const command = commands.find((c) => c.keys.includes(key));
    if (!command) return;
    event.preventDefault();
    attempt(() => command.run());
    change({});
  });
}
