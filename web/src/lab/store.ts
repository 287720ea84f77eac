// The state of the page: one session of the engine, the moment that is shown, and what is selected.
// Everything that changes the session goes through this file.
import type { Action, Event, File, Host, Opened, PacketView, Result, Setup, Snapshot, Tables } from '../api';
import { engine } from './engine';
import type { Request } from './predict';
import { problemText, resultText } from './refusal';

/** A moment of the session: its snapshot, and the packets and events that the page has loaded. */
export interface Moment {
  snapshot: Snapshot;
  packets: PacketView[]; // in the order of their ids
  events: Event[];
}

export type Pane = 'guide' | 'hosts' | 'wire' | 'details';
export type Detail = 'result' | 'packet' | 'packets' | 'graph' | 'events';

export interface State {
  tables: Tables;
  setup: Setup;
  mistake: string | null;
  actions: Action[]; // carried out
  results: (Result | null)[]; // of the actions; null if the session was opened with the action
  scratch: boolean; // a session in place of the bench, which is kept: of the opening, or of a question of the examination
  future: Action[]; // what was undone, or what a solution does next
  solution: boolean; // the session began with a solution or a mistake, and until its end nothing else was done
  cursor: number; // how many actions the shown moment has
  moment: Moment;
  playing: boolean;
  asked: Request | null; // a prediction that the guide asks for
  guess: string; // the prediction
  held: { action: Action; playing: boolean } | null; // of the clock, until the learner predicts or declines
  opening: { before: number; stay(n: number): number } | null; // the opening: how many actions came before it, and how long the moment after n of its own stays, in ms
  speed: number;
  selected: number | null; // a packet
  pane: Pane;
  detail: Detail;
  message: string; // for the live region
}

// A past moment shows the packets and events of this many actions before it.
const pastWindow = 200;

let session = -1;
let bench = '{}'; // the free bench as a file, while something else is open
let live: Moment; // after all actions
let past: Moment; // at the cursor, if that is in the past
let state: State;
const listeners = new Set<() => void>();

export const get = () => state;

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function change(part: Partial<State>) {
  state = { ...state, ...part };
  listeners.forEach((listener) => listener());
}

/** Opens a session: a setup or a file as JSON, or a link. Throws what the engine refuses. */
export function open(text: string, about: { mistake?: string; scratch?: boolean; future?: Action[] } = {}): Opened {
  const opened = engine.open(text);
  if (session >= 0) {
    if (onBench()) bench = JSON.stringify(file());
    engine.close(session);
  }
  session = opened.session;
  live = momentOf(opened.snapshot);
  const actions = engine.file(session).actions;
  change({
    tables: state?.tables ?? engine.tables(),
    setup: opened.setup,
    mistake: about.mistake ?? null,
    actions,
    results: actions.map(() => null),
    scratch: about.scratch ?? false,
    future: about.future ?? [],
    solution: about.future !== undefined,
    cursor: actions.length,
    moment: live,
    playing: false,
    asked: null,
    guess: '',
    held: null,
    opening: null,
    speed: state?.speed ?? 1,
    selected: null,
    pane: !state || state.opening || state.pane === 'details' ? 'guide' : state.pane, // the opening has chosen the panes, and details are those of the last session
    detail: 'result',
    message: opened.warning ? problemText(opened.warning) : '',
  });
  return opened;
}

// Reports whether the free bench is open, and neither a lesson, a part of the examination nor a mistake.
const onBench = () => !state.setup.lesson && !state.mistake && !state.scratch;

/** Opens the free bench as it was left, or a new one with a setup. */
export function openBench(setup?: string) {
  if (setup || !onBench()) open(setup ?? bench);
  change({ pane: 'hosts' });
}

/** Opens the free bench, and shows the guide where a window shows one pane. */
export function benchBesideGuide() {
  openBench();
  change({ pane: 'guide' });
}

/** Returns the session of a mistake before its question, as a file. */
export function beginning(mistake: Tables['mistakes'][number]): string {
  const file: File = { schema: 'rawverbs-session', version: 1, setup: {}, actions: mistake.actions.slice(0, mistake.question) };
  return JSON.stringify(file);
}

/** Opens a mistake: the actions before its question, with the others still to come. */
export function openMistake(name: string) {
  const mistake = state.tables.mistakes.find((m) => m.name === name);
  if (!mistake) throw new Error(`there is no mistake ${name}`);
  open(beginning(mistake), { mistake: name, future: mistake.actions.slice(mistake.question) });
}

/**
 * Carries out an action after the shown moment; later actions are dropped. Throws if the action has no
 * meaning. What the device refuses is in the result of the new moment.
 */
export function perform(action: Action): Snapshot {
  const dropped = state.actions.length - state.cursor;
  if (dropped > 0) {
    live = momentOf(engine.back(session, dropped));
  }
  const actions = state.actions.slice(0, state.cursor);
  const results = state.results.slice(0, state.cursor);
  const next = JSON.stringify(state.future[0]) === JSON.stringify(action);
  let snapshot: Snapshot;
  try {
    snapshot = engine.do(session, action);
  } catch (error) {
    if (dropped > 0) change({ actions, results, cursor: actions.length, moment: live });
    throw error;
  }
  merge(live, snapshot);
  actions.push(action);
  results.push(snapshot.result);
  change({
    actions,
    results,
    future: next ? state.future.slice(1) : [],
    solution: state.solution && (next || state.future.length === 0), // also after its end
    opening: next ? state.opening : null,
    held: null,
    cursor: actions.length,
    moment: { ...live },
    detail: action.host ? 'result' : state.detail, // the clock and the wire leave the reader's tab
    message: next && state.mistake && !snapshot.result?.refused ? '' : resultText(snapshot.result), // a mistake polls by itself
  });
  return snapshot;
}

/** The lowest wr_id above all that a host has posted so far. */
export function freshId(host: Host): number {
  let next = 1;
  for (const action of state.actions.slice(0, state.cursor)) {
    if (action.host !== host) continue;
    for (const id of [action.id, ...(action.wrs ?? []).map((wr) => wr.id)]) {
      if (typeof id === 'number') next = Math.max(next, id + 1); // texts are numbers that no reader counts on from
    }
  }
  return next;
}

/** Shows the moment after the first n actions, without a change of the session. */
export function show(n: number) {
  const cursor = Math.max(0, Math.min(n, state.actions.length));
  if (cursor === state.actions.length) {
    change({ cursor, moment: { ...live } });
    return;
  }
  if (cursor === state.cursor + 1 && state.cursor < state.actions.length - 1) {
    merge(past, engine.peek(session, cursor, cursor - 1));
  } else {
    past = momentOf(engine.peek(session, cursor, Math.max(0, cursor - pastWindow)));
  }
  change({ cursor, moment: { ...past } });
}

/** Takes the last action back. redo carries it out again. */
export function undo() {
  const last = state.actions.at(-1);
  if (!last) return;
  const { future } = state;
  live = momentOf(engine.back(session, 1));
  const actions = state.actions.slice(0, -1);
  change({ actions, results: state.results.slice(0, -1), future: [last, ...future], cursor: actions.length, moment: { ...live }, playing: false });
}

export function redo() {
  const next = state.future[0];
  if (!next) return;
  if (state.cursor < state.actions.length) show(state.actions.length);
  perform(next);
}

/** Moves to a moment that the user chose, so playing ends. */
export function goTo(moment: number) {
  play(false);
  show(moment);
}

/** Reports whether nothing follows the shown moment by itself. */
export const atEnd = ({ cursor, actions, future, moment }: State) => cursor === actions.length && future.length === 0 && moment.snapshot.next_ns === null;

/** Lets time pass, unless a prediction is asked for: then the action waits. Returns false if it does. */
export function advance(action: Action): boolean {
  if (state.asked && !state.guess && state.cursor === state.actions.length) {
    change({ held: { action, playing: state.playing }, playing: false });
    return false;
  }
  perform(action);
  return true;
}

/** Moves on by one: a later moment, or what was undone, or the next event of the clock. */
export function forward(): boolean {
  if (state.cursor < state.actions.length) show(state.cursor + 1);
  else if (state.future.length > 0) redo();
  else if (state.moment.snapshot.next_ns !== null) return advance({ do: 'step' });
  else return false;
  return true;
}

/** Plays from the shown moment, one move per tick, until nothing happens any more. The first move comes at once, or after a tick. */
export function play(on: boolean, later = false) {
  clearTimeout(timer);
  change({ playing: on });
  if (on && later) wait();
  else if (on) tick();
}
let timer = 0;
const tickMs = 900;
function wait() {
  const { opening, cursor, speed } = state;
  timer = setTimeout(tick, (opening ? opening.stay(cursor - opening.before) : tickMs) / speed) as unknown as number;
}
function tick() {
  if (!state.playing) return;
  let moved = false;
  try {
    moved = forward();
  } catch (error) {
    change({ message: problemText(error) });
  }
  if (moved && !atEnd(state)) wait();
  else change({ playing: false });
}

/** The packets and events of the whole session at the shown moment, also those that are not loaded. */
export function loadAll() {
  if (state.cursor === state.actions.length) live = momentOf(engine.snapshot(session, 0));
  else past = momentOf(engine.peek(session, state.cursor, 0));
  change({ moment: { ...(state.cursor === state.actions.length ? live : past) } });
}

export const packetDetail = (id: number) => engine.packet(session, id);
export const link = () => engine.link(session);
export const file = () => engine.file(session);
export const record = () => engine.record(session);
export const program = (language: 'c' | 'go') => engine.program(session, language);

function momentOf(snapshot: Snapshot): Moment {
  return { snapshot, packets: snapshot.packets, events: snapshot.events };
}

// Adds the packets and events of a later snapshot to a moment. A packet may be known already.
function merge(moment: Moment, snapshot: Snapshot) {
  moment.snapshot = snapshot;
  const { packets, events } = moment;
  for (const packet of snapshot.packets) {
    let at = packets.length;
    while (at > 0 && packets[at - 1]!.id > packet.id) at--;
    if (at > 0 && packets[at - 1]!.id === packet.id) packets[at - 1] = packet;
    else packets.splice(at, 0, packet);
  }
  const last = events.at(-1)?.n ?? -1;
  for (const event of snapshot.events) if (event.n > last) events.push(event);
}
