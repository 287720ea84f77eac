// The fields of forms: a name, a number, a choice, several choices, a check box.
import type { ComponentChildren } from 'preact';
import { t } from '../texts';

interface Common<T> {
  test: string;
  label: string;
  value: T;
  onChange(value: T): void;
  hint?: string;
}

export interface Option {
  value: string;
  label?: string;
  rare?: boolean; // folded, in a choice of several
}

export function Text({ test, label, value, onChange, hint, mono, placeholder }: Common<string> & { mono?: boolean; placeholder?: string }) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text" class={mono ? 'mono' : ''} data-test={test} value={value} placeholder={placeholder} autocomplete="off" spellcheck={false}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
      {hint && <small>{hint}</small>}
    </label>
  );
}

export function Choice({ test, label, value, onChange, hint, options }: Common<string> & { options: Option[] }) {
  return (
    <label class="field">
      <span>{label}</span>
      <select data-test={test} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map((option) => <option value={option.value}>{option.label ?? option.value}</option>)}
      </select>
      {hint && <small>{hint}</small>}
    </label>
  );
}

export function Flag({ test, label, value, onChange, hint }: Common<boolean>) {
  return (
    <label class="field flag">
      <input type="checkbox" data-test={test} checked={value} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>{label}</span>
      {hint && <small>{hint}</small>}
    </label>
  );
}

export function Many({ test, label, value, onChange, hint, options }: Common<string[]> & { options: Option[] }) {
  const one = (option: Option) => (
    <label>
      <input
        type="checkbox" data-test={`${test}.${option.value}`} checked={value.includes(option.value)}
        onChange={(event) => toggle(option.value, event.currentTarget.checked)}
      />
      {option.label ?? option.value}
    </label>
  );
  const rare = options.filter((o) => o.rare);
  const toggle = (name: string, on: boolean) => onChange(options.map((o) => o.value).filter((o) => (o === name ? on : value.includes(o))));
  return (
    <fieldset class="field many">
      <legend>{label}</legend>
      <div class="checks">
        {options.filter((o) => !o.rare).map(one)}
      </div>
      {rare.length > 0 && (
        <details>
          <summary data-test={`${test}.more`}>{t('ui.f.more')}</summary>
          <div class="checks">{rare.map(one)}</div>
        </details>
      )}
      {hint && <small>{hint}</small>}
    </fieldset>
  );
}

/** Fields beside each other. */
export function Row({ children }: { children: ComponentChildren }) {
  return <div class="field-row">{children}</div>;
}
