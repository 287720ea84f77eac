// Texts that come from Go: causes, remedies, and what bits mean. Go has them in English alone. Another
// language has a table of them, whose keys are the English texts.

export type Table = Record<string, string>;

/** Returns the translation of an English text, or undefined. A key's {1} stands for any text. */
export function quoted(english: string, table: Table): string | undefined {
  const text = english.replaceAll('`', '');
  if (table[text]) return table[text];
  for (const [key, translation] of Object.entries(table)) {
    const [before, after] = key.split('{1}');
    if (after === undefined || !text.startsWith(before!) || !text.endsWith(after)) continue;
    return translation.replace('{1}', text.slice(before!.length, text.length - after.length));
  }
  return undefined;
}
