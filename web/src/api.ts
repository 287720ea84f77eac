// The engine's interface: the types of what it takes and returns. API.md explains them.
// cmd/internal/lab/workbench/api_test.go compares the names with those of the Go code.

export type Kind = "PD" | "MR" | "CQ" | "SRQ" | "QP" | "AH" | "MW";
export type Host = "client" | "server";
export type Num = number | string; // up to 64 bits; above 2^53 a string such as "0x1f"
export type Hex = string; // a number as a hexadecimal string: "0x1f"

/** The functions of the global object rawverbs. Each returns a Reply as JSON. */
export interface Engine {
  tables(): string; // Reply<Tables>
  open(text: string): string; // Reply<Opened>
  close(session: number): string; // Reply<true>
  do(session: number, action: string): string; // Reply<Snapshot>
  snapshot(session: number, since: number): string; // Reply<Snapshot>
  back(session: number, n: number): string; // Reply<Snapshot>
  peek(session: number, at: number, since: number): string; // Reply<Snapshot>
  packet(session: number, id: number): string; // Reply<PacketDetail>
  file(session: number): string; // Reply<File>
  link(session: number): string; // Reply<string>
  record(session: number): string; // Reply<string>
  program(session: number, language: "c" | "go"): string; // Reply<string>
}

export interface Reply<T> {
  value?: T;
  error?: string;
}

export interface Setup {
  seed?: number;
  delay_ns?: number;
  mtu?: number;
  lesson?: string;
}

export interface File {
  schema: "rawverbs-session";
  version: 1;
  setup: Setup;
  actions: Action[];
}

export interface Opened {
  session: number;
  setup: Setup;
  snapshot: Snapshot;
  warning?: string;
}

export interface Action {
  do: string;
  host?: Host;
  name?: string;
  pd?: string;
  send_cq?: string;
  recv_cq?: string;
  srq?: string;
  type?: string;
  depth?: number;
  length?: number;
  access?: string[];
  max_wr?: number;
  max_sge?: number;
  limit?: number;
  cap?: Cap;
  sig_all?: boolean;
  av?: AV;
  mask?: string[];
  attr?: Record<string, unknown>;
  peer?: string;
  psn?: number;
  mr?: string;
  lkey?: boolean;
  wrs?: WR[];
  id?: Num;
  flags?: string[];
  mw?: string;
  max?: number;
  solicited?: boolean;
  offset?: number;
  hex?: string;
  text?: string;
  ns?: number;
  packet?: number;
  bit?: number;
  on?: boolean;
}

export interface Cap {
  send_wr?: number;
  recv_wr?: number;
  send_sge?: number;
  recv_sge?: number;
  inline?: number;
}

export interface AV {
  gid: string;
  sgid_index?: number;
  port?: number;
  hop_limit?: number;
  traffic_class?: number;
  flow_label?: number;
  local?: boolean;
}

export interface WR {
  id?: Num;
  opcode?: string;
  flags?: string[];
  sgl?: SGE[];
  imm?: number;
  remote?: Remote;
  compare_add?: Num;
  swap?: Num;
  invalidate?: Remote;
  mw?: string;
  bind?: Bind;
  flush?: Flush;
  ah?: string;
  remote_qp?: string;
  remote_qpn?: Num;
  remote_qkey?: Num;
}

export interface SGE {
  mr: string;
  offset?: number;
  length: number;
  lkey?: Num;
}

export interface Remote {
  mr?: string;
  offset?: number;
  addr?: Num;
  rkey?: Num;
  rkey_add?: number;
}

export interface Bind {
  mr: string;
  offset?: number;
  length?: number;
  access?: string[];
}

export interface Flush {
  length?: number;
  type: number;
  level?: number;
}

export interface Snapshot {
  now_ns: number;
  next_ns: number | null;
  actions: number;
  hosts: HostView[];
  in_flight: number[];
  packets: PacketView[];
  packets_total: number;
  events: Event[];
  events_total: number;
  result: Result | null;
  goals: GoalState[];
}

export interface HostView {
  name: Host;
  device: string;
  ip: string;
  gid: string;
  objects: ObjectView[];
  told: ToldView[];
  regions: RegionView[];
  counters: Record<string, number>;
  selective_repeat: boolean;
}

export interface ToldView {
  qp: string;
  qpn: number;
  psn: number;
  gid: string;
  mtu: number;
  qkey: number;
}

export interface RegionView {
  mr: string;
  addr: Hex;
  rkey: Hex;
  length: number;
  lkey?: boolean;
}

export interface ObjectView {
  name: string;
  kind: Kind;
  parents: string[];
  children: string[];
  made: number;
  mr?: MRView;
  cq?: CQView;
  srq?: SRQView;
  qp?: QPView;
  ah?: AHView;
  mw?: MWView;
}

export interface MRView {
  addr: Hex;
  length: number;
  lkey: Hex;
  rkey: Hex;
  access: string[];
  bytes: string; // base64
  changed: [number, number][];
}

export interface CQView {
  depth: number;
  armed: "" | "solicited" | "any";
  overrun: boolean;
  events: number;
  unacked: number;
  completions: Completion[];
}

export interface SRQView {
  max_wr: number;
  max_sge: number;
  limit: number;
  recvs: RecvView[];
}

export interface AHView {
  gid: string;
  text: string;
}

export interface MWView {
  type: number;
  rkey: Hex;
  bound: boolean;
  addr: Hex;
  length: number;
  access: string[];
}

export interface QPView {
  qpn: number;
  type: "RC" | "UC" | "UD";
  state: string;
  program_state: string;
  send_cq: string;
  recv_cq: string;
  srq?: string;
  sig_all: boolean;
  cap: Cap;
  attrs: AttrView[];
  sends: SendView[];
  recvs: RecvView[];
  taken: RecvView | null;
  psn: PSNView;
  timer: TimerView | null;
  retries: number;
  rnr_retries: number;
  draining: boolean;
  reads_out: number;
  reads_in: number;
  told_psn: number | null;
}

export interface AttrView {
  bit: string;
  field: string;
  text: string;
  source: Source;
  changed: boolean;
}

export interface Source {
  from: "reset" | "own" | "told" | "peer" | "zero" | "state" | "counted" | "device";
  action: number;
}

export interface PSNView {
  una: number;
  next: number;
  max: number;
  window: number;
  in_flight: number;
  expected: number;
  msn: number;
}

export interface TimerView {
  kind: "ack timeout" | "rnr wait";
  ends_ns: number;
}

export interface SendView {
  id: Num;
  opcode: string;
  flags: string[];
  length: number;
  sgl: SGEView[];
  remote_addr?: Hex;
  rkey?: Hex;
  started: boolean;
  first_psn: number;
  packets: number;
  sent: number;
  acked: number;
  done?: boolean;
  status?: string;
}

export interface RecvView {
  id: Num;
  sgl: SGEView[];
}

export interface SGEView {
  mr: string;
  offset: number;
  length: number;
  addr: Hex;
  lkey: Hex;
}

export interface PacketView {
  id: number;
  action: number;
  from: Host;
  sent_ns: number;
  arrives_ns: number;
  opcode: string;
  psn: number;
  request: boolean;
  bytes: number;
  carries: string;
  imm?: Num;
  fate: "in flight" | "delivered" | "dropped" | "unrouted";
  outcome: string;
  check?: string;
  copy_of?: number;
  flipped?: number[];
  marked?: boolean;
  why: WhyView;
}

export interface WhyView {
  kind: "request" | "ack" | "nak" | "rnr nak" | "response" | "cnp";
  qp: string;
  answers?: number;
  wr?: Num;
  wr_opcode?: string;
  index?: number;
  count?: number;
  again?: "timeout" | "rnr wait" | "nak" | "gap" | "ack" | "probe";
  because?: number;
  text: string;
}

export interface PacketDetail {
  packet: PacketView;
  frame: string;
  fields: FieldView[];
  icrc: ICRCView;
}

export interface FieldView {
  header: string;
  name: string;
  bit: number;
  width: number;
  value: string;
  about: string;
  meaning?: string;
}

export interface ICRCView {
  carried: string; // as the field, with 0x
  computed: string;
  right: boolean;
}

export interface Event {
  n: number;
  action: number;
  time: string;
  level: string;
  msg: string;
  end: Host;
  who: string;
  event: string;
  verb?: string;
  path?: string;
  attrs?: Record<string, unknown>;
}

export interface Result {
  refused?: Refusal;
  accepted?: number;
  asleep?: boolean;
  completions?: Completion[];
  note?: string;
  code: Code;
}

export interface Code {
  c: string[];
  go: string[];
}

export interface Completion {
  id: Num;
  status: string;
  status_number: number;
  opcode?: string;
  byte_len?: number;
  imm?: Num;
  invalidated_rkey?: Num;
  qpn: number;
  qp?: string;
  src_qpn?: number;
  text?: string;
  check?: string;
}

export interface Refusal {
  op: string;
  errno: string;
  errno_number: number;
  text: string;
  cause?: string;
  hint?: string;
  transition?: TransitionRefusal;
  index?: number;
}

export interface TransitionRefusal {
  type: string;
  from: string;
  to: string;
  missing: string[];
  illegal: string[];
  impossible?: boolean;
}

export interface GoalState {
  key: string;
  met: number;
}

export interface Tables {
  states: string[];
  bits: BitRow[];
  transitions: Record<string, MoveRow[]>;
  attributes: Record<string, string[]>;
  opcodes: Record<string, string[]>;
  access: string[];
  flags: string[];
  statuses: StatusRow[];
  actions: string[];
  lessons: LessonView[];
  mistakes: MistakeView[];
  exam: (LessonView & ExamView)[];
  subjects: string[];
  rnr_timers_ns: number[];
  ack_timeouts_ns: number[];
  outcomes: string[];
  limits: Record<string, number>;
}

export interface BitRow {
  bit: string;
  value: number;
  field: string;
  about: string;
}

export interface MoveRow {
  from: string;
  to: string;
  required: string[];
  optional: string[];
}

export interface StatusRow {
  status: string;
  number: number;
  cause?: string;
  remedy?: string;
}

export interface LessonView {
  id: string;
  goals: string[];
  answers: number;
  right: number;
  start: Action[];
  solution: Action[];
}

export interface MistakeView {
  name: string;
  actions: Action[];
  question: number;
}

/** What a part of the examination has besides the fields of a lesson. */
export interface ExamView {
  subject: string;
  taught_by: string; // a lesson
}
