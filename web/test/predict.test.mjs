// The prediction before a run: what the guide asks, what it says afterwards, and what it counts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { at, open, reload } from './harness.mjs';
import { clock, forward, perform, press, submit } from './perform.mjs';

const send = { do: 'post_send', host: 'client', name: 'qp', wrs: [{ id: 1, opcode: 'SEND', sgl: [{ mr: 'buf', length: 16 }] }] };
const receive = { do: 'post_recv', host: 'server', name: 'qp', wrs: [{ id: 1, sgl: [{ mr: 'buf', length: 64 }] }] };
const wrongKey = { do: 'post_send', host: 'client', name: 'qp', wrs: [{ id: 2, opcode: 'RDMA_WRITE', sgl: [{ mr: 'buf', length: 8 }], remote: { mr: 'buf', rkey_add: 256 } }] };
const verdict = (page) => at(page, 'predict.verdict');

test('a wrong prediction is explained, and counted once', async (t) => {
  const page = await open(t, { hash: '#lesson=rnr' });
  await at(page, 'lesson').waitFor();
  assert.equal(await at(page, 'predict').count(), 0);
  await perform(page, send);
  assert.match(await at(page, 'predict').innerText(), /wr_id 1 \(Client, SEND\)[^]*SUCCESS[^]*RNR_RETRY_EXC_ERR[^]*no completion/);
  await press(page, 'predict.RETRY_EXC_ERR');
  await press(page, 'predict.SUCCESS'); // another mind, before the run
  await press(page, 'run');
  await verdict(page).waitFor();
  assert.equal(await verdict(page).getAttribute('data-right'), 'false');
  assert.match(await verdict(page).innerText(), /wr_id 1: RNR_RETRY_EXC_ERR\. Your prediction: SUCCESS[^]*receive[^]*Right predictions: 0 of 1/);
  assert.equal(await at(page, 'predict').count(), 0);
  // After an undo, or from the start again, the outcome is known, so nobody asks again.
  await press(page, 'undo');
  await press(page, 'run');
  assert.equal(await at(page, 'predict').count(), 0);
  await press(page, 'lesson.restart');
  await perform(page, send);
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn))));
  assert.equal(await at(page, 'predict').count(), 0);
  assert.equal(await verdict(page).count(), 0, 'the verdict of the earlier attempt is still shown');
  assert.deepEqual(await page.evaluate(() => JSON.parse(localStorage.getItem('rawverbs.predictions'))), { right: 0, all: 1 });
});

test('right predictions: a success, a failed check, and no completion', async (t) => {
  const page = await open(t, { hash: '#lesson=rdma' });
  await perform(page, receive);
  await perform(page, send);
  await press(page, 'predict.SUCCESS');
  await press(page, 'step'); // the request is not complete yet
  assert.equal(await verdict(page).count(), 0);
  await press(page, 'run');
  await verdict(page).waitFor();
  assert.equal(await verdict(page).getAttribute('data-right'), 'true');
  await perform(page, wrongKey);
  await press(page, 'predict.REM_ACCESS_ERR');
  await press(page, 'run');
  await verdict(page).waitFor();
  assert.match(await verdict(page).innerText(), /As predicted[^]*no region or bound window has rkey[^]*Right predictions: 2 of 2/);
  await page.goto(page.url().split('#')[0] + '#lesson=sqd');
  const { solution } = await page.evaluate(() => JSON.parse(rawverbs.tables()).value.lessons.find((l) => l.id === 'sqd'));
  for (const action of solution.slice(0, 5)) await perform(page, action); // the second SEND waits in SQD
  await press(page, 'predict.NONE');
  await press(page, 'step');
  await verdict(page).waitFor();
  assert.match(await verdict(page).innerText(), /no completion[^]*not complete[^]*Right predictions: 3 of 3/);
});

test('nobody must answer, a solution asks nothing, and the question can be turned off for good', async (t) => {
  const page = await open(t, { hash: '#lesson=rnr', lang: 'zh-CN', served: true });
  await perform(page, send);
  assert.match(await at(page, 'predict').innerText(), /没有完成项/);
  await press(page, 'run');
  assert.match(await at(page, 'held').innerText(), /时钟在等你的预测/);
  assert.equal(await at(page, 'clock').innerText(), '0 ns');
  await press(page, 'held.decline');
  await at(page, 'predict').waitFor({ state: 'detached' });
  assert.equal(await verdict(page).count(), 0);
  await press(page, 'lesson.solution');
  await forward(page, 1);
  assert.equal(await at(page, 'predict').count(), 0);
  await press(page, 'lesson.restart');
  await at(page, 'predict.on').uncheck();
  await perform(page, { ...send, wrs: [{ ...send.wrs[0], id: 7 }] });
  assert.equal(await at(page, 'predict').count(), 0);
  await reload(page, 'predict', 'false');
  await at(page, 'predict.on').waitFor();
  assert.equal(await at(page, 'predict.on').isChecked(), false);
});

test('a request that RESET throws away is not called done', async (t) => {
  const page = await open(t, { hash: '#lesson=rnr' });
  await perform(page, send);
  await press(page, 'predict.NONE');
  assert.match(await at(page, 'predict').innerText(), /Now run the clock/);
  await press(page, 'predict.RNR_RETRY_EXC_ERR');
  assert.match(await at(page, 'predict').innerText(), /the peer had no receive posted/); // what the chosen status means
  await press(page, 'client.qp.to.RESET');
  await submit(page);
  await verdict(page).waitFor();
  assert.match(await verdict(page).innerText(), /no completion[^]*RESET or a destroy emptied the queue/);
});

test('a narrow window says the question where the guide is not shown', async (t) => {
  const page = await open(t, { hash: '#lesson=rnr', width: 800 });
  await press(page, 'pane.hosts');
  await perform(page, send);
  await page.waitForFunction(() => /status of the completion of wr_id 1 /.test(document.querySelector('[data-test=said]').textContent));
});

test('without predictions the clock does not wait, and a look at the past keeps a prediction', async (t) => {
  const page = await open(t, { hash: '#lesson=rnr' });
  await perform(page, send);
  await press(page, 'predict.SUCCESS');
  await press(page, 'back');
  await press(page, 'now');
  assert.equal(await at(page, 'predict.SUCCESS').getAttribute('aria-pressed'), 'true');
  await perform(page, receive);
  assert.equal(await at(page, 'predict.SUCCESS').getAttribute('aria-pressed'), 'false');
  assert.match(await at(page, 'predict').innerText(), /may change the outcome/);
  await at(page, 'predict.on').uncheck();
  await press(page, 'step');
  assert.equal(await at(page, 'held').count(), 0);
  assert.notEqual(await at(page, 'clock').innerText(), '0 ns');
});

test('the clock waits at play and at a run for a time, and goes on as it was asked to', async (t) => {
  const page = await open(t, { hash: '#lesson=rnr' });
  await perform(page, send);
  await press(page, 'run.more');
  await at(page, 'f.ns').fill('1000');
  await press(page, 'submit');
  await at(page, 'held').waitFor();
  assert.equal(await at(page, 'clock').innerText(), '0 ns');
  await press(page, 'undo');
  assert.equal(await at(page, 'held').count(), 0);
  await press(page, 'redo');
  await press(page, 'play');
  await press(page, 'held.RNR_RETRY_EXC_ERR');
  await verdict(page).waitFor(); // it plays to the end
  assert.equal(await verdict(page).getAttribute('data-right'), 'true');
});
