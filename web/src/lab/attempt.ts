// What a click calls.
import { problemText } from './refusal';
import { change } from './store';

/** Calls f, and shows what the engine refuses. */
export function attempt(f: () => unknown) {
  try {
    f();
  } catch (error) {
    change({ message: problemText(error) });
  }
}

/** Calls f for a click. The second click of a double click does not count: it may hit what the first one has brought here. */
export const once = (f: () => void) => (event: MouseEvent) => {
  if (event.detail < 2) f();
};
