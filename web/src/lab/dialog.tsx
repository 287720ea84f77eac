// The dialog of the page: a sheet beside its host. One at a time; Escape closes it, and the focus
// returns to what opened it.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks';
import type { Action, Refusal } from '../api';
import { Icon } from '../common/icons';
import { find, t } from '../texts';
import { PageError } from './engine';
import { EngineText, RefusalBox } from './refusal';
import { advance, perform } from './store';

let current: JSX.Element | null = null;
let changed = () => {};

export function openDialog(content: JSX.Element) {
  current = content;
  changed();
}

export function closeDialog() {
  current = null;
  changed();
}

/** The place of the dialog in the page. */
export function DialogHost() {
  const [, redraw] = useState(0);
  changed = () => redraw((n) => n + 1);
  return current && <Sheet key={current.key}>{current}</Sheet>;
}

function Sheet({ children }: { children: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null);
  const opener = useRef(document.activeElement as HTMLElement | null);
  useEffect(() => {
    const element = box.current!;
    element.showModal();
    element.querySelector<HTMLElement>('[autofocus], input, select, textarea, button.primary')?.focus();
    return () => {
      element.close();
      const again = opener.current?.dataset.test;
      const target = opener.current?.isConnected ? opener.current : document.querySelector<HTMLElement>(`[data-test="${again}"]`);
      target?.focus();
    };
  }, []);
  return (
    <dialog
      ref={box} class="sheet" aria-labelledby="sheet-title"
      onCancel={(event) => { event.preventDefault(); closeDialog(); }}
      onMouseDown={(event) => { if (event.target === box.current) closeDialog(); }}
    >
      <div class="sheet-inside">{children}</div>
    </dialog>
  );
}

export function SheetHead({ title, call, host }: { title: string; call?: string; host?: string }) {
  const [error] = useErrorBoundary();
  return (
    <header class={`sheet-head ${host ?? ''}`}>
      <div>
        {host && <span class={`badge ${host}`}>{find(`ui.host.${host}`)}</span>}
        <h2 id="sheet-title">{title}</h2>
        {call && <code class="call">{call}</code>}
        {error && <p role="alert">{String(error)}</p>}
      </div>
      <button type="button" class="plain" data-test="cancel" aria-label={t('ui.close')} onClick={closeDialog}>
        <Icon name="close" />
      </button>
    </header>
  );
}

export interface Outcome {
  problem?: Error; // the call has no meaning
  refused?: Refusal; // the device refuses it
}

/** Carries out an action of a dialog. The dialog closes unless there is something to correct. */
export function submit(action: Action): Outcome {
  try {
    if (action.do === 'run') advance(action); // no device refuses it
    else {
      const refused = perform(action).result?.refused;
      if (refused) return { refused };
    }
    closeDialog();
    return {};
  } catch (error) {
    return { problem: error as Error };
  }
}

/** Shows what went wrong in a dialog. With marked, the dialog marks the bits that a refusal names. */
export function OutcomeBox({ outcome, marked }: { outcome: Outcome; marked?: boolean }) {
  if (outcome.problem !== undefined) {
    return <p class="problem" role="alert" data-test="problem">{outcome.problem instanceof PageError ? outcome.problem.message : <EngineText text={outcome.problem.message} />}</p>;
  }
  return outcome.refused ? <RefusalBox refusal={outcome.refused} test="refusal" marked={marked ?? false} /> : null;
}
