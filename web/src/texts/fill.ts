// Texts with values in them, for both pages.

/**
 * Returns a text with each {name} replaced by the value of that name. {name|one|many} is the word that
 * fits the number of that name: "{n} {n|packet|packets}".
 */
export function fill(text: string, values: Record<string, string | number>): string {
  return text.replace(/\{(\w+)(?:\|([^|{}]*)\|([^|{}]*))?\}/g, (all, name: string, one?: string, many?: string) => {
    const value = values[name];
    if (value === undefined) return all;
    return one === undefined ? String(value) : Number(value) === 1 ? one : many!;
  });
}
