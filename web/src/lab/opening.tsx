// The opening: whoever comes for the first time, and not by a link, or asks for it, sees two queue pairs go from RESET to RTS, and
// one SEND from the post to both completions. It is a list of actions, which the playback carries out; here are the list and the captions.
import { useEffect, useRef } from 'preact/hooks';
import type { Action } from '../api';
import { find, t } from '../texts';
import { attempt } from './attempt';
import { makePair } from './connect';
import { keep } from './keep';
import { benchBesideGuide, change, forward, get, open, play, undo, type Pane, type State } from './store';

const message = 'hello, server';
const part = { mr: 'buf', offset: 0 };

// What comes after the two moves to INIT, and after the other actions of "Connect both".
const receive: Action = { do: 'post_recv', host: 'server', name: 'qp', wrs: [{ id: 1, sgl: [{ ...part, length: 64 }] }] };
const send: Action[] = [
  { do: 'write', host: 'client', name: part.mr, offset: 0, text: message },
  { do: 'post_send', host: 'client', name: 'qp', wrs: [{ id: 1, opcode: 'SEND', flags: ['SIGNALED'], sgl: [{ ...part, length: message.length }] }] },
  { do: 'step' },
  { do: 'step' },
  { do: 'poll_cq', host: 'client', name: 'cq' },
  { do: 'poll_cq', host: 'server', name: 'cq' },
];

// The captions: the pane that a narrow window shows, and for each action of the caption what it changes.
const captions: { pane: Pane; changes: string[][] }[] = [
  { pane: 'hosts', changes: [['client.qp', 'server.qp']] }, // RESET, before the first action
  { pane: 'hosts', changes: [['client.qp'], ['server.qp']] }, // INIT
  { pane: 'hosts', changes: [['server.qp']] }, // a receive
  { pane: 'hosts', changes: [['server.told'], ['client.told']] }, // the exchange
  { pane: 'hosts', changes: [['client.qp'], ['server.qp']] }, // RTR
  { pane: 'hosts', changes: [['client.qp'], ['server.qp']] }, // RTS
  { pane: 'hosts', changes: [['client.buf']] },
  { pane: 'wire', changes: [['client.qp']] },
  { pane: 'hosts', changes: [['server.buf', 'server.cq']] },
  { pane: 'hosts', changes: [['client.cq']] },
  { pane: 'details', changes: [['client.cq']] },
  { pane: 'details', changes: [['server.cq']] },
];

// The moments of the opening, the first one before its first action.
const moments = captions.flatMap(({ pane, changes }, at) =>
  changes.map((_, i) => ({ at, pane, marks: changes.slice(0, i + 1).flat(), parts: changes.length, whole: i + 1 === changes.length })));

// The moment after n actions of the opening. A step back goes to before the opening, too.
const momentAt = (n: number) => moments[Math.max(0, Math.min(n, moments.length - 1))]!;
const shown = ({ opening, cursor }: State) => momentAt(cursor - opening!.before);

/** The objects that the shown step of the opening changes. */
export const marks = (state: State) => (state.opening ? shown(state).marks : []);

// How long a text takes to read, in milliseconds. A Chinese character says more than a letter.
const readingTime = (text: string) => [...text].reduce((ms, sign) => ms + (sign > '\u2e7f' ? 110 : 40), 0);

const shortest = 2600; // of a caption, in milliseconds: the states change below it

/** Begins the opening. Whoever asks for less motion goes through it step by step. */
export function startOpening() {
  open('{}', { scratch: true });
  makePair();
  const before = get().actions.findIndex((action) => action.do === 'modify_qp');
  while (get().actions.length > before) undo(); // the playback carries them out again
  const stay = (n: number) => Math.max(shortest, readingTime(find(`ui.opening.${momentAt(n).at}`))) / momentAt(n).parts;
  const moves = get().future;
  const told = moves.findIndex((action) => action.do === 'exchange');
  change({ future: [...moves.slice(0, told), receive, ...moves.slice(told), ...send], opening: { before, stay }, pane: captions[0]!.pane, message: '' });
  if (!matchMedia('(prefers-reduced-motion: reduce)').matches) play(true, true);
}

// Moves on to the next caption, with all of its actions.
function next() {
  play(false);
  while (forward() && !shown(get()).whole);
}

/** The caption of the step that is shown, and the ways on: pause or the next step, skip, and at the end the first lesson. */
export function Opening({ state }: { state: State }) {
  const { cursor, playing } = state;
  useEffect(() => () => keep('opening', true), []);
  const { at, pane } = shown(state);
  const last = captions.length - 1;
  const end = at === last;
  useEffect(() => change({ pane }), [at]);
  // What has changed comes into view, with as much of the host's top as fits.
  useEffect(() => {
    for (const element of document.querySelectorAll('.marked')) {
      element.closest('.host')!.scrollTo({ top: 0 });
      if (at > 0) element.scrollIntoView({ block: 'nearest' });
    }
  }, [cursor, state.pane]);
  const onward = useRef<HTMLButtonElement>(null);
  useEffect(() => { if (document.activeElement === document.body) onward.current?.focus(); }, [end]); // the pressed button is gone
  return (
    <section class="opening" aria-label={t('ui.opening')} data-test="opening" data-step={at}>
      <span class="opening-at mono small" aria-hidden="true">{at + 1} / {captions.length}</span>
      <p class="caption" aria-live="polite" data-test="opening.caption">{find(`ui.opening.${at}`)} {end && <strong>{t('ui.opening.turn')}</strong>}</p>
      <div class="buttons">
        {end
          ? <button type="button" class="primary" ref={onward} data-test="opening.lesson" onClick={() => attempt(() => open(JSON.stringify({ lesson: state.tables.lessons[0]!.id })))}>{t('ui.opening.lesson')}</button>
          : <>
              <button type="button" data-test="opening.play" onClick={() => play(!playing, true)}>{t(playing ? 'ui.pause' : 'ui.play')}</button>
              <button type="button" class={playing ? '' : 'primary'} data-test="opening.next" onClick={() => attempt(next)}>{t('ui.opening.next')}</button>
            </>}
        {!end && <button type="button" data-test="opening.skip" onClick={() => attempt(benchBesideGuide)}>{t('ui.opening.skip')}</button>}
      </div>
    </section>
  );
}
