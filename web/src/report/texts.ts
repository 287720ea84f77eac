// The texts of the report in the reader's language. The report has none of the laboratory's texts, so
// that it stays small.
import { report as en } from '../texts/en/report';
import { told, type Told } from '../texts/events';
import { fill } from '../texts/fill';
import { quoted } from '../texts/quoted';
import { captures } from '../texts/zh/captures';
import { events, objects } from '../texts/zh/events';
import { outcomes } from '../texts/zh/outcomes';
import { packets } from '../texts/zh/packets';
import { report as zh } from '../texts/zh/report';

export type Key = keyof typeof en;
const languages = { en: en as Record<Key, string>, zh };
export type Language = keyof typeof languages;
export const languageNames: Record<Language, string> = { en: 'English', zh: '中文' };

let current: Language = navigator.language.startsWith('zh') ? 'zh' : 'en';
export const language = () => current;
export function setLanguage(to: Language) {
  current = to;
  document.documentElement.lang = to;
}

/** Returns a text with its values filled in. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return fill(languages[current][key], values);
}

/** Returns what an event says, in the reader's language. */
export const eventText = (e: Told) => (current === 'zh' ? told(e, events, objects) : e.msg);

const quotedZh = { ...outcomes, ...packets, ...captures };

/** Returns the translation of a text from Go; in English the text itself; undefined if there is none. */
export const translated = (english: string) => (current === 'zh' ? quoted(english, quotedZh) : english);

/** Returns an error without the name of the package that it comes from. */
export const plain = (text: string) => text.replace(/^oob: /, '');

/** Returns what an error says, without the remark that it is English. */
export const errorText = (error: string) => plain(translated(error) ?? error);

/** Returns the translation of a text from Go, or the text, which then says that it is English. */
export const marked = (english: string) => translated(english) ?? `${english}${t('report.english')}`;

/** Says how it was found where a capture was made; the parts of the text stand between semicolons. */
export function captureText(english: string): string {
  if (current !== 'zh') return english;
  const parts = english.split('; ').map((part) => quoted(part, captures));
  return parts.some((part) => part === undefined) ? quoted(english, captures) ?? marked(english) : parts.join('；');
}

/** Returns the translation of a text from Go, or the text if it is a name. */
export const named = (english: string) => translated(english) ?? english;

/** Joins texts to a list, as the language does. */
export const joined = (texts: string[]) => texts.join(current === 'zh' ? '、' : ', ');

/** A time of the run, as exact as a capture: rows behind the first second differ too. */
export const moment = (ns: number) => (ns >= 1e9 ? `${(ns / 1e9).toFixed(6)} s` : duration(ns));

/** A duration with a fitting unit: "4.19 ms". */
export function duration(ns: number): string {
  const abs = Math.abs(ns);
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]] as const) {
    if (abs >= size) {
      const n = ns / size;
      return `${n.toFixed(Math.abs(n) < 10 ? 3 : Math.abs(n) < 100 ? 2 : 1)} ${unit}`;
    }
  }
  return `${ns} ns`;
}
