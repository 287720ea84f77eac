// What a learner reads: the dialogs' first values, the picture, the ladder, and the guide's way from lesson to lesson.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { at, open } from './harness.mjs';
import { clock, fill, forward, perform, press, submit } from './perform.mjs';

const post = (wr, name = 'qp', host = 'client') => ({ do: 'post_send', host, name, wrs: [{ id: 1, sgl: [{ mr: 'buf', length: 8 }], ...wr }] });
const wrongKey = post({ opcode: 'RDMA_WRITE', remote: { mr: 'buf', rkey_add: 256 } });
const wire = async (page) => (await page.locator('.wire text, .wire title').allTextContents()).join('\n');

/** Opens a lesson and plays the first n actions of its solution. */
async function play(page, id, n) {
  await page.goto(page.url().split('#')[0] + `#lesson=${id}`);
  await at(page, 'lesson.solution').click();
  await forward(page, n);
}

/** How many actions the solution of a lesson has. */
const length = (page, id) => page.evaluate((of) => JSON.parse(rawverbs.tables()).value.lessons.find((l) => l.id === of).solution.length, id);

test('SQ_PSN begins as this end’s choice, until a PSN was told', async (t) => {
  const page = await open(t, { hash: '#lesson=datagrams' });
  for (const to of ['INIT', 'RTR', 'RTS']) {
    await press(page, `client.ud.to.${to}`);
    await fill(page);
    if (to === 'RTS') assert.equal(await at(page, 'source.SQ_PSN').count(), 0);
    assert.equal(await submit(page), '');
  }
  await page.goto(page.url().split('#')[0] + '#lesson=send');
  await press(page, 'client.qp.to.RTS');
  await fill(page);
  assert.equal(await at(page, 'source.SQ_PSN').inputValue(), 'peer');
  assert.equal(await at(page, 'value.SQ_PSN').innerText(), '0x000100');
});

test('the move to RTR takes the peer’s queue pair of the same name', async (t) => {
  const page = await open(t, { hash: '#lesson=srq' });
  for (const name of ['one', 'two']) await perform(page, { do: 'create_qp', host: 'server', name, pd: 'pd', type: 'RC', send_cq: 'cq', recv_cq: 'cq', sig_all: true });
  for (const host of ['client', 'server']) for (const name of ['one', 'two']) await perform(page, { do: 'exchange', host, name });
  for (const host of ['client', 'server']) {
    for (const name of ['one', 'two']) {
      await press(page, `${host}.${name}.to.RTR`);
      assert.equal(await at(page, 'f.peer').inputValue(), name);
      await press(page, 'cancel');
    }
  }
});

test('a refused post is drawn as refused', async (t) => {
  const page = await open(t, { hash: '#lesson=atomics' });
  await perform(page, post({ opcode: 'ATOMIC_FETCH_AND_ADD', remote: { mr: 'buf', offset: 4 } }));
  assert.deepEqual(await page.locator('.wire .mark.bad title').allTextContents(), ['post ATOMIC_FETCH_AND_ADD 1 refused']);
});

test('after an error the ladder, the last call and the guide say what the device did', async (t) => {
  const page = await open(t, { hash: '#lesson=rdma' });
  await perform(page, wrongKey);
  assert.equal(await at(page, 'stuck').count(), 0);
  await clock(page, 'run');
  for (const to of ['INIT', 'RTR', 'RTS', 'SQD']) assert.equal(await at(page, `client.qp.to.${to}`).getAttribute('data-legal'), 'false', to);
  for (const to of ['RESET', 'ERR']) assert.equal(await at(page, `client.qp.to.${to}`).getAttribute('data-legal'), 'true', to);
  const said = await at(page, 'result').innerText();
  assert.match(said, /qp_state is ERR \(the device, after an error\)/);
  assert.doesNotMatch(said, /succeeded|own choice/);
  assert.equal(await at(page, 'stuck').count(), 0); // a poll may be what the goal asks for
  assert.match(await wire(page), /no region or bound window has rkey 0x[^]*NAK remote access error[^]*no region or bound window has rkey 0x/);
  await press(page, 'client.cq.poll_cq');
  assert.match(await at(page, 'check').innerText(), /refused it: no region or bound window has rkey 0x/);
  await visible(page, 'stuck');
  assert.match(await at(page, 'stuck').innerText(), /Client qp and Server qp to ERR.*undo.*Connect both/);
  await press(page, 'client.qp.to.RESET');
  assert.match(await page.locator('#sheet-title').innerText(), /ERR → RESET/);
  assert.equal(await submit(page), '');
  await press(page, 'server.qp.to.RESET');
  assert.equal(await submit(page), '');
  await press(page, 'client.qp.connect');
  for (const host of ['client', 'server']) assert.equal(await at(page, `${host}.qp`).getAttribute('data-state'), 'RTS');
  assert.equal(await at(page, 'stuck').count(), 0);
});

test('each new request has a wr_id of its own', async (t) => {
  const page = await open(t, { hash: '#lesson=rnr' });
  for (const [verb, want] of [['post_send', '1'], ['post_send', '2'], ['post_recv', '3']]) {
    await press(page, `client.qp.${verb}`);
    assert.equal(await at(page, 'wr.0.id').inputValue(), want);
    await submit(page);
    await clock(page, 'run');
  }
});

test('arrows and marks name what they are', async (t) => {
  const page = await open(t);
  await play(page, 'srq', await length(page, 'srq'));
  const two = await wire(page);
  assert.match(two, /one: SEND ONLY 0x[^]*two: SEND ONLY 0x/);
  assert.match(two, /two: RTR→RTS/);
  assert.match(two, /one: post SEND 1/);
  await play(page, 'atomics', 2);
  assert.match(await wire(page), /FETCH ADD 0x000100[^]*rkey 0x[^]*ATOMIC ACKNOWLEDGE 0x000100/);
  assert.doesNotMatch(await wire(page), /qp: /);
  await play(page, 'immediate', 7);
  assert.match(await wire(page), /SEND ONLY WITH IMMEDIATE[^]*imm 7[^]*rkey 0x\w+ · imm 8/);
});

test('in Chinese, events and packets have no English sentence, and no name is cut', async (t) => {
  const page = await open(t, { lang: 'zh-CN' });
  await play(page, 'srq', await length(page, 'srq'));
  const marks = (await page.locator('.wire .mark text').allTextContents()).join('').replaceAll('_ ', '_'); // a name wraps behind an underscore
  assert.match(marks, /IBV_EVENT_SRQ_LIMIT_REACHED/);
  assert.doesNotMatch(marks, /…/);
  for (const lesson of ['rdma', 'loss', 'gap', 'ecn', 'datagrams']) {
    await play(page, lesson, await length(page, lesson));
    await at(page, 'detail.packets').click();
    const reasons = await page.locator('.list td:last-child').allInnerTexts();
    assert.ok(reasons.length > 1, lesson);
    for (const text of reasons) assert.match(text, /^(?!.*（英文）).*[\u4e00-\u9fff]/);
  }
});

test('the picture has no names of counters', async (t) => {
  const page = await open(t);
  await play(page, 'rnr', 3);
  assert.match(await wire(page), /no receive posted/);
  await play(page, 'datagrams', await length(page, 'datagrams'));
  assert.match(await wire(page), /its Q_Key is not 0x11111111/);
  assert.doesNotMatch(await wire(page), /drop_|_naks/);
});

test('PSNs are shown once they are set', async (t) => {
  const page = await open(t, { hash: '#lesson=send' });
  assert.match(await page.locator('.host.client .psn').innerText(), /expects\s+0x000200/);
  assert.doesNotMatch(await page.locator('.host.client .psn').innerText(), /0x000000|in flight/);
  await press(page, 'client.qp.to.RTS');
  await fill(page);
  await submit(page);
  assert.match(await page.locator('.host.client .psn').innerText(), /0x000100[^]*in flight\s+0 of at most \d+/);
});

const top = (page) => page.locator('.guide').evaluate((guide) => guide.scrollTop);

/** Waits until an element lies within the guide's visible part. */
const visible = (page, name) => page.waitForFunction((test) => {
  const [inner, outer] = [`[data-test="${test}"]`, '.guide'].map((selector) => document.querySelector(selector)?.getBoundingClientRect());
  return inner && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
}, name);

async function solve(page, id) {
  const lesson = await page.evaluate((of) => JSON.parse(rawverbs.tables()).value.lessons.find((l) => l.id === of), id);
  await play(page, id, lesson.solution.length);
  await visible(page, 'answer.check');
  await at(page, `answer.${lesson.right}`).check();
  await press(page, 'answer.check');
}

test('a lesson’s end comes into view, and the next one begins at its top', async (t) => {
  const page = await open(t, { hash: '#lesson=objects' });
  await solve(page, 'objects');
  await visible(page, 'lesson.next');
  assert.ok((await top(page)) > 0);
  // A step of the end page shows the moment, and the end page stays.
  await press(page, 'end.step.pd');
  assert.match(await page.locator('.in-past').innerText(), /You see the past/);
  assert.equal(await at(page, 'goal.busy').getAttribute('data-met'), 'false');
  assert.ok(await at(page, 'lesson.end').isVisible());
  await at(page, 'lesson.next').dblclick();
  assert.equal(await at(page, 'goal.early').getAttribute('data-met'), 'false');
  assert.equal(await top(page), 0);
  await page.mouse.wheel(0, 0);
  await at(page, 'lesson.solution').evaluate((button) => button.dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 2 })));
  assert.equal(await at(page, 'redo').isDisabled(), true, 'the second click has loaded the solution');
});

test('the last lesson leads on', async (t) => {
  const page = await open(t, { hash: '#lesson=ecn' });
  await solve(page, 'ecn');
  await visible(page, 'end.mistakes');
  assert.match(await at(page, 'end.progress').innerText(), /: 0 of \d+/); // the page played its solution
  assert.ok(await at(page, 'end.lesson.objects').isVisible());
  await press(page, 'end.mistakes');
  assert.ok(await at(page, 'mistake.bad-rkey').isVisible());
});

test('a ready pair, and a dialog that leaves its host in view', async (t) => {
  const page = await open(t);
  await press(page, 'pair');
  for (const host of ['client', 'server']) assert.equal(await at(page, `${host}.qp`).getAttribute('data-state'), 'RTS');
  assert.equal(await at(page, 'pair').count(), 0);
  assert.equal(await at(page, 'client.qp.connect').count(), 0);
  for (const host of ['client', 'server']) {
    for (const [verb, field] of [['qp.post_send', 'wr.0.id'], ['create_cq', 'f.name'], ['qp.to.SQD', 'bit.STATE']]) {
      await press(page, `${host}.${verb}`);
      await page.waitForFunction((name) => document.activeElement.dataset.test === name, field);
      const [sheet, rest, guide] = await page.evaluate((name) => ['dialog[open]', `.host.${name}`, '.guide'].map((s) => document.querySelector(s).getBoundingClientRect()).map((r) => [r.left, r.right]), host);
      for (const [left, right] of [rest, guide]) assert.ok(sheet[1] <= left || sheet[0] >= right, `${verb}: the dialog is at ${sheet}, over ${left} to ${right}`);
      await press(page, 'cancel');
    }
  }
});

test('the first lessons leave the moves to the learner', async (t) => {
  const page = await open(t, { hash: '#lesson=send' });
  await press(page, 'client.qp.to.RTS');
  assert.equal(await at(page, 'fill').count(), 0);
  await press(page, 'cancel');
  assert.equal(await at(page, 'client.qp.connect').count(), 0);
  await page.goto(page.url().split('#')[0] + '#lesson=srq');
  await perform(page, { do: 'create_qp', host: 'server', name: 'two', pd: 'pd', type: 'RC', send_cq: 'cq', recv_cq: 'cq', sig_all: true });
  assert.equal(await at(page, 'client.one.connect').count(), 0); // the server has no queue pair of this name
  await press(page, 'client.two.connect');
  for (const host of ['client', 'server']) assert.equal(await at(page, `${host}.two`).getAttribute('data-state'), 'RTS');
});

test('on the free bench the guide says so', async (t) => {
  const page = await open(t, { hash: '#lesson=send' });
  await press(page, 'bench');
  await visible(page, 'bench.about');
  for (const [name, pressed] of [['tab.lessons', 'false'], ['tab.mistakes', 'false'], ['bench', 'true']]) assert.equal(await at(page, name).getAttribute('aria-pressed'), pressed, name);
  await press(page, 'tab.lessons');
  await press(page, 'lesson.send');
  assert.equal(await at(page, 'tab.lessons').getAttribute('aria-pressed'), 'true');
});

test('in Chinese, a close has the name of its call, comments of code are Chinese, and an error of the engine says that it is English', async (t) => {
  const page = await open(t, { lang: 'zh-CN' });
  await perform(page, { do: 'alloc_pd', host: 'client', name: 'pd' });
  await press(page, 'client.pd.close');
  assert.match(await at(page, 'result').locator('h3').innerText(), /ibv_dealloc_pd pd/);
  assert.match(await at(page, 'client.create_qp').getAttribute('title'), /先要有 PD、CQ/);
  await perform(page, { do: 'run' });
  for (const language of ['c', 'go']) assert.match(await at(page, `code.${language}`).innerText(), /^(\/\*|\/\/) 时间流逝/);
  await page.evaluate(() => { location.hash = '#mistake=none'; });
  await page.waitForFunction(() => /there is no mistake none（英文）/.test(document.querySelector('[data-test=said]').textContent));
});
