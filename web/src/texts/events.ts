// What an event says, in the reader's language. The messages of records are English; other languages
// have rules that make a text of the kind, the message and the attributes.

/** The part of an event that its text is made of. */
export interface Told {
  event: string;
  msg: string;
  attrs?: Record<string, unknown> | undefined;
}

/** Reports whether the device itself moved a queue pair. Only the laboratory's events have such moves, without a verb. */
export const byDevice = (e: { event: string; verb?: string }) => e.event === 'qp.transition' && !e.verb;

export type Rules = Record<string, [pattern: RegExp, text: string][]>;

/** Returns the text of an event, or its own message if no rule fits. */
export function told(e: Told, rules: Rules, objects: [string, string][]): string {
  for (const [pattern, text] of rules[e.event] ?? []) {
    const found = pattern.exec(e.msg);
    if (!found) continue;
    let whole = true;
    const filled = text
      .replace(/\{(\w+)\}/g, (_, name: string) => {
        const value = e.attrs?.[name];
        if (value === undefined) whole = false;
        return String(value);
      })
      .replace(/\$(\d)/g, (_, n: string) => object(found[Number(n)] ?? '', objects));
    if (whole) return filled.trim();
  }
  return e.msg;
}

function object(text: string, objects: [string, string][]): string {
  const [name, translated] = objects.find(([english]) => text.startsWith(english)) ?? ['', ''];
  const rest = text.slice(name.length).trim();
  return name ? translated + (rest && ` ${rest}`) : text;
}
