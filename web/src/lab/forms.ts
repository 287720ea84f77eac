// The forms of the verbs that have simple fields: what each field is, how it begins, and the action that
// the values make; the C calls of the verbs. post.tsx and modify.tsx have the other two forms.
import type { Action, Host, HostView, Kind, ObjectView, Tables } from '../api';
import { number } from '../common/format';
import { t, type Key } from '../texts';
import type { Option } from './fields';

export type Values = Record<string, string | boolean | string[]>;

export interface Field {
  key: string;
  kind: 'text' | 'number' | 'choice' | 'many' | 'flag';
  start: string | boolean | string[];
  options?: Option[];
  hint?: string;
  when?: (values: Values) => boolean;
}

export interface Form {
  verb: string;
  fields: Field[];
  build(values: Values): Action;
}

/** What a form knows about the host it is for. */
export interface Place {
  host: HostView;
  peer: HostView;
  object?: ObjectView;
  tables: Tables;
}

const names = (host: HostView, kind: string): Option[] => host.objects.filter((o) => o.kind === kind).map((o) => ({ value: o.name }));

/** A free name for a new object: "pd", then "pd2". */
export function freshName(host: HostView, base: string): string {
  const taken = new Set(host.objects.map((o) => o.name));
  for (let n = 1; ; n++) {
    const name = n === 1 ? base : `${base}${n}`;
    if (!taken.has(name)) return name;
  }
}

const first = (options: Option[]) => options[0]?.value ?? '';
const num = (text: unknown) => Number(number(String(text)));
const none: Option = { value: '', label: '—' };
const rare = new Set(['FLUSH_GLOBAL', 'FLUSH_PERSISTENT', 'RELAXED_ORDERING', 'HUGETLB', 'ON_DEMAND', 'ZERO_BASED']); // of the access flags
const usualAccess = ['LOCAL_WRITE', 'REMOTE_READ', 'REMOTE_WRITE'];

const text = (key: string, start: string, hint?: string): Field => ({ key, kind: 'text', start, hint });
const amount = (key: string, start: number, hint?: string): Field => ({ key, kind: 'number', start: String(start), hint });
const choice = (key: string, options: Option[], start = first(options)): Field => ({ key, kind: 'choice', start, options });
const many = (key: string, options: string[], start: string[]): Field => ({ key, kind: 'many', start, options: options.map((value) => ({ value, rare: rare.has(value) })) });
const flag = (key: string, start = false, hint?: string): Field => ({ key, kind: 'flag', start, hint });

const capacities: [string, number][] = [['send_wr', 16], ['recv_wr', 16], ['send_sge', 2], ['recv_sge', 2], ['inline', 64]];

type Maker = (place: Place) => Omit<Form, 'verb'>;

const makers: Record<string, Maker> = {
  alloc_pd: ({ host }) => ({
    fields: [text('name', freshName(host, 'pd'))],
    build: (v) => ({ do: 'alloc_pd', name: v.name as string }),
  }),
  reg_mr: ({ host, tables }) => ({
    fields: [
      text('name', freshName(host, 'buf')),
      choice('pd', names(host, 'PD')),
      amount('length', 256, t('ui.f.length.hint', { max: tables.limits.region ?? 0 })),
      many('access', tables.access, usualAccess),
    ],
    build: (v) => ({ do: 'reg_mr', name: v.name as string, pd: v.pd as string, length: num(v.length), access: v.access as string[] }),
  }),
  create_cq: ({ host }) => ({
    fields: [text('name', freshName(host, 'cq')), amount('depth', 32)],
    build: (v) => ({ do: 'create_cq', name: v.name as string, depth: num(v.depth) }),
  }),
  create_srq: ({ host }) => ({
    fields: [text('name', freshName(host, 'srq')), choice('pd', names(host, 'PD')), amount('max_wr', 16), amount('max_sge', 2)],
    build: (v) => ({ do: 'create_srq', name: v.name as string, pd: v.pd as string, max_wr: num(v.max_wr), max_sge: num(v.max_sge) }),
  }),
  create_qp: ({ host }) => ({
    fields: [
      text('name', freshName(host, 'qp')),
      choice('type', ['RC', 'UC', 'UD'].map((value) => ({ value, label: t(`ui.qp.${value}` as Key) }))),
      choice('pd', names(host, 'PD')),
      choice('send_cq', names(host, 'CQ')),
      choice('recv_cq', names(host, 'CQ')),
      choice('srq', [none, ...names(host, 'SRQ')]),
      flag('sig_all', true, t('ui.f.sig_all.hint')),
      ...capacities.map(([key, start]) => amount(key, start)),
    ],
    build: (v) => ({
      do: 'create_qp', name: v.name as string, pd: v.pd as string, type: v.type as string,
      send_cq: v.send_cq as string, recv_cq: v.recv_cq as string,
      ...(v.srq ? { srq: v.srq as string } : {}),
      cap: Object.fromEntries(capacities.map(([key]) => [key, num(v[key])])),
      sig_all: v.sig_all as boolean,
    }),
  }),
  create_ah: ({ host }) => {
    const told = host.told.map((peer) => ({ value: peer.qp, label: `${peer.qp} · ${peer.gid}` }));
    return {
      fields: [
        text('name', freshName(host, 'ah')),
        choice('pd', names(host, 'PD')),
        choice('gid_from', [...(told.length ? [{ value: 'peer', label: t('ui.source.peer') }] : []), { value: 'own', label: t('ui.source.own') }]),
        { ...choice('peer', told), when: (v) => v.gid_from === 'peer' },
        { ...text('gid', '10.0.0.2'), when: (v) => v.gid_from === 'own' },
      ],
      build: (v) => ({
        do: 'create_ah', name: v.name as string, pd: v.pd as string,
        ...(v.gid_from === 'peer' ? { av: { gid: 'peer' }, peer: v.peer as string } : { av: { gid: v.gid as string } }),
      }),
    };
  },
  alloc_mw: ({ host }) => ({
    fields: [text('name', freshName(host, 'mw')), choice('pd', names(host, 'PD')), choice('type', [{ value: '1' }, { value: '2' }])],
    build: (v) => ({ do: 'alloc_mw', name: v.name as string, pd: v.pd as string, type: v.type as string }),
  }),
  exchange: ({ host, object }) => {
    const isQP = object?.kind === 'QP';
    const regions = [...names(host, 'MR'), ...names(host, 'MW')];
    const psn = host.name === 'client' ? '0x100' : '0x200';
    const mr = object && !isQP ? object.name : first(regions);
    return {
      fields: [
        choice('name', [none, ...names(host, 'QP')], isQP ? object.name : ''),
        { ...text('psn', psn, t('ui.f.psn.hint')), when: (v) => v.name !== '' },
        choice('mr', [none, ...regions], isQP ? mr : object?.name ?? mr),
        { ...flag('lkey', false, t('ui.f.lkey.hint')), when: (v) => v.mr !== '' },
      ],
      build: (v) => ({
        do: 'exchange',
        ...(v.name ? { name: v.name as string } : {}),
        ...(v.name && v.psn !== psn ? { psn: num(v.psn) } : {}),
        ...(v.mr ? { mr: v.mr as string } : {}),
        ...(v.mr && v.lkey ? { lkey: true } : {}),
      }),
    };
  },
  write: ({ object }) => ({
    fields: [amount('offset', 0), text('text', 'Hello, RDMA!'), { ...text('hex', '', t('ui.f.hex.hint')) }],
    build: (v) => ({
      do: 'write', name: object!.name, offset: num(v.offset),
      ...(v.hex ? { hex: (v.hex as string).replace(/\s|^0x/gi, '') } : { text: v.text as string }),
    }),
  }),
  bind_mw: ({ host, object, tables }) => ({
    fields: [
      choice('mw', names(host, 'MW')), choice('mr', names(host, 'MR')), amount('offset', 0), amount('length', 64),
      many('access', tables.access.filter((a) => a.startsWith('REMOTE')), ['REMOTE_READ', 'REMOTE_WRITE']),
      text('id', '1'), many('flags', ['SIGNALED', 'FENCE'], []),
    ],
    build: (v) => ({
      do: 'bind_mw', name: object!.name, mw: v.mw as string, mr: v.mr as string, offset: num(v.offset), length: num(v.length),
      access: v.access as string[], id: number(v.id as string), ...((v.flags as string[]).length ? { flags: v.flags as string[] } : {}),
    }),
  }),
  modify_srq: ({ object }) => ({
    fields: [text('limit', '2', t('ui.f.limit.hint')), text('max_wr', '')],
    build: (v) => ({
      do: 'modify_srq', name: object!.name,
      ...(v.limit !== '' ? { limit: num(v.limit) } : {}), ...(v.max_wr !== '' ? { max_wr: num(v.max_wr) } : {}),
    }),
  }),
  arm_cq: ({ object }) => ({
    fields: [flag('solicited', false, t('ui.f.solicited.hint'))],
    build: (v) => ({ do: 'arm_cq', name: object!.name, ...(v.solicited ? { solicited: true } : {}) }),
  }),
  run: () => ({
    fields: [text('ns', '100000', t('ui.f.ns.hint'))],
    build: (v) => ({ do: 'run', ...(v.ns !== '' ? { ns: num(v.ns) } : {}) }),
  }),
};

/** The form of a verb. */
export function formOf(verb: string, place: Place): Form {
  const made = makers[verb]!(place);
  const host = verb === 'run' ? {} : { host: place.host.name as Host };
  return { verb, fields: made.fields, build: (values) => ({ ...made.build(values), ...host }) };
}

/** The call in C that an action makes. */
export const calls: Record<string, string> = {
  alloc_pd: 'ibv_alloc_pd', reg_mr: 'ibv_reg_mr', create_cq: 'ibv_create_cq', create_srq: 'ibv_create_srq', create_qp: 'ibv_create_qp',
  create_ah: 'ibv_create_ah', alloc_mw: 'ibv_alloc_mw', modify_qp: 'ibv_modify_qp', query_qp: 'ibv_query_qp', modify_srq: 'ibv_modify_srq',
  post_send: 'ibv_post_send', post_recv: 'ibv_post_recv', bind_mw: 'ibv_bind_mw', poll_cq: 'ibv_poll_cq', arm_cq: 'ibv_req_notify_cq',
  get_cq_event: 'ibv_get_cq_event', ack_cq_events: 'ibv_ack_cq_events',
};

/** The actions that make objects, their kinds, and the kinds that they need. */
export const making: [string, Kind, Kind[]][] = [
  ['alloc_pd', 'PD', []], ['create_cq', 'CQ', []], ['reg_mr', 'MR', ['PD']], ['create_qp', 'QP', ['PD', 'CQ']],
  ['create_srq', 'SRQ', ['PD']], ['create_ah', 'AH', ['PD']], ['alloc_mw', 'MW', ['PD']],
];

/** The call in C that closes an object of a kind. */
export const closers: Record<Kind, string> = {
  PD: 'ibv_dealloc_pd', MR: 'ibv_dereg_mr', CQ: 'ibv_destroy_cq', QP: 'ibv_destroy_qp', SRQ: 'ibv_destroy_srq', AH: 'ibv_destroy_ah', MW: 'ibv_dealloc_mw',
};
