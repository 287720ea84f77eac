// A dialog made from a form of forms.ts.
import { useState } from 'preact/hooks';
import { find, t } from '../texts';
import { openDialog, OutcomeBox, SheetHead, submit, type Outcome } from './dialog';
import { Choice, Flag, Many, Text } from './fields';
import { calls, formOf, type Field, type Form, type Place, type Values } from './forms';

export function openForm(verb: string, place: Place) {
  openDialog(<FormSheet key={`${verb}-${performance.now()}`} form={formOf(verb, place)} place={place} />);
}

function FormSheet({ form, place }: { form: Form; place: Place }) {
  const [values, setValues] = useState<Values>(() => Object.fromEntries(form.fields.map((f) => [f.key, f.start])));
  const [outcome, setOutcome] = useState<Outcome>({});
  const host = form.verb === 'run' ? undefined : place.host.name;
  return (
    <form onSubmit={(event) => { event.preventDefault(); setOutcome(submit(form.build(values))); }}>
      <SheetHead title={find(`ui.verb.${form.verb}`)} call={calls[form.verb]} host={host} />
      <p class="lead">{find(`ui.about.${form.verb}`)}</p>
      <div class="fields">
        {form.fields.filter((f) => f.when?.(values) ?? true).map((f) => (
          <FormField key={f.key} field={f} value={values[f.key]} onChange={(value) => setValues((v) => ({ ...v, [f.key]: value }))} />
        ))}
      </div>
      <OutcomeBox outcome={outcome} />
      <footer class="sheet-foot">
        <button type="submit" class="primary" data-test="submit">{find(`ui.verb.${form.verb}`)}</button>
      </footer>
    </form>
  );
}

function FormField({ field, value, onChange }: { field: Field; value: Values[string] | undefined; onChange(value: Values[string]): void }) {
  const common = { test: `f.${field.key}`, label: find(`ui.f.${field.key}`) || field.key, hint: field.hint };
  const options = field.options ?? [];
  switch (field.kind) {
    case 'flag':
      return <Flag {...common} value={value as boolean} onChange={onChange} />;
    case 'many':
      return <Many {...common} value={value as string[]} options={options} onChange={onChange} />;
    case 'choice':
      if (options.length === 0) {
        return <p class="problem small">{t('ui.needs', { what: common.label })}</p>;
      }
      return <Choice {...common} value={value as string} options={options} onChange={onChange} />;
    default:
      return <Text {...common} mono={field.kind === 'number'} value={value as string} onChange={onChange} />;
  }
}
