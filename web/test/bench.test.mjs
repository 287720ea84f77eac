// The free bench: a connection by clicks, and by the keyboard alone; a refusal at its bit; undo and redo;
// links and files; the exported programs.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { at, open } from './harness.mjs';
import { keyboard } from './keyboard.mjs';
import { clock, perform, press, submit } from './perform.mjs';

const pd = { do: 'alloc_pd', name: 'pd' };
const objects = [
  pd,
  { do: 'reg_mr', name: 'buf', pd: 'pd', length: 256, access: ['LOCAL_WRITE', 'REMOTE_WRITE'] },
  { do: 'create_cq', name: 'cq', depth: 32 },
  { do: 'create_qp', name: 'qp', pd: 'pd', type: 'RC', send_cq: 'cq', recv_cq: 'cq', sig_all: true },
];
const receive = { do: 'post_recv', host: 'server', name: 'qp', wrs: [{ id: 1, sgl: [{ mr: 'buf', length: 64 }] }] };
const send = { do: 'post_send', host: 'client', name: 'qp', wrs: [{ id: 1, opcode: 'SEND', sgl: [{ mr: 'buf', length: 12 }] }] };

async function move(page, host, to) {
  await press(page, `${host}.qp.to.${to}`);
  await press(page, 'fill');
  assert.equal(await submit(page), '');
}

async function connect(page) {
  for (const host of ['client', 'server']) for (const action of objects) await perform(page, { ...action, host });
  for (const host of ['client', 'server']) await move(page, host, 'INIT');
  await perform(page, receive);
  for (const host of ['client', 'server']) await perform(page, { do: 'exchange', host, name: 'qp', mr: 'buf' });
  for (const to of ['RTR', 'RTS']) for (const host of ['client', 'server']) await move(page, host, to);
}

/** What the engine says of the page's session, which is the newest. */
const ask = (page, call, ...args) => page.evaluate(([name, more]) => {
  for (let id = 64; id >= 0; id--) {
    const reply = JSON.parse(rawverbs[name](id, ...more));
    if (reply.error === undefined) return reply.value;
  }
  return undefined;
}, [call, args]);
const actions = async (page) => (await ask(page, 'file')).actions;

test('a SEND by clicks, from alloc_pd to the completion', async (t) => {
  const page = await open(t);
  await connect(page);
  assert.equal(await at(page, 'client.qp').getAttribute('data-state'), 'RTS');
  await perform(page, { do: 'write', host: 'client', name: 'buf', text: 'Hello, RDMA!' });
  await perform(page, send);
  assert.equal(await at(page, 'packet.1').getAttribute('data-fate'), 'in flight');
  await clock(page, 'run');
  assert.equal(await at(page, 'packet.1').getAttribute('data-fate'), 'delivered');
  assert.match(await at(page, 'server.buf').innerText(), /Hello, R/);
  for (const host of ['client', 'server']) {
    await press(page, `${host}.cq.poll_cq`);
    assert.match(await at(page, 'result').innerText(), /SUCCESS/);
  }
});

test('the same by the keyboard alone', async (t) => {
  const page = await open(t);
  const { use, call, move: moveTo } = keyboard(page);
  for (const host of ['client', 'server']) for (const verb of ['alloc_pd', 'reg_mr', 'create_cq', 'create_qp']) await call(`${host}.${verb}`);
  for (const host of ['client', 'server']) await moveTo(host, 'INIT');
  await call('server.qp.post_recv');
  for (const host of ['client', 'server']) await call(`${host}.qp.exchange`);
  for (const to of ['RTR', 'RTS']) for (const host of ['client', 'server']) await moveTo(host, to);
  await call('client.qp.post_send');
  await page.keyboard.press('r');
  await use('client.cq.poll_cq');
  assert.match(await at(page, 'result').innerText(), /SUCCESS/);
});

test('the title of a move stays in view, and the usual rights come first', async (t) => {
  const page = await open(t);
  await press(page, 'bench');
  await press(page, 'pair');
  await press(page, 'client.qp.to.SQD');
  await press(page, 'forbidden');
  await at(page, 'bit.DEST_QPN').check();
  await press(page, 'submit');
  await at(page, 'bit-error.DEST_QPN').waitFor();
  const inside = (selector) => page.locator(selector).evaluate((e) => { const { top, bottom } = e.getBoundingClientRect(); return top >= 0 && bottom <= innerHeight; });
  assert.ok(await inside('#sheet-title'));
  assert.ok(await inside('[data-test="bit-error.DEST_QPN"]'));
  await press(page, 'cancel');
  assert.match(await page.locator('.host.client .object.mr').innerText(), /lkey\s+(0x\w+)\s+rkey\s+\1[^]*one number for both/);
  await press(page, 'client.reg_mr');
  const rights = await page.locator('[data-test^="f.access."]').evaluateAll((all) => all.map((box) => box.dataset.test.slice(9)));
  assert.deepEqual(rights.slice(0, 4), ['LOCAL_WRITE', 'REMOTE_READ', 'REMOTE_WRITE', 'REMOTE_ATOMIC']);
});

test('a completion leads to its packet, and names the check of its own device; receives get bytes of their own', async (t) => {
  const page = await open(t);
  await press(page, 'bench');
  await press(page, 'pair');
  for (const offset of ['0', '64']) {
    await press(page, 'server.qp.post_recv');
    assert.equal(await at(page, 'wr.0.sge.0.offset').inputValue(), offset);
    await press(page, 'submit');
  }
  await perform(page, { do: 'post_send', host: 'client', name: 'qp', wrs: [{ id: 1, opcode: 'SEND', sgl: [{ mr: 'buf', length: 8 }] }] });
  await clock(page, 'run');
  await press(page, 'client.cq.poll_cq');
  await press(page, 'result.packet');
  assert.match(await page.locator('#dock-panel').innerText(), /SEND[ _]ONLY/i);
  await perform(page, { do: 'post_send', host: 'client', name: 'qp', wrs: [{ id: 3, opcode: 'SEND', sgl: [{ mr: 'buf', length: 8 }] }] });
  await perform(page, { do: 'duplicate', packet: 3 }); // the copy is no packet of the client's device
  await clock(page, 'run');
  await press(page, 'client.cq.poll_cq');
  assert.match(await at(page, 'result.packet').innerText(), /3$/);
  await perform(page, { do: 'post_send', host: 'client', name: 'qp', wrs: [{ id: 2, opcode: 'SEND', sgl: [{ mr: 'buf', offset: 250, length: 8 }] }] });
  await clock(page, 'run');
  await press(page, 'client.cq.poll_cq');
  assert.match(await at(page, 'check').innerText(), /Its own device refused it: outside of region buf/);
});

test('in Chinese, a refused call is in Chinese, with its way out', async (t) => {
  const page = await open(t, { lang: 'zh-CN', width: 1000, height: 800 });
  await press(page, 'bench');
  await press(page, 'pair');
  for (const [action, said] of [
    [{ do: 'reg_mr', host: 'client', name: 'more', pd: 'pd', length: 256, access: ['REMOTE_WRITE'] }, /ibv_reg_mr EINVAL：256 字节的内存区域，有 REMOTE_WRITE 却没有 LOCAL_WRITE/],
    [{ do: 'reg_mr', host: 'client', name: 'more', pd: 'pd', length: 0, access: ['LOCAL_WRITE'] }, /ibv_reg_mr EINVAL：长度是 0 字节/],
  ]) {
    await perform(page, action);
    assert.match(await at(page, 'last-note').innerText(), said);
    await press(page, 'last-note.more');
    assert.doesNotMatch(await at(page, 'result.refused').innerText(), /英文/);
    await press(page, 'pane.hosts');
  }
});

test('an illegal transition is refused at its bits', async (t) => {
  const page = await open(t);
  for (const action of objects) await perform(page, { ...action, host: 'client' });
  await press(page, 'client.qp.to.INIT');
  await at(page, 'bit.PORT').check();
  await press(page, 'forbidden');
  await at(page, 'bit.TIMEOUT').check();
  await press(page, 'submit');
  const refusal = await at(page, 'refusal').innerText();
  assert.match(refusal, /EINVAL/);
  assert.match(refusal, /lacks 2 bits[^]*has 1 bit[^]*marks below/);
  assert.doesNotMatch(refusal, /PKEY_INDEX|TIMEOUT/);
  assert.match(await at(page, 'bit-error.ACCESS_FLAGS').innerText(), /Missing/);
  assert.match(await at(page, 'bit-error.PKEY_INDEX').innerText(), /Missing/);
  assert.match(await at(page, 'bit-error.TIMEOUT').innerText(), /Forbidden/);
  assert.equal(await at(page, 'bit-error.PORT').count(), 0);
  // A mark goes when its bit is put right, and so does the box with the last of them.
  await at(page, 'bit.PKEY_INDEX').check();
  assert.equal(await at(page, 'bit-error.PKEY_INDEX').count(), 0);
  assert.match(await at(page, 'refusal').innerText(), /lacks 1 bit /);
  await at(page, 'bit.ACCESS_FLAGS').check();
  await at(page, 'bit.TIMEOUT').uncheck();
  assert.equal(await at(page, 'refusal').count(), 0);
  await press(page, 'cancel');
  assert.deepEqual(await page.locator('[data-test=result] .wrong-bits code').allInnerTexts(), ['+ACCESS_FLAGS', '+PKEY_INDEX', '−TIMEOUT']);
  // RTS cannot be reached from RESET at all; the state can be pressed nevertheless.
  assert.equal(await at(page, 'client.qp.to.RTS').getAttribute('data-legal'), 'false');
  await press(page, 'client.qp.to.RTS');
  await press(page, 'submit');
  assert.match(await at(page, 'refusal').innerText(), /no such transition/);
  await press(page, 'cancel');
  assert.equal(await at(page, 'client.qp').getAttribute('data-state'), 'RESET');
});

/** How many pixels of an element lie outside of its host's column. */
const hidden = (page, selector) => page.evaluate((of) => {
  const element = document.querySelector(of);
  const [inner, outer] = [element.getBoundingClientRect(), element.closest('.host').getBoundingClientRect()];
  return Math.max(0, inner.bottom - outer.bottom) + Math.max(0, outer.top - inner.top);
}, selector);

test('what an action is about is in view at 1400 × 900', async (t) => {
  const page = await open(t, { hash: '#lesson=loss' });
  assert.equal(await hidden(page, '.host.client .object.mr .facts div:nth-child(2)'), 0, 'the region’s keys at the start');
  await perform(page, send);
  assert.ok(await hidden(page, '.host.client .object.mr') > 0, 'the request needs the room');
  await perform(page, { do: 'write', host: 'client', name: 'buf', text: 'Hello' });
  assert.equal(await hidden(page, '.host.client .object.mr'), 0, 'the region after a write');
  await press(page, 'client.cq.poll_cq');
  assert.equal(await hidden(page, '.host.client .object.cq'), 0, 'the queue after a poll');
  await perform(page, { do: 'exchange', host: 'server', name: 'qp' });
  assert.equal(await hidden(page, '#client-told'), 0, 'what the client was told');
});

test('a dropped packet is sent again', async (t) => {
  const page = await open(t, { hash: '#lesson=loss' });
  await perform(page, receive);
  await perform(page, send);
  await perform(page, { do: 'drop', packet: 1 });
  assert.equal(await at(page, 'packet.1').getAttribute('data-fate'), 'dropped');
  await clock(page, 'step');
  assert.match(await at(page, 'packet.2').getAttribute('aria-label'), /sent again/);
  assert.match(await at(page, 'client.qp').innerText(), /1 retry left/);
  await clock(page, 'run');
  assert.equal(await at(page, 'packet.2').getAttribute('data-fate'), 'delivered');
});

test('undo, redo and the past', async (t) => {
  const page = await open(t);
  for (const action of objects) await perform(page, { ...action, host: 'client' });
  await press(page, 'undo');
  assert.equal(await at(page, 'client.qp').count(), 0);
  await press(page, 'redo');
  assert.equal(await at(page, 'client.qp').count(), 1);
  await at(page, 'scrub').fill('1');
  assert.equal(await at(page, 'client.buf').count(), 0);
  assert.equal((await actions(page)).length, 4);
  await press(page, 'forward');
  assert.equal(await at(page, 'client.buf').count(), 1);
  await press(page, 'play');
  await at(page, 'client.qp').waitFor();
  await press(page, 'back');
  // An action in the past replaces what came later.
  await perform(page, { do: 'alloc_pd', host: 'server', name: 'pd' });
  assert.deepEqual((await actions(page)).map((a) => a.do), ['alloc_pd', 'reg_mr', 'create_cq', 'alloc_pd']);
});

test('a field that is no number is an error, not 0', async (t) => {
  const page = await open(t);
  await perform(page, { ...pd, host: 'client' });
  for (const text of ['-5', 'abc']) {
    await press(page, 'client.reg_mr');
    await at(page, 'f.length').fill(text);
    await press(page, 'submit');
    assert.match(await at(page, 'problem').innerText(), /Length.*not a number/);
    assert.equal(await at(page, 'refusal').count(), 0);
    await press(page, 'cancel');
  }
  assert.equal((await actions(page)).length, 1);
  await perform(page, { ...objects[1], host: 'client' });
  await perform(page, { do: 'write', host: 'client', name: 'buf', hex: '0x41 42' });
  assert.match(await at(page, 'client.buf').innerText(), /AB/);
  for (const action of objects.slice(2)) await perform(page, { ...action, host: 'client' });
  await move(page, 'client', 'INIT');
  await press(page, 'client.qp.to.RTR');
  await press(page, 'fill');
  await at(page, 'value.MIN_RNR_TIMER').fill('99');
  assert.match(await page.locator('.bit', { has: at(page, 'value.MIN_RNR_TIMER') }).innerText(), /above 31/);
});

test('a packet is read from its BTH on', async (t) => {
  const page = await open(t, { hash: '#lesson=loss' });
  await perform(page, receive);
  await perform(page, send);
  await at(page, 'packet.1').locator('.touch').click();
  const first = page.locator('.headers .cell:visible').first();
  assert.equal(await first.getAttribute('data-test'), 'field.BTH.OpCode');
  assert.match(await first.innerText(), /0x04/);
  await first.click();
  assert.match(await page.locator('.field-about').innerText(), /bits 0–7 · 0x04/);
  // The bit to invert counts in the same header.
  await press(page, 'field.BTH.DestQP');
  assert.equal(await at(page, 'packet.bit').inputValue(), '40');
  await press(page, 'packet.corrupt');
  assert.equal((await actions(page)).at(-1).bit, 8 * 28 + 40);
  assert.match(await at(page, 'field.BTH.DestQP').getAttribute('class'), /wrong/);
  // What happens to the packet leaves the reader at it.
  await press(page, 'packet.drop');
  await clock(page, 'step');
  assert.equal(await at(page, 'detail.packet').getAttribute('aria-selected'), 'true');
  assert.equal(await at(page, 'packet.1').getAttribute('data-fate'), 'dropped');
});

test('a link that is copied from disk says where it opens', async (t) => {
  const page = await open(t);
  await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: { writeText: (text) => ((window.copied = text), Promise.resolve()) } }));
  await perform(page, { ...pd, host: 'client' });
  await press(page, 'session');
  await press(page, 'session.link');
  await page.waitForFunction(() => window.copied?.startsWith('file:'));
  await page.getByText('opens only here').waitFor();
});

test('a link and a file bring the session back', async (t) => {
  const page = await open(t);
  for (const action of objects) await perform(page, { ...action, host: 'client' });
  const hash = `#${await ask(page, 'link')}`;
  await page.waitForFunction((want) => location.hash === want, hash);
  const want = await actions(page);
  const other = await open(t, { hash });
  assert.deepEqual(await actions(other), want);
  assert.equal(await at(other, 'client.qp').count(), 1);

  await press(page, 'session');
  const [download] = await Promise.all([page.waitForEvent('download'), press(page, 'session.save')]);
  const file = await download.path();
  assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')).actions, want);
  const third = await open(t);
  await press(third, 'session');
  await at(third, 'session.file').setInputFiles(file);
  await at(third, 'client.qp').waitFor();
  assert.deepEqual(await actions(third), want);
});

test('the exported programs are the engine’s', async (t) => {
  const page = await open(t, { hash: '#lesson=send' });
  for (const language of ['c', 'go']) {
    await press(page, 'session');
    await press(page, `export.${language}`);
    const shown = await at(page, 'program').textContent();
    assert.ok(shown.length > 1000);
    assert.equal(shown, await ask(page, 'program', language));
    await press(page, 'cancel');
  }
});

test('the graph has each packet at its PSN', async (t) => {
  const page = await open(t, { hash: '#lesson=loss' });
  await perform(page, receive);
  await perform(page, send);
  await perform(page, { do: 'drop', packet: 1 });
  await clock(page, 'step');
  await clock(page, 'run');
  const { packets } = await ask(page, 'snapshot', 0);
  await press(page, 'detail.graph');
  const graph = at(page, 'graph.client qp');
  assert.equal(Number(await graph.getAttribute('data-dots')), packets.length);
  const dots = async (kind) => ((await graph.locator(`path.${kind}`).getAttribute('d')).match(/M/g) ?? []).length;
  assert.equal(await dots('again'), packets.filter((p) => p.why.again).length);
  assert.equal(await dots('ack'), packets.filter((p) => p.why.kind === 'ack').length);
  assert.ok(await dots('lost') > 0);
  assert.match(await graph.textContent(), new RegExp(`0x${packets[0].psn.toString(16).padStart(6, '0')}`));
  // A press selects the nearest packet.
  const [, x, y] = /M([\d.]+),([\d.]+)/.exec(await graph.locator('path.again').getAttribute('d'));
  await graph.click({ position: { x: Number(x), y: Number(y) } });
  assert.match(await at(page, 'packet.2').getAttribute('class'), /selected/);
});

test('a gap in the graph: what is dropped has a cross, and what is sent again is over its NAK', async (t) => {
  const page = await open(t, { hash: '#lesson=gap' });
  const lose = async () => {
    await perform(page, { do: 'post_send', host: 'client', name: 'qp', wrs: [{ id: 2, opcode: 'SEND', flags: ['SIGNALED'], sgl: [{ mr: 'buf', offset: 0, length: 1280 }] }] });
    const { packets } = await ask(page, 'snapshot', 0);
    await perform(page, { do: 'drop', packet: packets.filter((p) => p.why.count === 5).at(-3).id });
    await clock(page, 'run');
    await press(page, 'detail.graph');
  };
  const graph = at(page, 'graph.client qp');
  const dots = async (kind) => [...(await graph.locator(`path.${kind}`).getAttribute('d')).matchAll(/M([\d.]+)[ ,]([\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
  await lose();
  assert.deepEqual([(await dots('lost')).length, (await dots('again')).length], [3, 3]); // the lost packet, and the two behind it
  const top = ([x, y]) => graph.evaluate((svg, [x, y]) => { const { left, top } = svg.getBoundingClientRect(); return document.elementFromPoint(left + x, top + y).getAttribute('class'); }, [x, y]);
  await graph.scrollIntoViewIfNeeded();
  for (const dot of await dots('again')) assert.equal(await top(dot), 'again');
  await perform(page, { do: 'selective_repeat', host: 'client', on: true });
  await perform(page, { do: 'selective_repeat', host: 'server', on: true });
  await lose();
  assert.deepEqual([(await dots('lost')).length, (await dots('again')).length], [4, 4]); // the two behind it are kept
});

test('the wire: times after a break, marks in whole, an rkey once', async (t) => {
  const page = await open(t, { hash: '#mistake=lost-packet' });
  while (!(await at(page, 'forward').isDisabled())) await press(page, 'forward');
  const texts = (selector) => page.locator(`.wire ${selector}`).evaluateAll((all) => all.map((e) => e.textContent.trim()));
  const times = await texts('.times text');
  assert.deepEqual(times.filter((text, i) => text === times[i - 1]), []);
  assert.ok(times.includes('491.6 ms') && times.at(-1) === '+40 µs', times.join());
  assert.deepEqual((await texts('.mark text')).filter((text) => text.includes('…')), []);
  const write = (id) => ({ do: 'post_send', host: 'client', name: 'qp', wrs: [{ id, opcode: 'RDMA_WRITE', flags: ['SIGNALED'], sgl: [{ mr: 'buf', length: 8 }], remote: { mr: 'buf', offset: 0 } }] });
  const bench = await open(t);
  await press(bench, 'bench');
  await press(bench, 'pair');
  for (const id of [1, 2, 3]) await perform(bench, write(id));
  const labels = await bench.locator('.wire .message').evaluateAll((all) => all.map((e) => e.textContent));
  assert.equal(labels.filter((text) => text.includes('rkey')).length, 1);
});

test('a session begins at the top of both hosts', async (t) => {
  const page = await open(t);
  for (const lesson of ['send', 'gap', 'events', 'signalling']) {
    await press(page, 'tab.lessons');
    await press(page, `lesson.${lesson}`);
    await page.evaluate(() => new Promise((done) => setTimeout(done, 100))); // effects come behind a frame
    assert.deepEqual(await page.locator('.host').evaluateAll((all) => all.map((host) => host.scrollTop)), [0, 0], lesson);
  }
});

test('the bench is there again after a lesson', async (t) => {
  const page = await open(t);
  await press(page, 'bench');
  await press(page, 'pair');
  const { actions } = await ask(page, 'file');
  await press(page, 'tab.lessons');
  await press(page, 'lesson.send');
  await press(page, 'tab.exam');
  await press(page, 'exam.start'); // a question: an empty session
  await press(page, 'bench');
  assert.deepEqual((await ask(page, 'file')).actions, actions);
  await press(page, 'bench');
  assert.deepEqual((await ask(page, 'file')).actions, actions);
  await press(page, 'session');
  await press(page, 'session.new');
  assert.deepEqual((await ask(page, 'file')).actions, []);
});

test('what is drawn is also a table', async (t) => {
  const page = await open(t, { hash: '#lesson=loss' });
  await perform(page, receive);
  await perform(page, send);
  await clock(page, 'run');
  const snapshot = await ask(page, 'snapshot', 0);
  await press(page, 'detail.packets');
  assert.equal(await page.locator('.list tbody tr').count(), snapshot.packets_total);
  assert.equal(await page.locator('[data-test^="packet."][data-fate]').count(), snapshot.packets_total);
  await press(page, 'detail.events');
  assert.equal(await page.locator('.list tbody tr').count(), snapshot.events_total);
});

test('a packet that the receiver drops is not delivered', async (t) => {
  const page = await open(t, { hash: '#lesson=loss' });
  await perform(page, receive);
  await perform(page, send);
  await perform(page, { do: 'corrupt', packet: 1, bit: 8 * 42 });
  await clock(page, 'step');
  await at(page, 'packet.1').locator('.touch').click();
  const facts = await page.locator('.packet-summary .facts').innerText();
  assert.match(facts, /fate\s+arrived, and was dropped/);
  assert.doesNotMatch(facts, /delivered/);
  const icrc = await at(page, 'field.ICRC.ICRC').locator('.cell-value').innerText();
  assert.match(facts, new RegExp(`ICRC\\s+${icrc} is wrong`));
  await press(page, 'detail.packets');
  assert.match(await page.locator('.list tbody tr').first().innerText(), /arrived, and was dropped/);
  await press(page, 'detail.graph');
  const dots = (kind) => at(page, 'graph.client qp').locator(`path.${kind}`).getAttribute('d').then((d) => [...d.matchAll(/M/g)].length);
  assert.deepEqual([await dots('request'), await dots('lost')], [1, 1]);
});

test('the PSNs of a queue pair say what is so', async (t) => {
  const page = await open(t, { hash: '#lesson=loss' });
  const psns = (host, name) => at(page, `${host}.${name}`).locator('.psn dl').innerText().then((text) => text.replaceAll(/\s+/g, ' '));
  assert.match(await psns('client', 'qp'), /oldest unacked none next 0x000100 in flight 0 of at most 4/);
  await at(page, 'client.qp').locator('.psn summary').click();
  assert.match(await psns('client', 'qp'), /Until the peer has answered once, 4 packets/);
  await perform(page, send);
  assert.match(await psns('client', 'qp'), /oldest unacked 0x000100 next 0x000101 in flight 1/);
  for (let id = 1; id <= 3; id++) {
    await perform(page, { do: 'drop', packet: id });
    await clock(page, 'step');
  }
  assert.equal(await at(page, 'client.qp').getAttribute('data-state'), 'ERR');
  assert.match(await psns('client', 'qp'), /^next 0x000101 expects 0x000200$/);
  await page.goto(page.url().split('#')[0] + '#lesson=datagrams');
  await perform(page, { ...send, name: 'uc' });
  assert.match(await psns('client', 'uc'), /^next 0x000101 expects 0x000200$/);
});

test('a query shows the attributes', async (t) => {
  const page = await open(t, { hash: '#lesson=loss' });
  await press(page, 'client.qp.query_qp');
  const { hosts } = await ask(page, 'snapshot', 0);
  const want = hosts[0].objects.find((o) => o.qp).qp.attrs.map((a) => `${a.field} ${a.text}`.replace('4.194304ms', '4.194 ms').replace('640µs', '640 µs')); // as the page writes times
  const shown = await at(page, 'result.attrs').locator('div').evaluateAll((all) => all.map((row) => [...row.children].map((part) => part.textContent).join(' ')));
  assert.ok(want.length > 10);
  assert.deepEqual(shown, want);
});

test('a request without an answer names the packets that did not get through', async (t) => {
  const page = await open(t, { hash: '#lesson=exam-silent' });
  await press(page, 'detail.result');
  assert.match(await at(page, 'lost').innerText(), /#1 .*#2/);
});
