// "Connect both": the moves of two queue pairs of one name to RTS, and the exchange, as one press. And a ready pair
// for the free bench. Both are actions as a user does them, one after the other, with the values that the dialogs offer.
import type { Action, HostView, ObjectView } from '../api';
import { formOf } from './forms';
import { moveAction, partner, startEntries } from './modify';
import { get, perform, type State } from './store';

const way = ['RESET', 'INIT', 'RTR', 'RTS'];
const firstLesson = 6; // before it, the moves are what a lesson is about

const hosts = () => get().moment.snapshot.hosts;
const queuePair = (host: HostView, name: string): ObjectView | undefined => host.objects.find((o) => o.qp && o.name === name);

/** Reports whether the lesson or task, if one is open, leaves the moves to "Connect both". */
export function connects({ setup, tables }: State): boolean {
  const task = tables.exam.find((part) => part.id === setup.lesson);
  if (task) return task.subject !== 'states';
  return !setup.lesson || tables.lessons.findIndex((l) => l.id === setup.lesson) + 1 >= firstLesson;
}

/** Reports whether a press can connect the queue pairs of this name at both hosts. */
export function connectable(name: string): boolean {
  if (!connects(get())) return false;
  const pair = hosts().map((host) => queuePair(host, name)?.qp);
  if (!pair.every((qp) => qp && qp.type === pair[0]!.type && qp.type !== 'UD' && way.includes(qp.state))) return false;
  return pair.some((qp) => qp!.state !== 'RTS');
}

/** Moves the queue pairs of this name to RTS. Ends at the first call that the device refuses. */
export function connect(name: string) {
  for (const to of way.slice(1)) {
    for (const side of [0, 1]) {
      if (way.indexOf(queuePair(hosts()[side]!, name)!.qp!.state) < way.indexOf(to) && !done(move(side, name, to))) return;
    }
    if (to !== 'INIT') continue;
    for (const side of [0, 1]) {
      const [host, peer] = [hosts()[side]!, hosts()[1 - side]!];
      const { qp } = queuePair(host, name)!;
      if (!peer.told.some((told) => told.qp === name && told.qpn === qp!.qpn)) done(exchange(host, peer, name));
    }
  }
}

function move(side: number, name: string, to: string): Action {
  const { tables } = get();
  const host = hosts()[side]!;
  const qp = queuePair(host, name)!.qp!;
  const required = tables.transitions[qp.type]!.find((m) => m.from === qp.state && m.to === to)!.required;
  return moveAction(host, name, to, new Set(['STATE', ...required]), startEntries(tables, qp), partner(host, name), tables);
}

/** What a form offers, as an action. */
function offered(verb: string, host: HostView, peer: HostView, object?: ObjectView): Action {
  const form = formOf(verb, { host, peer, tables: get().tables, ...(object ? { object } : {}) });
  return form.build(Object.fromEntries(form.fields.map((f) => [f.key, f.start])));
}

const exchange = (host: HostView, peer: HostView, name: string) => offered('exchange', host, peer, queuePair(host, name));

const done = (action: Action) => !perform(action).result?.refused;

/** Makes the objects of both hosts, and connects their queue pairs. */
export function makePair() {
  for (const side of [0, 1]) {
    for (const verb of ['alloc_pd', 'reg_mr', 'create_cq', 'create_qp']) done(offered(verb, hosts()[side]!, hosts()[1 - side]!));
  }
  connect('qp');
}

/** Reports whether both hosts are empty, so that a ready pair saves work. */
export const pairable = () => !get().setup.lesson && hosts().every((host) => host.objects.length === 0);
