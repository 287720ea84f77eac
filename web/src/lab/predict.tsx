// A prediction before a run: while a send request is not complete, the guide asks for the status of its completion. What
// it asks and what it says afterwards comes from the session, so it serves every lesson.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Action, Completion, Host, QPView, SendView, Tables } from '../api';
import { find, t } from '../texts';
import { inline } from '../common/prose';
import { attempt } from './attempt';
import { keep, kept } from './keep';
import { packetsOf } from './packet';
import { checkedBy, EngineText } from './refusal';
import { change, perform, play, type State } from './store';

/** A request to predict. */
export interface Request {
  key: string; // the same request after an undo has the same key
  post: number; // the number of the action that posted it
  host: Host;
  qp: string;
  id: string;
  opcode: string;
  signaled: boolean; // its success has a completion
  options: string[];
}

/** What became of a request: a status, or NONE. */
interface Outcome {
  status: string;
  why?: 'pending' | 'unsignaled' | 'gone'; // there is no completion
  check?: string;
}

const none = 'NONE';
const declined = '-'; // in place of a guess
const settled = new Set<string>(); // whose outcome the user has seen
const takesReceive = /^(SEND|RDMA_WRITE_WITH_IMM)/;

/** How many predictions were right, of how many. */
export const predictions = () => kept('predictions', { right: 0, all: 0 });

// The statuses that a request may complete with, as far as one sees before its run.
function optionsOf(qp: QPView, send: SendView): string[] {
  const reliable = qp.type === 'RC';
  const behind = openSends(qp)[0] !== send || ['ERR', 'SQE'].includes(qp.state);
  return [
    'SUCCESS',
    reliable && takesReceive.test(send.opcode) && 'RNR_RETRY_EXC_ERR',
    reliable && send.remote_addr && 'REM_ACCESS_ERR',
    reliable && (send.remote_addr || send.opcode.startsWith('SEND')) && 'REM_INV_REQ_ERR',
    send.opcode === 'BIND_MW' ? 'MW_BIND_ERR' : 'RETRY_EXC_ERR',
    behind ? 'WR_FLUSH_ERR' : 'LOC_PROT_ERR',
    none,
  ].filter((status): status is string => Boolean(status));
}

const openSends = (qp: QPView) => qp.sends.filter((send) => !send.done); // one that is done only keeps its place
const sendsOf = (state: State) =>
  state.moment.snapshot.hosts.flatMap((host) => host.objects.flatMap((o) => (o.qp ? openSends(o.qp) : []).map((send) => ({ host: host.name, name: o.name, qp: o.qp!, send }))));

/** Returns the oldest request that is not complete and whose outcome the user does not know; of its queue, rather one that is signaled. */
function nextRequest(state: State): Request | null {
  const requests = openRequests(state);
  return requests.find((r) => r.signaled && r.host === requests[0]!.host && r.qp === requests[0]!.qp) ?? requests[0] ?? null;
}

function openRequests(state: State): Request[] {
  const requests: Request[] = [];
  for (const { host, name, qp, send } of sendsOf(state)) {
    const id = String(send.id);
    const posts = state.actions.map((a) => a.do !== 'post_recv' && a.host === host && a.name === name && [a, ...(a.wrs ?? [])].some((wr) => String(wr.id ?? 0) === id));
    const post = posts.lastIndexOf(true);
    const key = `${state.setup.lesson} ${post} ${id} ${JSON.stringify(state.actions[post])}`;
    if (post >= 0 && !settled.has(key)) requests.push({ key, post, host, qp: name, id, opcode: send.opcode, signaled: qp.sig_all || send.flags.includes('SIGNALED'), options: optionsOf(qp, send) });
  }
  return requests;
}

/** Returns what became of a request, null while it is open, or undefined if an undo took it back. */
function outcomeOf(state: State, { key, post, host, qp, id, signaled }: Request): Outcome | null | undefined {
  if (!key.endsWith(JSON.stringify(state.actions[post]) ?? ' ')) return undefined;
  if (sendsOf(state).some((s) => s.host === host && s.name === qp && String(s.send.id) === id)) {
    const last = state.actions.at(-1)!;
    const over = (last.do === 'run' && last.ns === undefined) || (last.do === 'step' && state.moment.snapshot.next_ns === null);
    return over ? { status: none, why: 'pending' } : null;
  }
  const { objects } = state.moment.snapshot.hosts.find((h) => h.name === host)!;
  const waiting = objects.flatMap((o) => o.cq?.completions ?? []);
  const emptied = !objects.some((o) => o.name === qp && o.qp && o.qp.state !== 'RESET');
  const polled = state.results.flatMap((result, i) => (i > post && state.actions[i]!.host === host ? result?.completions ?? [] : []));
  const own = (wc: Completion) => wc.qp === qp && String(wc.id) === id && !wc.opcode?.startsWith('RECV');
  return [...polled, ...waiting].filter(own).at(-1) ?? { status: none, why: signaled || emptied ? 'gone' : 'unsignaled' };
}

// Reports whether a device has sent a packet of a request again.
const repaired = (state: State, { host, qp, id }: Request) =>
  packetsOf(state, host, qp, id).some((p) => p.why.again);

interface VerdictProps {
  request: Request;
  guess: string;
  outcome: Outcome;
  repaired: boolean; // something was lost or turned back on the way to a success
}

export function Predict({ state }: { state: State }) {
  const [on, setOn] = useState(kept('predict', true));
  const { asked } = state;
  const guess = state.guess === declined ? '' : state.guess;
  const [verdict, setVerdict] = useState<VerdictProps | null>(null);
  const [again, setAgain] = useState(false); // the same question, after a prediction
  const last = useRef(state.actions); // when the effect ran
  const box = useRef<HTMLElement>(null);
  const fresh = state.actions.length <= state.tables.lessons.find((l) => l.id === state.setup.lesson)!.start.length;

  useEffect(() => {
    if (state.cursor < state.actions.length) return; // the past
    const acted = changed(last.current, state.actions).some((action) => !passive.has(action.do));
    last.current = state.actions;
    let open = asked;
    let judged = false;
    if (open) {
      const outcome = outcomeOf(state, open);
      if (outcome === null && on) {
        if (guess && acted) {
          change({ guess: '' }); // what the learner has done may change the outcome
          setAgain(true);
        }
        return;
      }
      if (outcome) {
        settled.add(open.key);
        if (guess) setVerdict({ request: open, guess, outcome, repaired: outcome.status === 'SUCCESS' && repaired(state, open) });
        judged = Boolean(guess);
        if (guess && open.options.includes(outcome.status)) {
          const { right, all } = predictions();
          keep('predictions', { right: right + (guess === outcome.status ? 1 : 0), all: all + 1 });
        }
      }
    }
    open = on && !(state.solution && state.future.length > 0) ? nextRequest(state) : null; // a solution asks nothing
    if (open?.key !== asked?.key) setAgain(false);
    if (open?.key !== asked?.key || state.guess) change({ asked: open, guess: '', held: null });
    if (!judged && (open?.key !== asked?.key || fresh)) setVerdict(null); // another question, or a new start
  }, [state.moment, on]);
  useEffect(() => () => change({ asked: null, guess: '', held: null }), []);
  const question = asked && questionOf(asked);
  useEffect(() => {
    if (!asked && !verdict) return;
    box.current?.scrollIntoView({ block: 'nearest' });
    if (question && box.current?.offsetParent === null) change({ message: question.replaceAll('`', '') }); // a narrow window shows another pane
  }, [asked?.key, verdict]);
  const cause = state.tables.statuses.find((s) => s.status === guess)?.cause;

  const posts = asked || verdict || state.moment.snapshot.hosts.some((h) => h.objects.some((o) => o.qp && ['RTS', 'SQD', 'SQE', 'ERR'].includes(o.qp.state)));
  const choose = (status: string) => {
    change({ guess: status });
    setAgain(false);
    setVerdict(null);
  };
  const toggle = (to: boolean) => {
    setOn(to);
    keep('predict', to);
  };
  return (
    <section class="predict" ref={box}>
      <div aria-live="polite">{verdict && on && <Verdict {...verdict} tables={state.tables} />}</div>
      {asked && on && !state.held && (
        <div class="question" data-test="predict">
          <p id="predict-title">{inline(question!)}</p>
          <Choices options={asked.options} name="predict" title="predict-title" guess={guess} text={statusText} onChoose={choose} />
          {cause && guess !== 'SUCCESS' && <p class="small muted">{t('ui.predict.means', { name: guess })}<EngineText text={cause} /></p>}
          <p class="small muted">{t(guess ? 'ui.predict.run' : again ? 'ui.predict.again' : 'ui.predict.skip')}</p>
        </div>
      )}
      {posts && <label class="inline-check small"><input type="checkbox" data-test="predict.on" checked={on} onChange={(event) => toggle(event.currentTarget.checked)} /> {t('ui.predict.on')}</label>}
    </section>
  );
}

// The actions that only one of two lists has.
function changed(was: Action[], now: Action[]): Action[] {
  const same = was.findIndex((action, i) => action !== now[i]);
  return same < 0 ? now.slice(was.length) : [...was.slice(same), ...now.slice(same)];
}

const passive = new Set(['step', 'run', 'poll_cq', 'query_qp', 'get_cq_event', 'ack_cq_events', 'arm_cq']);
const questionOf = (request: Request) => t('ui.predict.question', { id: request.id, opcode: request.opcode, host: find(`ui.host.${request.host}`) });

interface ChoicesProps {
  options: string[];
  name: string; // of the elements for tests
  title: string; // the id of the question
  guess: string;
  text(option: string): string;
  onChoose(option: string): void;
}

/** The answers to choose from, as buttons. */
export const Choices = ({ options, name, title, guess, text, onChoose }: ChoicesProps) => (
  <div class="choices" role="group" aria-labelledby={title}>
    {options.map((option) => (
      <button type="button" class="small-button" data-test={`${name}.${option}`} aria-pressed={guess === option} onClick={() => onChoose(option)}>{text(option)}</button>
    ))}
  </div>
);

const statusText = (status: string) => (status === none ? t('ui.predict.none') : status);

/** The question above the clock, which waits for the answer. */
export function Held({ state }: { state: State }) {
  const { asked, held } = state;
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.querySelector('button')?.focus(), [held !== null]);
  if (!asked || !held) return null;
  const go = (guess: string) => {
    const { action, playing } = held;
    change({ guess });
    attempt(() => perform(action));
    if (playing) play(true, true);
    document.querySelector<HTMLElement>(`[data-test="${playing ? 'play' : action.do}"]`)?.focus();
  };
  return (
    <div class="held" ref={box} data-test="held">
      <p id="held-title">{inline(questionOf(asked))} <span class="muted">{t('ui.predict.held')}</span></p>
      <Choices options={asked.options} name="held" title="held-title" guess="" text={statusText} onChoose={go} />
      <button type="button" class="plain link" data-test="held.decline" onClick={() => go(declined)}>{t('ui.predict.decline')}</button>
    </div>
  );
}

// What the completion was, whether that was predicted, and why.
function Verdict({ request, guess, outcome, repaired, tables }: VerdictProps & { tables: Tables }) {
  const { status, check } = outcome;
  const right = guess === status;
  const counts = predictions();
  const row = tables.statuses.find((s) => s.status === status);
  const name = (of: string) => (of === none ? t('ui.predict.none') : `\`${of}\``);
  return (
    <div class={`verdict ${right ? 'right' : 'wrong'} note-box`} data-test="predict.verdict" data-right={right}>
      <p><strong>{t(right ? 'ui.predict.right' : 'ui.predict.wrong')}</strong>{t('ui.space')}{inline(t('ui.predict.was', { id: request.id, was: name(status), guess: name(guess) }))}</p>
      {repaired ? <p>{t('ui.predict.repaired')}</p> : status === 'SUCCESS' && !right && <p>{t('ui.predict.success')}</p>}
      {status === none && <p>{t(`ui.predict.${outcome.why ?? 'gone'}`)}</p>}
      {check && <p>{t(checkedBy(status))}<strong class="bad"><EngineText text={check} /></strong></p>}
      {!right && status !== 'SUCCESS' && row?.cause && <p><EngineText text={row.cause} /></p>}
      {counts.all > 0 && <p class="muted" data-test="predict.count">{t('ui.predict.count', { n: counts.right, all: counts.all })}</p>}
    </div>
  );
}
