// What lessons and the examination share: the goals of a lesson or a task, and the answers of a question.
import { Icon } from '../common/icons';
import { Prose, inline } from '../common/prose';
import { t } from '../texts';

interface GoalsProps {
  keys: string[];
  met: string[]; // keys
  text(key: string): string; // of "goal.KEY" and "hint.KEY"
  hints?: boolean;
}

export function Goals({ keys, met, text, hints }: GoalsProps) {
  return (
    <>
      <h3>{t('ui.lesson.goals')} <span class="count">{met.length}/{keys.length}</span></h3>
      <ol class="goals">
        {keys.map((key) => {
          const hint = hints && text(`hint.${key}`);
          const done = met.includes(key);
          return (
            <li key={key} class={done ? 'met' : ''} data-test={`goal.${key}`} data-met={done}>
              <span class="tick">{done ? <Icon name="check" /> : null}</span>
              <div>
                <p>{inline(text(`goal.${key}`) || key)}{done && <span class="hidden"> ({t('ui.lesson.met')})</span>}</p>
                {hint && <details data-test={`hint.${key}`}><summary>{t('ui.lesson.hint')}</summary><Prose text={hint} /></details>}
              </div>
            </li>
          );
        })}
      </ol>
    </>
  );
}

interface AnswersProps {
  name: string; // of the group, and of the elements for tests
  legend: string;
  order: number[];
  chosen: number | undefined;
  text(n: number): string;
  classOf?(n: number): string;
  onChoose(n: number): void;
}

export function Answers({ name, legend, order, chosen, text, classOf, onChoose }: AnswersProps) {
  return (
    <fieldset>
      <legend>{inline(legend)}</legend>
      {order.map((n) => (
        <label key={n} class={classOf?.(n) ?? ''}>
          <input type="radio" name={name} data-test={`${name}.${n}`} checked={chosen === n} onChange={() => onChoose(n)} />
          <span>{inline(text(n))}</span>
        </label>
      ))}
    </fieldset>
  );
}
