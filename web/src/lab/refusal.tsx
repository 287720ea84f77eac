// The texts of a refused call: its cause in a sentence, and a box with the wrong bits of the mask.
import type { Refusal, Result } from '../api';
import { durations } from '../common/format';
import { Quoted } from '../common/quoted';
import { t, translated, type Key } from '../texts';
import { PageError } from './engine';

/** A text from the engine, in the reader's language. */
export const EngineText = ({ text }: { text: string }) => <Quoted text={durations(text)} translation={translated(text) && noteText(text)} note={t('ui.english')} />;

/** A text from the engine as plain text. */
export const noteText = (note: string) => durations(translated(note) ?? note);

/** What an error says, for a message: in the reader's language, or in English, and it says so. */
export function problemText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (error instanceof PageError) return text;
  return translated(text) === undefined ? `${durations(text)}${t('ui.english')}` : noteText(text);
}

/** The beginning of the sentence that says which check a request has failed, by the status of its completion. */
export const checkedBy = (status: string): Key => (status === 'LOC_PROT_ERR' ? 'ui.result.check.own' : 'ui.result.check');

/** The cause in a sentence or two. For the bits of a mask it says only how many are wrong. */
export function refusalText(refusal: Refusal): string {
  const { missing = [], illegal = [] } = refusal.transition ?? {};
  const cause = refusal.cause || refusal.text;
  if (missing.length + illegal.length === 0) return noteText(cause);
  return [
    missing.length > 0 && t('ui.refused.missing', { n: missing.length }),
    illegal.length > 0 && t('ui.refused.illegal', { n: illegal.length }),
  ].filter(Boolean).join(t('ui.space'));
}

/** What an action says: why it was refused, or its note. */
export const resultText = (result: Result | null | undefined) => (result?.refused ? refusalText(result.refused) : noteText(result?.note ?? ''));

/** The box of a refusal. With marked, another part of the page marks the wrong bits, and the box does not list them. */
export function RefusalBox({ refusal, test, marked }: { refusal: Refusal; test: string; marked?: boolean }) {
  const { missing = [], illegal = [] } = refusal.transition ?? {};
  const wrong = missing.length + illegal.length > 0;
  return (
    <div class="refusal" role="alert" data-test={test}>
      <p>
        <strong>{refusal.op}</strong> <code class="errno">{refusal.errno} ({refusal.errno_number})</code>
        {refusal.index !== undefined && <> · {t('ui.refused.request', { n: refusal.index + 1 })}</>}
      </p>
      <p>{wrong ? refusalText(refusal) : <EngineText text={refusal.cause || refusal.text} />}{marked && wrong && t('ui.space') + t('ui.refused.below')}</p>
      {!marked && missing.length > 0 && <Bits sign="+" bits={missing} />}
      {!marked && illegal.length > 0 && <Bits sign="−" bits={illegal} />}
      {refusal.hint && !wrong && <p class="hint"><strong>{t('ui.refused.try')}</strong><EngineText text={refusal.hint} /></p>}
      {refusal.cause && <details><summary>{t('ui.refused.whole')}</summary><p class="mono small" lang="en">{refusal.text}</p></details>}
    </div>
  );
}

// The bits to add to the mask, or to take out of it.
const Bits = ({ sign, bits }: { sign: '+' | '−'; bits: string[] }) => (
  <p class="wrong-bits">{bits.map((bit) => <code key={bit}>{sign}{bit}</code>)}</p>
);
