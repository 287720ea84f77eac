// The opening: whoever comes for the first time, and not by a link, sees one SEND from the post to both completions.
// It is a list of actions on a ready pair, which the playback carries out; here are the list and the captions.
import { useEffect, useRef } from 'preact/hooks';
import type { Action } from '../api';
import { find, t } from '../texts';
import { makePair } from './connect';
import { keep } from './keep';
import { attempt } from './playback';
import { change, forward, get, open, play, type State } from './store';

const message = 'hello, server';
const part = { mr: 'buf', offset: 0 };

const steps: Action[] = [
  { do: 'write', host: 'client', name: part.mr, offset: 0, text: message },
  { do: 'post_recv', host: 'server', name: 'qp', wrs: [{ id: 1, sgl: [{ ...part, length: 64 }] }] },
  { do: 'post_send', host: 'client', name: 'qp', wrs: [{ id: 1, opcode: 'SEND', flags: ['SIGNALED'], sgl: [{ ...part, length: message.length }] }] },
  { do: 'step' },
  { do: 'step' },
  { do: 'poll_cq', host: 'client', name: 'cq' },
  { do: 'poll_cq', host: 'server', name: 'cq' },
];

/** Begins the opening. Whoever asks for less motion goes through it step by step. */
export function startOpening() {
  open('{}');
  makePair();
  change({ future: steps, opening: get().actions.length, pane: 'wire', message: '' });
  if (!matchMedia('(prefers-reduced-motion: reduce)').matches) play(true, true);
}

/** The caption of the step that is shown, and the ways on: pause or the next step, skip, and at the end the first lesson. */
export function Opening({ state }: { state: State }) {
  const { opening, cursor, playing } = state;
  useEffect(() => () => keep('opening', true), []);
  const at = Math.max(0, cursor - opening!); // 0 in the past of the opening, too
  const end = at === steps.length;
  const next = useRef<HTMLButtonElement>(null);
  useEffect(() => { if (document.activeElement === document.body) next.current?.focus(); }, [end]); // the pressed button is gone
  const leave = (lesson?: string) => attempt(() => open(JSON.stringify(lesson ? { lesson } : {})));
  return (
    <section class="opening" aria-label={t('ui.opening')} data-test="opening" data-step={at}>
      <span class="opening-at mono small" aria-hidden="true">{at} / {steps.length}</span>
      <p class="caption" aria-live="polite" data-test="opening.caption">{find(`ui.opening.${at}`)} {end && <strong>{t('ui.opening.turn')}</strong>}</p>
      <div class="buttons">
        {end
          ? <button type="button" class="primary" ref={next} data-test="opening.lesson" onClick={() => leave(state.tables.lessons[0]!.id)}>{t('ui.opening.lesson')}</button>
          : <>
              <button type="button" data-test="opening.play" onClick={() => play(!playing, true)}>{t(playing ? 'ui.pause' : 'ui.play')}</button>
              <button type="button" class={playing ? '' : 'primary'} data-test="opening.next" onClick={() => attempt(() => { play(false); forward(); })}>{t('ui.opening.next')}</button>
            </>}
        <button type="button" data-test="opening.skip" onClick={() => leave()}>{t(end ? 'ui.bench' : 'ui.opening.skip')}</button>
      </div>
    </section>
  );
}
