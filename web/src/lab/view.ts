// Keeps in view what an action is about. With three columns each host scrolls by itself, and a short
// window does not show all of its objects.
import { useEffect, useLayoutEffect } from 'preact/hooks';
import type { State } from './store';

const sideBySide = '(min-width: 1200px)'; // as in lab.css

/** Scrolls an element's column as far as the element needs. In a narrow window the reader scrolls. */
export function intoView(element: Element | null | undefined) {
  if (matchMedia(sideBySide).matches) element?.scrollIntoView({ block: 'nearest' });
}

/** After each action, scrolls to the action's object, or to what the exchange has told the peer. A session begins with the top of both hosts. */
export function useActionInView({ setup, actions, cursor }: State) {
  useEffect(() => document.querySelectorAll('.host').forEach((host) => host.scrollTo({ top: 0 })), [setup]); // behind the effects of all cards
  useLayoutEffect(() => {
    const { do: verb, host, name } = actions[cursor - 1] ?? {};
    if (!host) return;
    if (verb === 'exchange') {
      intoView(document.getElementById(`${host === 'client' ? 'server' : 'client'}-told`));
      return;
    }
    const card = document.getElementById(`${host}-${name}`)?.closest('article');
    // The card of a PD has all its objects inside, so its header stands for it.
    intoView(card?.classList.contains('pd') ? card.querySelector('header') : card);
  }, [actions, cursor]);
}
