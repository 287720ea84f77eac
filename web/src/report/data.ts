// What a page is made of: the types of cmd/internal/view/report/report.go, and of a line of a record.
export type End = 'client' | 'server';
export const otherEnd = (end: End): End => (end === 'client' ? 'server' : 'client');

export type Value = string | number | boolean | { [name: string]: Value };

/** A line of a record (docs/record.md). */
export interface Event {
  time: string;
  level: string;
  msg: string;
  end: End;
  who: string;
  event: string;
  verb?: string;
  path?: string;
  attrs?: { [name: string]: Value };
}

export interface Part {
  present: boolean;
  why?: string;
  program?: string;
  host?: string;
  device?: string;
  events: number;
  dropped: number;
}

/** The first line of a record. */
export interface Header {
  job: string;
  done: boolean;
  error?: string;
  failed_end?: End;
  client: Part;
  server: Part;
  clock?: { offset_ns: number; uncertainty_ns: number };
}

export interface Capture {
  name: string;
  end: End;
  ahead_ns: number;
  why: string;
  packets: number;
  others: number;
  omitted?: number;
  omitted_after?: string;
  omitted_until?: string;
  cut?: string;
}

export interface Packet {
  from: End;
  qpn: string;
  sender_qp?: string;
  psn: number;
  opcode: string;
  response?: boolean;
  failed?: boolean;
  again?: boolean;
  probe?: boolean; // a tail-loss probe
  lost?: boolean;
  bytes: number;
  carries?: string;
  sent?: string;
  received?: string;
  event?: number;
  shape: number;
  head: string;
  icrc?: string; // absent if the capture has cut the packet
  icrc_computed?: string; // by the receiver, if it is not the same
  meanings?: { [field: string]: string };
}

export interface Field {
  header: string;
  name: string;
  bit: number;
  width: number;
  about: string;
}

export interface Hint {
  text: string;
  cause: string;
  remedy: string;
}

export interface Data {
  live?: boolean;
  record?: Header;
  events: Event[];
  captures: Capture[];
  packets: Packet[];
  shapes: { fields: Field[] }[];
  hints: { [name: string]: Hint };
}

/** Returns an attribute as a text, '' if the event has none of that name. */
export function attr(e: Event, name: string): string {
  const value = e.attrs?.[name];
  return value === undefined || typeof value === 'object' ? '' : String(value);
}

/** Returns a group of attributes, such as the values of a transition. */
export function group(e: Event, name: string): { [name: string]: Value } {
  const value = e.attrs?.[name];
  return typeof value === 'object' ? value : {};
}

/** Returns how many nanoseconds a time is after another. Both have nine digits after the second. */
export function nanoseconds(time: string, since: string): number {
  const parts = (text: string) => [Date.parse(text.slice(0, 19) + 'Z'), Number((text.slice(20, -1) + '000000000').slice(0, 9))] as const;
  const [ms, ns] = parts(time);
  const [ms0, ns0] = parts(since);
  return (ms - ms0) * 1e6 + ns - ns0;
}
