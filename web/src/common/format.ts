// How numbers, times and names are written.
import type { Num } from '../api';

/** A time as a text with a fitting unit: "4.194 ms". */
export function time(ns: number): string {
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]] as const) {
    if (ns >= size) return `${trim(ns / size)} ${unit}`;
  }
  return `${ns} ns`;
}

/** Writes the durations in a text of Go as time does: "67.108864ms" as "67.11 ms". */
export const durations = (text: string) =>
  text.replace(/\b(?:(\d+)h)?(?:(\d+)m)?(\d+(?:\.\d+)?)(ns|µs|ms|s)\b/g, (_, h = 0, m = 0, n, unit: 'ns' | 'µs' | 'ms' | 's') =>
    time((Number(h) * 60 + Number(m)) * 60e9 + Number(n) * { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 }[unit]));

function trim(n: number): string {
  return n.toFixed(n < 10 ? 3 : n < 100 ? 2 : 1).replace(/\.?0+$/, '');
}

export const hex = (n: number, digits = 6) => '0x' + n.toString(16).padStart(digits, '0');

/** Reads a decimal or hexadecimal number. Numbers above 2^53 stay texts. Returns NaN for any other text. */
export function number(text: string): Num {
  const clean = text.trim();
  if (!/^(0x[0-9a-f]+|\d+)$/i.test(clean)) return NaN;
  const n = Number(clean);
  return n > Number.MAX_SAFE_INTEGER ? '0x' + BigInt(clean).toString(16) : n;
}

/** "RC_SEND_ONLY" as "SEND ONLY". */
export const opcode = (name: string) => name.replace(/^(RC|UC|UD)_/, '').replaceAll('_', ' ');

/** Decodes base64. */
export function bytes(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i); // from() takes ten times as long
  return out;
}
