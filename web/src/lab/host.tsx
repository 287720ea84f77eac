// A host: the buttons that make objects, and the objects. The box of a PD contains the objects that belong
// to the PD; completion queues stand above the PDs.
import type { HostView, Kind, ObjectView, Tables } from '../api';
import { hex } from '../common/format';
import { Icon } from '../common/icons';
import { find, listed, t } from '../texts';
import { attempt } from './attempt';
import { connect, connectable, makePair, pairable } from './connect';
import { openForm } from './form';
import { calls, closers, making, type Place } from './forms';
import { AddressHandle, Depth, Queue, Region, SharedQueue, Window } from './objects';
import { marks } from './opening';
import { openPost } from './post';
import { QueuePair } from './qp';
import { get, perform } from './store';

interface Props {
  host: HostView;
  peer: HostView;
  tables: Tables;
  now: number;
}

export function HostCard(props: Props) {
  const { host, peer, tables } = props;
  const place: Place = { host, peer, tables };
  const roots = inOrder(host.objects.filter((o) => !parentOf(host, o)));
  return (
    <section class={`host ${host.name}`} data-test={host.name} aria-labelledby={`${host.name}-title`}>
      <header class="host-head">
        <h2 id={`${host.name}-title`}>{find(`ui.host.${host.name}`)}</h2>
        <span class="mono small muted">{host.device} · {host.ip}</span>
        {repairs() && (
          <label class="small device-switch" title={t('ui.about.selective_repeat')}>
            <input
              type="checkbox" data-test={`${host.name}.selective_repeat`} checked={host.selective_repeat}
              onChange={(e) => attempt(() => perform({ do: 'selective_repeat', host: host.name, ...(e.currentTarget.checked ? { on: true } : {}) }))}
            />
            {t('ui.verb.selective_repeat')}
          </label>
        )}
      </header>
      <div class="make" role="group" aria-label={t('ui.make')}>
        {making.map(([verb, kind, needs]) => {
          const missing = needs.filter((n) => !host.objects.some((o) => o.kind === n));
          return (
            <button
              type="button" class="small-button" data-test={`${host.name}.${verb}`} title={missing.length > 0 ? t('ui.needs', { what: listed(missing) }) : `${find(`ui.verb.${verb}`)} (${calls[verb]})`}
              disabled={missing.length > 0} onClick={() => openForm(verb, place)} aria-label={t('ui.labelled', { name: kind, text: find(`ui.verb.${verb}`) })}
            >
              <Icon name="plus" />{kind}
            </button>
          );
        })}
      </div>
      {roots.length === 0 && <p class="empty">{t('ui.host.empty')}</p>}
      {host.name === 'client' && pairable() && (
        <button type="button" class="pair-maker" data-test="pair" onClick={() => attempt(makePair)}>{t('ui.pair')}</button>
      )}
      {roots.map((object) => <ObjectCard key={object.name} {...props} object={object} />)}
      {(host.told.length > 0 || host.regions.length > 0) && <Told host={host} />}
    </section>
  );
}

// Reports whether the page offers a choice of how devices repair losses: the lessons but one are about other things.
const repairs = () => ['gap', undefined].includes(get().setup.lesson);

// Queues come first, then queue pairs: they change most, and a short window shows only the first cards.
function inOrder(objects: ObjectView[]): ObjectView[] {
  const rank = (o: ObjectView) => (o.cq || o.srq ? 0 : o.qp ? 1 : 2);
  return [...objects].sort((a, b) => rank(a) - rank(b));
}

// The PD that an object stands in.
function parentOf(host: HostView, object: ObjectView): ObjectView | undefined {
  return host.objects.find((o) => o.kind === 'PD' && object.parents.includes(o.name));
}

// The class of what the opening marks.
const marked = (name: string) => (marks(get()).includes(name) ? ' marked' : '');

function ObjectCard(props: Props & { object: ObjectView }) {
  const { host, object, tables, now } = props;
  const inside = object.kind === 'PD' ? inOrder(host.objects.filter((o) => parentOf(host, o) === object)) : [];
  const id = `${host.name}-${object.name}`;
  const { qp } = object;
  return (
    <article class={`object ${object.kind.toLowerCase()}${marked(`${host.name}.${object.name}`)}`} data-test={`${host.name}.${object.name}`} data-state={qp?.state} aria-labelledby={id}>
      <header>
        <h3 id={id}><span class="kind">{object.kind}</span> <span class="name">{object.name}</span></h3>
        {qp && <span class="mono small muted">{qp.type} · {hex(qp.qpn)} · {qp.send_cq === qp.recv_cq ? qp.send_cq : `${qp.send_cq}/${qp.recv_cq}`}</span>}
        {qp && <span class={`state-chip ${qp.state}`}>{qp.state}</span>}
        {object.cq && <Depth cq={object.cq} />}
        <Verbs {...props} />
      </header>
      {object.mr && <Region mr={object.mr} name={object.name} />}
      {object.cq && <Queue cq={object.cq} />}
      {object.srq && <SharedQueue srq={object.srq} />}
      {object.ah && <AddressHandle ah={object.ah} />}
      {object.mw && <Window mw={object.mw} />}
      {qp && <QueuePair host={host} object={object} qp={qp} tables={tables} now={now} />}
      {inside.length > 0 && <div class="inside">{inside.map((child) => <ObjectCard key={child.name} {...props} object={child} />)}</div>}
    </article>
  );
}

const verbsOf: Record<Kind, string[]> = {
  PD: [],
  MR: ['write', 'exchange'],
  CQ: ['poll_cq', 'arm_cq', 'get_cq_event', 'ack_cq_events'],
  SRQ: ['post_recv', 'modify_srq'],
  QP: ['post_send', 'post_recv', 'exchange', 'bind_mw', 'query_qp', 'connect'],
  AH: [],
  MW: ['exchange'],
};

// A program that has never armed a CQ does not wait for its events.
function wasArmed(host: HostView, { name }: ObjectView): boolean {
  const { actions, cursor } = get();
  return actions.slice(0, cursor).some((a) => a.do === 'arm_cq' && a.host === host.name && a.name === name);
}

function Verbs({ host, peer, object, tables }: Props & { object: ObjectView }) {
  const place: Place = { host, peer, object, tables };
  const direct = (verb: string) => attempt(() => perform({ do: verb, host: host.name, name: object.name }));
  const press = (verb: string) => {
    if (verb === 'post_send' || verb === 'post_recv') openPost(host, object, verb === 'post_recv', tables);
    else if (verb === 'connect') attempt(() => connect(object.name));
    else if (['poll_cq', 'query_qp', 'get_cq_event', 'ack_cq_events'].includes(verb)) direct(verb);
    else openForm(verb, place);
  };
  const shown = verbsOf[object.kind].filter((verb) =>
    (verb !== 'bind_mw' || host.objects.some((o) => o.mw?.type === 1)) && (verb !== 'post_recv' || !object.qp?.srq)
    && (verb !== 'connect' || connectable(object.name))
    && (verb !== 'get_cq_event' || wasArmed(host, object)) && (verb !== 'ack_cq_events' || object.cq!.unacked > 0));
  return (
    <>
      <div class="verbs">
        {shown.map((verb) => (
          <button
            type="button" class="small-button" data-test={`${host.name}.${object.name}.${verb}`} title={calls[verb]} onClick={() => press(verb)}
            aria-label={t('ui.labelled', { name: `${find(`ui.short.${verb}`)} ${object.name}`, text: find(`ui.verb.${verb}`) })}
          >
            {find(`ui.short.${verb}`)}
          </button>
        ))}
      </div>
      <button
        type="button" class="plain closer" data-test={`${host.name}.${object.name}.close`} title={closers[object.kind]}
        aria-label={t('ui.verb.close', { name: object.name })} onClick={() => direct('close')}
      >
        <Icon name="close" />
      </button>
    </>
  );
}

// What the peer has told this host by the exchange.
function Told({ host }: { host: HostView }) {
  return (
    <div class={`told${marked(`${host.name}.told`)}`} id={`${host.name}-told`}>
      <h3>{t('ui.told')}</h3>
      <ul>
        {host.told.map((p) => (
          <li key={p.qp}><span class="kind">QP</span> <span class="name">{p.qp}</span> <span class="mono small">{hex(p.qpn)} · PSN {hex(p.psn)} · active_mtu {p.mtu}</span></li>
        ))}
        {host.regions.map((r) => (
          <li key={r.mr}><span class="kind">MR</span> <span class="name">{r.mr}</span> <span class="mono small">{r.addr} · {r.lkey ? 'lkey' : 'rkey'} {r.rkey} · {r.length}</span></li>
        ))}
      </ul>
    </div>
  );
}
