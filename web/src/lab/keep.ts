// What the page remembers in the browser: solved and watched lessons, seen mistakes, predictions and whether they are asked for,
// the examination and its best result, the opening, the theme, the language. If the browser forbids storage, the values last until the page closes.
const memory = new Map<string, unknown>();

export function kept<T>(name: string, otherwise: T): T {
  if (memory.has(name)) return memory.get(name) as T;
  try {
    const text = localStorage.getItem(`rawverbs.${name}`);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

export function keep(name: string, value: unknown) {
  memory.set(name, value);
  try {
    localStorage.setItem(`rawverbs.${name}`, JSON.stringify(value));
  } catch {
    // The value stays in memory.
  }
}

/** Reports whether the page has kept nothing so far, because it is open for the first time in this browser. */
export function blank(): boolean {
  try {
    return !Object.keys(localStorage).some((name) => name.startsWith('rawverbs.')) && memory.size === 0;
  } catch {
    return memory.size === 0;
  }
}
