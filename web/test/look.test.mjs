// How the page looks and feels: accessibility in both themes, three widths, and the time of a step.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { at, laboratory, open } from './harness.mjs';
import { forward, press } from './perform.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const pictures = resolve(laboratory, '../pictures');

// Looks at the whole page, or at the part of it that is new.
async function accessible(page, what, part = 'html') {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
  const { violations } = await page.evaluate((where) => window.axe.run(where, { resultTypes: ['violations'] }), part);
  const found = violations.map((v) => `${what}: ${v.id}: ${v.help}: ${v.nodes.map((n) => `${n.target} ${n.failureSummary.split('\n')[1]}`).slice(0, 3).join('; ')}`);
  assert.deepEqual(found, []);
}

// Plays a solution's first n actions.
async function play(page, n) {
  await press(page, 'lesson.solution');
  await forward(page, n);
}

for (const dark of [false, true]) {
  test(`axe finds nothing, ${dark ? 'dark' : 'light'}`, async (t) => {
    const page = await open(t, { hash: '#lesson=loss', dark });
    const look = (what, part) => accessible(page, what, part);
    await look('lesson');
    await play(page, 8);
    await look('after eight actions');
    for (const tab of ['packets', 'events']) {
      await press(page, `detail.${tab}`);
      await look(tab, '.dock');
    }
    await press(page, 'detail.packets');
    await page.locator('.list tbody th button').first().click();
    await look('packet', '.dock');
    await press(page, 'client.qp.to.SQD');
    await press(page, 'forbidden');
    await at(page, 'bit.AV').check();
    await press(page, 'submit');
    await look('modify', 'dialog');
    await press(page, 'cancel');
    for (const name of ['client.qp.post_send', 'client.create_qp', 'session', 'keys']) {
      await press(page, name);
      await look(name, 'dialog');
      await press(page, 'cancel');
    }
    await press(page, 'tab.mistakes');
    await look('mistakes', '.guide');
  });
}

// The quick part has one picture of each kind.
const pictured = process.env.WHOLE ? [400, 800, 1400, 1600] : [400, 1400];
for (const width of pictured) {
  for (const dark of process.env.WHOLE ? [false, true] : [width === 1400]) {
    test(`nothing is wider than ${width} px, ${dark ? 'dark' : 'light'}`, async (t) => {
      const page = await open(t, { hash: '#lesson=loss', width, height: width === 400 ? 800 : 900, dark });
      const name = (part) => `${pictures}/${width}-${dark ? 'dark' : 'light'}-${part}.png`;
      mkdirSync(pictures, { recursive: true });
      if (width < 1200) await press(page, 'pane.guide');
      await play(page, 10);
      const parts = width < 1200 ? ['guide', 'hosts', 'wire', 'details'] : ['all'];
      for (const part of parts) {
        if (part !== 'all') await press(page, `pane.${part}`);
        const [inside, outside] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(inside <= outside, `${part}: ${inside} px in ${outside}`);
        await page.screenshot({ path: name(part) });
      }
    });
  }
}

test('a step takes at most 16 ms of scripting in a session of 10,000 events', async (t) => {
  const page = await open(t, { hash: '#lesson=rdma' });
  const write = { id: 1, opcode: 'RDMA_WRITE', sgl: [{ mr: 'buf', length: 16 }], remote: { mr: 'buf' } };
  const round = [{ do: 'post_send', host: 'client', name: 'qp', wrs: [write] }, { do: 'run' }, { do: 'poll_cq', host: 'client', name: 'cq' }];
  const { actions } = await page.evaluate(() => JSON.parse(rawverbs.file(2)).value ?? JSON.parse(rawverbs.file(1)).value);
  while (actions.length < 15_100) actions.push(...round);
  const file = { schema: 'rawverbs-session', version: 1, setup: {}, actions };
  await press(page, 'session');
  await at(page, 'session.file').setInputFiles({ name: 'long.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(file)) });
  await page.waitForFunction((n) => document.querySelector('[data-test=scrub]').max === String(n), actions.length, { timeout: 60_000 });
  await press(page, 'detail.events');
  // From the middle on, one moment at a time; Chromium counts the seconds of scripting.
  await at(page, 'scrub').fill(String(actions.length - 60));
  const chromium = await page.context().newCDPSession(page);
  await chromium.send('Performance.enable');
  const scripting = async () => (await chromium.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration').value;
  assert.ok(Number(await page.locator('#tab-events .count').innerText()) >= 10_000);
  const moment = () => at(page, 'scrub').inputValue().then(Number);
  const first = await moment();
  const times = [];
  for (let i = 0; i < 41; i++) {
    const before = await scripting();
    await page.evaluate(() => document.querySelector('[data-test=forward]').click());
    await page.evaluate(() => new Promise(requestAnimationFrame));
    times.push(1000 * (await scripting() - before));
  }
  assert.equal(await moment(), first + times.length);
  times.sort((a, b) => a - b);
  const median = times[times.length >> 1];
  t.diagnostic(`${median.toFixed(1)} ms in the median`);
  assert.ok(median <= 16, `${median} ms in the median`);
});
