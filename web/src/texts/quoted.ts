// Texts that come from Go: causes, remedies, why packets are sent, and what bits mean. Go has them in English alone.
// Another language has a table of them, whose keys are the English texts.

export type Table = Record<string, string>;

// The keys of a table that have places for any text, as patterns.
const patterns = new Map<Table, [RegExp, string][]>();

function patternsOf(table: Table) {
  let found = patterns.get(table);
  if (!found) {
    found = Object.entries(table).filter(([key]) => key.includes('{1}')).map(([key, translation]) => {
      const parts = key.split(/\{\d\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
      return [new RegExp(`^${parts.join('(.*?)')}$`), translation];
    });
    patterns.set(table, found);
  }
  return found;
}

// A list of names, as Chinese writes it: "1 个 MR、1 个 QP".
const list = (text: string) => (/^[\w ]{1,20}(, [\w ]{1,20})*$/.test(text) ? text.replaceAll(', ', '、').replace(/\b(\d+) ([A-Z]{2,3})s?\b/g, '$1 个 $2') : text);

/**
 * Returns the translation of an English text, or undefined. A key's {1}, {2} … stand for any text, which is translated
 * too if the table has it: "work request 1, sent again: no acknowledgement came".
 */
export function quoted(english: string, table: Table): string | undefined {
  const text = english.replaceAll('`', '');
  if (table[text]) return table[text];
  for (const [pattern, translation] of patternsOf(table)) {
    const found = pattern.exec(text);
    if (found) return translation.replace(/\{(\d)\}/g, (_, n: string) => quoted(found[Number(n)] ?? '', table) ?? list(found[Number(n)] ?? ''));
  }
  return undefined;
}
