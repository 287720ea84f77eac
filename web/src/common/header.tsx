// The headers of a packet, and what one of their fields means, on both pages.
import type { ComponentChildren } from 'preact';

/** A field of a header. Its bits count from the beginning of the packet. */
export interface HeaderField {
  header: string;
  name: string;
  bit: number;
  width: number;
  value: string;
  meaning?: string;
  about: string;
}

/** A header of a packet. Its bits count from its own first one. */
export interface Header<F extends HeaderField> {
  name: string;
  start: number; // its first bit in the packet
  fields: F[];
}

/** The headers around the BTH, with which the packet of a queue pair begins. */
export const outer = ['IPv4', 'IPv6', 'UDP'];

export function headersOf<F extends HeaderField>(fields: F[]): Header<F>[] {
  const headers: Header<F>[] = [];
  for (const field of fields) {
    if (headers.at(-1)?.name !== field.header) headers.push({ name: field.header, start: field.bit, fields: [] });
    headers.at(-1)!.fields.push(field);
  }
  return headers;
}

/** The value of a field. Up to three bits are the same in each notation; the payload is bytes. */
export const written = (f: HeaderField) => (f.width < 4 || f.header === 'payload' ? f.value : `0x${f.value}`);

interface Words {
  name(text: string): string; // of a field, or what its value means
  bits(from: number, to: number): string;
  about(text: string): ComponentChildren;
}

/** What a field is, its bits and its value, and what they mean. start is the first bit of its header. */
export function FieldAbout({ field, start, words }: { field: HeaderField; start: number; words: Words }) {
  const { header, name, meaning, about } = field;
  const from = field.bit - start;
  const title = header.toLowerCase() === name.toLowerCase() ? words.name(name) : `${header} ${name}`;
  return (
    <>
      <strong>{title}</strong> <span class="mono">{words.bits(from, from + field.width - 1)} · {written(field)}</span>{meaning && <> · {words.name(meaning)}</>}
      <br />
      {words.about(about)}
    </>
  );
}
