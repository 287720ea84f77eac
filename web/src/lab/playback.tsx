// The bar at the bottom: the clock, play and step, undo and redo, and the moments of the session to
// move between.
import { time } from '../common/format';
import { Icon, type IconName } from '../common/icons';
import { t } from '../texts';
import { attempt } from './attempt';
import { actionText } from './dock';
import { openForm } from './form';
import { Held } from './predict';
import { advance, atEnd, change, forward, goTo, play, redo, undo, type State } from './store';

const speeds = [0.5, 1, 2, 4, 10];
const mostTicks = 240;

export function Playback({ state }: { state: State }) {
  const { cursor, actions, future, moment, playing } = state;
  const { now_ns, next_ns, hosts } = moment.snapshot;
  const behind = actions.length - cursor;
  const action = actions[cursor - 1];
  const place = { host: hosts[0]!, peer: hosts[1]!, tables: state.tables };
  return (
    <footer class="playback" aria-label={t('ui.playback')}>
      {behind > 0 && (
        <p class="in-past">
          {t('ui.past', { n: behind })} <button type="button" class="plain link" data-test="now" onClick={() => goTo(actions.length)}>{t('ui.past.now')}</button>
        </p>
      )}
      <Held state={state} />
      <div class="controls" role="group" aria-label={t('ui.playback')}>
        <Button name="undo" icon="undo" label={t('ui.undo')} off={actions.length === 0} onPress={() => attempt(undo)} />
        <Button name="redo" icon="redo" label={t('ui.redo')} off={future.length === 0} onPress={() => attempt(redo)} />
        <span class="gap" />
        <Button name="back" icon="back" label={t('ui.back')} off={cursor === 0} onPress={() => attempt(() => goTo(cursor - 1))} />
        <Button
          name="play" icon={playing ? 'pause' : 'play'} label={t(playing ? 'ui.pause' : 'ui.play')} main
          off={!playing && atEnd(state)} onPress={() => play(!playing)}
        />
        <Button name="forward" icon="forward" label={t('ui.forward')} off={atEnd(state)} onPress={() => attempt(forward)} />
        <label class="speed">
          <span class="hidden">{t('ui.speed')}</span>
          <select data-test="speed" value={String(state.speed)} onChange={(event) => change({ speed: Number(event.currentTarget.value) })}>
            {speeds.map((speed) => <option value={String(speed)}>{speed}×</option>)}
          </select>
        </label>
      </div>
      <div class="scrub">
        <Ticks state={state} />
        <input
          type="range" data-test="scrub" min="0" max={actions.length} value={cursor} disabled={actions.length === 0} aria-label={t('ui.scrub')}
          aria-valuetext={t('ui.scrub.value', { n: cursor, all: actions.length, text: action ? actionText(action, actions) : t('ui.scrub.start') })}
          onInput={(event) => attempt(() => goTo(Number(event.currentTarget.value)))}
        />
        <span class="small mono where" aria-hidden="true">{cursor} / {actions.length}{future.length > 0 && ` +${future.length}`} {action && actionText(action, actions)}</span>
      </div>
      <div class="clock-box" role="group" aria-label={t('ui.clock')}>
        <span class="clock mono" data-test="clock">{now_ns === 0 ? '0 ns' : time(now_ns)}</span>
        <span class="small muted next">{next_ns === null ? t('ui.clock.quiet') : next_ns === now_ns ? t('ui.clock.now') : t('ui.clock.next', { in: time(next_ns - now_ns) })}</span>
        <Button name="step" icon="step" label={t('ui.step')} text={t('ui.step.short')} onPress={() => attempt(() => advance({ do: 'step' }))} />
        <Button name="run" icon="run" label={t('ui.run')} text={t('ui.run.short')} onPress={() => attempt(() => advance({ do: 'run' }))} />
        <Button name="run.more" icon="menu" label={t('ui.run.more')} onPress={() => openForm('run', place)} />
      </div>
    </footer>
  );
}

interface ButtonProps {
  name: string;
  icon: IconName;
  label: string;
  text?: string;
  main?: boolean;
  off?: boolean;
  onPress(): void;
}

function Button({ name, icon, label, text, main, off, onPress }: ButtonProps) {
  return (
    <button type="button" class={main ? 'round main' : text ? 'with-text' : 'round'} data-test={name} title={label} aria-label={text ? undefined : label} disabled={off} onClick={onPress}>
      <Icon name={icon} />{text && <span>{text}</span>}
    </button>
  );
}

// A tick per action, in the colour of its host; in long sessions the slider alone is enough.
function Ticks({ state }: { state: State }) {
  const { actions } = state;
  if (actions.length === 0 || actions.length > mostTicks) return null;
  return (
    <svg class="ticks" viewBox={`0 0 ${actions.length} 6`} preserveAspectRatio="none" aria-hidden="true">
      {actions.map((action, i) => <rect key={i} class={action.host ?? 'time'} x={i + 0.15} width="0.7" y="0" height="6" />)}
    </svg>
  );
}
