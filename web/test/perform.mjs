// Carries out actions of API.md by clicks, as a user would: it opens the dialog of the verb, sets each
// field that the action names, and submits.
import assert from 'node:assert/strict';
import { at } from './harness.mjs';

/** Carries out an action. If the device refuses it, the dialog is closed and the refusal's text returned. */
export async function perform(page, action) {
  const { host, name } = action;
  const simple = forms[action.do];
  if (action.do === 'step') return clock(page, 'step');
  if (action.do === 'run') return run(page, action);
  if (action.packet !== undefined) return packet(page, action);
  if (action.do === 'selective_repeat') return tick(page, `${host}.selective_repeat`, action.on ?? false);
  if (['close', 'poll_cq', 'query_qp', 'get_cq_event', 'ack_cq_events'].includes(action.do)) return press(page, `${host}.${name}.${action.do}`);
  if (action.do === 'modify_qp') await modify(page, action);
  else if (action.do === 'post_send' || action.do === 'post_recv') await post(page, action);
  else if (action.do === 'exchange') await exchange(page, action);
  else {
    assert.ok(simple, `no form for ${action.do}`);
    const makes = /^(alloc|create|reg)_/.test(action.do);
    await press(page, makes ? `${host}.${action.do}` : `${host}.${name}.${action.do}`);
    await simple(page, action);
  }
  return submit(page);
}

/** Presses the dialog's button. Returns the refusal's text, after closing the dialog, or ''. */
export async function submit(page) {
  await press(page, 'submit');
  const problem = at(page, 'problem');
  if (await problem.count()) throw new Error(`the dialog says: ${await problem.innerText()}`);
  const refusal = at(page, 'refusal');
  const text = (await refusal.count()) ? await refusal.innerText() : '';
  if (text) await press(page, 'cancel');
  return text;
}

export async function press(page, name) {
  await at(page, name).click();
  return '';
}

/** Presses a button of the clock, and predicts nothing. */
export async function clock(page, name) {
  await press(page, name);
  return (await at(page, 'held').count()) ? press(page, 'held.decline') : '';
}

/** Ticks the bits that a move requires: by a press on the bench, one by one in a lesson. */
export async function fill(page) {
  if (await at(page, 'fill').count()) return press(page, 'fill');
  for (const box of await page.locator('fieldset.bits').first().locator('[data-test^="bit."]').all()) await box.check();
}

/** Presses the button for one moment on, n times, at the speed of the page's own frames. */
export const forward = (page, n) => page.evaluate(async (times) => {
  for (let i = 0; i < times; i++) {
    document.querySelector('[data-test=forward]').click();
    await new Promise(requestAnimationFrame);
  }
}, n);

const hex = (n) => String(n);
const set = async (page, name, value) => value !== undefined && at(page, name).fill(hex(value));
const choose = async (page, name, value) => value !== undefined && at(page, name).selectOption(String(value));
const tick = async (page, name, on) => on !== undefined && at(page, name).setChecked(on);
async function many(page, name, values) {
  if (values === undefined) return;
  // All boxes are read at once, and only those that differ are clicked.
  const boxes = await page.locator(`input[data-test^="${name}."]`).evaluateAll((all) => all.map((box) => {
    const folded = box.closest('details');
    if (folded) folded.open = true;
    return [box.dataset.test, box.checked];
  }));
  for (const [test, on] of boxes) {
    const wanted = values.includes(test.slice(name.length + 1));
    if (on !== wanted) await tick(page, test, wanted);
  }
}

const forms = {
  alloc_pd: (page, a) => set(page, 'f.name', a.name),
  create_cq: async (page, a) => { await set(page, 'f.name', a.name); await set(page, 'f.depth', a.depth); },
  reg_mr: async (page, a) => {
    await set(page, 'f.name', a.name);
    await choose(page, 'f.pd', a.pd);
    await set(page, 'f.length', a.length);
    await many(page, 'f.access', a.access ?? []);
  },
  create_srq: async (page, a) => {
    await set(page, 'f.name', a.name);
    await choose(page, 'f.pd', a.pd);
    await set(page, 'f.max_wr', a.max_wr);
    await set(page, 'f.max_sge', a.max_sge);
  },
  create_qp: async (page, a) => {
    await set(page, 'f.name', a.name);
    for (const field of ['type', 'pd', 'send_cq', 'recv_cq', 'srq']) await choose(page, `f.${field}`, a[field]);
    await tick(page, 'f.sig_all', a.sig_all ?? false);
    for (const [key, value] of Object.entries(a.cap ?? {})) await set(page, `f.${key}`, value);
  },
  create_ah: async (page, a) => {
    await set(page, 'f.name', a.name);
    await choose(page, 'f.pd', a.pd);
    await choose(page, 'f.gid_from', a.av.gid === 'peer' ? 'peer' : 'own');
    if (a.av.gid === 'peer') await choose(page, 'f.peer', a.peer);
    else await set(page, 'f.gid', a.av.gid);
  },
  alloc_mw: async (page, a) => {
    await set(page, 'f.name', a.name);
    await choose(page, 'f.pd', a.pd);
    await choose(page, 'f.type', a.type);
  },
  write: async (page, a) => {
    await set(page, 'f.offset', a.offset ?? 0);
    await set(page, 'f.text', a.text ?? '');
    await set(page, 'f.hex', a.hex);
  },
  bind_mw: async (page, a) => {
    for (const field of ['mw', 'mr']) await choose(page, `f.${field}`, a[field]);
    for (const field of ['offset', 'length', 'id']) await set(page, `f.${field}`, a[field]);
    await many(page, 'f.access', a.access ?? []);
    await many(page, 'f.flags', a.flags ?? []);
  },
  modify_srq: async (page, a) => {
    await set(page, 'f.limit', a.limit ?? '');
    await set(page, 'f.max_wr', a.max_wr ?? '');
  },
  arm_cq: (page, a) => tick(page, 'f.solicited', a.solicited ?? false),
};

async function run(page, action) {
  if (action.ns === undefined) return clock(page, 'run');
  await press(page, 'run.more');
  await set(page, 'f.ns', action.ns);
  return submit(page);
}

async function packet(page, action) {
  await at(page, `packet.${action.packet}`).locator('.touch').click(); // its line: the middle of its box may be empty
  if (action.do === 'delay') await set(page, 'packet.ns', action.ns);
  if (action.do === 'corrupt') {
    // The page counts from the beginning of a header.
    const starts = await at(page, 'packet.header').locator('option').evaluateAll((all) => all.map((o) => Number(o.value)));
    const start = starts.filter((s) => s <= action.bit).at(-1);
    await choose(page, 'packet.header', start);
    await set(page, 'packet.bit', action.bit - start);
  }
  return press(page, `packet.${action.do}`);
}

async function exchange(page, a) {
  await press(page, `${a.host}.${a.name ?? a.mr}.exchange`);
  await choose(page, 'f.name', a.name ?? '');
  await choose(page, 'f.mr', a.mr ?? '');
  if (a.name) await set(page, 'f.psn', a.psn);
  if (a.mr) await tick(page, 'f.lkey', a.lkey ?? false);
}

async function modify(page, a) {
  await press(page, `${a.host}.${a.name}.to.${a.attr.STATE ?? 'INIT'}`);
  const forbidden = page.locator('details.bits');
  if (!(await forbidden.getAttribute('open') !== null)) await press(page, 'forbidden');
  await many(page, 'bit', a.mask);
  // With one queue pair told there is nothing to choose.
  if (await at(page, 'f.peer').count()) await choose(page, 'f.peer', a.peer);
  for (const [bit, value] of Object.entries(a.attr)) {
    if (bit === 'STATE' || !a.mask.includes(bit)) continue;
    const source = at(page, `source.${bit}`);
    const given = bit === 'AV' && typeof value === 'object' ? value.gid : value;
    const peer = given === 'peer' || (bit === 'SQ_PSN' && given === 'own');
    if (await source.count()) await source.selectOption(peer ? 'peer' : 'own');
    if (Array.isArray(given)) await many(page, `value.${bit}`, given);
    else if (typeof given === 'boolean') await tick(page, `value.${bit}`, given);
    else if (!peer && (bit === 'PATH_MTU' || bit === 'CUR_STATE')) await choose(page, `value.${bit}`, given);
    else if (!peer) await set(page, `value.${bit}`, given);
    if (bit === 'AV' && typeof value === 'object') await path(page, value);
  }
}

async function path(page, av) {
  const fields = Object.entries(av).filter(([key]) => key !== 'gid');
  if (fields.length === 0) return;
  await press(page, 'av.more');
  for (const [key, value] of fields) {
    if (key === 'local') await tick(page, 'value.AV.local', value);
    else await set(page, `value.AV.${key}`, value);
  }
}

async function post(page, a) {
  await press(page, `${a.host}.${a.name}.${a.do}`);
  for (const [n, wr] of a.wrs.entries()) {
    if (n > 0) await press(page, 'wr.add');
    await request(page, (name) => `wr.${n}.${name}`, wr, a.do === 'post_recv');
  }
}

async function request(page, field, wr, receive) {
  await set(page, field('id'), wr.id ?? 0);
  if (!receive) await choose(page, field('opcode'), wr.opcode);
  const elements = wr.sgl ?? [];
  if (await at(page, field('sge.add')).count()) {
    while (await at(page, field(`sge.${elements.length}.mr`)).count()) await press(page, field(`sge.${elements.length}.remove`));
    while (!(elements.length === 0 || (await at(page, field(`sge.${elements.length - 1}.mr`)).count()))) await press(page, field('sge.add'));
  }
  for (const [i, e] of elements.entries()) {
    await choose(page, field(`sge.${i}.mr`), e.mr);
    await set(page, field(`sge.${i}.offset`), e.offset ?? 0);
    await set(page, field(`sge.${i}.length`), e.length);
    await set(page, field(`sge.${i}.lkey`), e.lkey);
  }
  if (receive) return;
  await set(page, field('imm'), wr.imm);
  const remote = wr.remote ?? wr.invalidate;
  if (remote) {
    await choose(page, field('remote'), remote.mr ?? '');
    for (const key of remote.mr ? ['offset', 'rkey_add'] : ['addr', 'rkey']) await set(page, field(key), remote[key] ?? (key === 'offset' ? 0 : undefined));
  }
  await set(page, field('compare_add'), wr.compare_add);
  await set(page, field('swap'), wr.swap);
  await choose(page, field('mw'), wr.mw);
  if (wr.bind) {
    await choose(page, field('bind_mr'), wr.bind.mr);
    await set(page, field('bind_offset'), wr.bind.offset ?? 0);
    await set(page, field('bind_length'), wr.bind.length);
    await many(page, field('bind_access'), wr.bind.access ?? []);
  }
  if (wr.flush) {
    await choose(page, field('flush_type'), wr.flush.type);
    await set(page, field('flush_length'), wr.flush.length);
  }
  await choose(page, field('ah'), wr.ah);
  await choose(page, field('remote_qp'), wr.remote_qp);
  await set(page, field('remote_qpn'), wr.remote_qpn);
  await set(page, field('remote_qkey'), wr.remote_qkey);
  await many(page, field('flags'), wr.flags ?? []);
}
