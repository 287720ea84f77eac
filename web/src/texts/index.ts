// All texts of the pages, by language. English has the keys; a language that lacks one fails `tsc`.
import { exam } from './en/exam';
import { lessons } from './en/lessons';
import { mistakes } from './en/mistakes';
import { teaching } from './en/teaching';
import { ui } from './en/ui';
import { told, type Told } from './events';
import { fill } from './fill';
import { quoted } from './quoted';
import { events, objects } from './zh/events';
import { exam as examZh } from './zh/exam';
import { lessons as lessonsZh } from './zh/lessons';
import { mistakes as mistakesZh } from './zh/mistakes';
import { outcomes } from './zh/outcomes';
import { packets } from './zh/packets';
import { rules } from './zh/rules';
import { teaching as teachingZh } from './zh/teaching';
import { ui as uiZh } from './zh/ui';

const en = { ...ui, ...teaching, ...lessons, ...mistakes, ...exam };
export type Key = keyof typeof en;
const zh: Record<Key, string> = { ...uiZh, ...teachingZh, ...lessonsZh, ...mistakesZh, ...examZh };

const languages = { en, zh };
export type Language = keyof typeof languages;
export const languageNames: Record<Language, string> = { en: 'English', zh: '中文' };

let current: Language = 'en';
export const language = () => current;
export function setLanguage(to: Language) {
  current = to;
  document.documentElement.lang = to;
}

/** Returns a text with its values filled in. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return fill(languages[current][key], values);
}

/** Returns the text of a key that is put together at run time, or '' if there is none. */
export function find(key: string, values: Record<string, string | number> = {}): string {
  return fill((languages[current] as Record<string, string>)[key] ?? '', values);
}

/** Returns names as a list: "PD and CQ", "PD、CQ". */
export const listed = (names: string[]) => (current === 'zh' ? names.join('、') : new Intl.ListFormat(current).format(names));

/** Returns what an event says, in the page's language. */
export const eventText = (e: Told) => (current === 'zh' ? told(e, events, objects) : e.msg);

const quotedZh = { ...outcomes, ...rules, ...packets };

/** Returns the translation of a text from Go; in English the text itself; undefined if there is none. */
export const translated = (english: string) => (current === 'zh' ? quoted(english, quotedZh) : english);
