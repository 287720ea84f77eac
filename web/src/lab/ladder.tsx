// The state ladder of a queue pair: every state is a button, and a press opens the move to it, legal or
// not. Solid lines leave the present state.
import type { MoveRow } from '../api';
import { t } from '../texts';

const places: Record<string, [number, number]> = {
  RESET: [44, 24], INIT: [132, 24], RTR: [220, 24], RTS: [308, 24], ERR: [44, 88], SQE: [220, 88], SQD: [308, 88],
};
const box = { w: 62, h: 28 };

// The lines that are drawn: the way up, and the usual ways around. Every other move is in the buttons. The way to SQE is
// the device's own, after a failed send.
const lines: [string, string, string][] = [
  ['RESET', 'INIT', 'M75 24H99'],
  ['INIT', 'RTR', 'M163 24H187'],
  ['RTR', 'RTS', 'M251 24H275'],
  ['RTS', 'SQD', 'M318 38V72'],
  ['SQD', 'RTS', 'M298 74V40'],
  ['SQE', 'RTS', 'M240 74L284 41'],
  ['ERR', 'RESET', 'M36 74V40'],
  ['INIT', 'ERR', 'M112 38L68 72'],
  ['RTR', 'ERR', 'M190 38C170 58 120 70 78 81'],
  ['RTS', 'ERR', 'M277 31C240 62 150 78 78 92'],
  ['RTS', 'SQE', 'M297 38L254 79'],
];

interface Props {
  name: string;
  prefix: string; // of data-test
  state: string;
  program: string;
  states: string[];
  moves: MoveRow[];
  onMove(to: string): void;
}

/** The moves from a state that are legal and have no line. */
export const undrawn = (moves: MoveRow[], state: string) => moves.filter((m) => m.from === state && !lines.some(([from, to]) => from === m.from && to === m.to)).map((m) => `${m.from} → ${m.to}`);

export function Ladder({ name, prefix, state, program, states, moves, onMove }: Props) {
  const legal = (from: string, to: string) => moves.some((m) => m.from === from && m.to === to);
  const drawn = (from: string, to: string) => legal(from, to) || (to === 'SQE' && legal(to, 'RTS'));
  const tip = `tip-${prefix}`; // one of a hidden drawing draws nothing
  return (
    <svg class="ladder" viewBox="10 6 332 100" role="group" aria-label={t('ui.ladder.label', { name, state })}>
      <defs>
        <marker id={tip} viewBox="0 0 8 8" refX="6" refY="4" markerWidth="6" markerHeight="6" orient="auto">
          <path d="M0 0L8 4L0 8z" fill="context-stroke" />
        </marker>
      </defs>
      {lines.filter(([from, to]) => drawn(from, to)).map(([from, to, d]) => (
        <path key={from + to} class={`move ${from === state ? 'from-here' : ''} ${legal(from, to) ? '' : 'by-device'}`} data-move={`${from} ${to}`} d={d} marker-end={`url(#${tip})`} />
      ))}
      {states.map((to) => {
        const [x, y] = places[to] ?? [0, 0];
        const can = legal(state, to);
        const press = () => onMove(to);
        const names = ['state', can ? 'legal' : 'illegal', to === state ? 'current' : '', to === program && program !== state ? 'program' : ''];
        return (
          <g
            key={to} class={names.join(' ')} role="button" tabindex={0} data-test={`${prefix}.to.${to}`} data-legal={can}
            aria-label={t(to === state ? 'ui.ladder.current' : can ? 'ui.ladder.legal' : 'ui.ladder.illegal', { to, from: state })}
            onClick={press}
            onKeyDown={(event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); press(); } }}
          >
            <rect x={x - box.w / 2} y={y - box.h / 2} width={box.w} height={box.h} rx="8" />
            <text x={x} y={y + 4.5} text-anchor="middle">{to}</text>
          </g>
        );
      })}
    </svg>
  );
}
