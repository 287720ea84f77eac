// The opening: the first visit plays a connection and a SEND by itself. The page's clock is the test's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { at, open, reload } from './harness.mjs';
import { press } from './perform.mjs';

const last = 11;
const step = async (page) => Number(await at(page, 'opening').getAttribute('data-step'));
const states = (page) => page.locator('.object.qp').evaluateAll((all) => all.map((qp) => qp.dataset.state));

/** Runs the page's clock until the next caption. Returns how many milliseconds that takes. */
async function nextCaption(page) {
  const from = await step(page);
  let ms = 0;
  while ((await step(page)) === from && ms < 10_000) {
    await page.clock.runFor(100);
    ms += 100;
  }
  assert.equal(await step(page), from + 1);
  return ms;
}

for (const lang of ['en-US', 'zh-CN']) {
  test(`the first visit plays from RESET to both completions, and leads into lesson 1: ${lang}`, async (t) => {
    const page = await open(t, { fresh: true, clock: true, lang });
    await at(page, 'opening').waitFor();
    const captions = new Set();
    for (let n = 0; n <= last; n++) {
      assert.equal(await step(page), n);
      if (n < 6) assert.deepEqual(await states(page), Array(2).fill(['RESET', 'INIT', 'INIT', 'INIT', 'RTR', 'RTS'][n]), `caption ${n}`);
      if (n === 7) assert.equal(await page.locator('.wire [data-fate="in flight"]').count(), 1);
      if (n === last) break;
      assert.equal(await at(page, 'opening.lesson').count(), 0);
      captions.add(await at(page, 'opening.caption').innerText());
      await nextCaption(page);
      while (n < 5 && new Set(await states(page)).size > 1) await page.clock.runFor(100); // the second end follows the first one
    }
    assert.equal(captions.size, last);
    assert.match(await page.locator('.host.server .memory').innerText(), /hello, s/);
    assert.match(await at(page, 'result').innerText(), /SUCCESS[^]*RECV/);
    assert.equal(await at(page, 'play').getAttribute('title'), lang === 'en-US' ? 'Play' : '播放'); // nothing plays any more
    assert.equal(await at(page, 'play').isDisabled(), true);
    assert.equal(await page.evaluate(() => location.hash), '');
    await press(page, 'opening.lesson');
    assert.ok(await at(page, 'goal.pd').isVisible());
    assert.equal(await at(page, 'opening').count(), 0);
  });
}

test('a longer caption stays longer', async (t) => {
  const page = await open(t, { fresh: true, clock: true });
  const stays = [];
  for (let n = 0; n < last; n++) {
    const { length } = await at(page, 'opening.caption').innerText();
    stays.push({ length, ms: await nextCaption(page) });
  }
  stays.sort((a, b) => a.length - b.length);
  assert.ok(stays[0].ms < stays.at(-1).ms, JSON.stringify(stays));
});

test('skipping leads to the list of lessons, and the next visit begins there', async (t) => {
  const page = await open(t, { fresh: true, clock: true, lang: 'zh-CN', served: true });
  for (let n = 0; n < 2; n++) await nextCaption(page);
  await press(page, 'opening.skip');
  assert.ok(await at(page, 'lesson.objects').isVisible());
  assert.ok(await at(page, 'pair').isVisible()); // the bench is empty
  await page.clock.runFor(60_000);
  assert.ok(await at(page, 'pair').isVisible());
  await reload(page, 'opening', 'true');
  await at(page, 'lesson.objects').waitFor();
  assert.equal(await at(page, 'opening').count(), 0);
});

test('the bench outlives the opening that is played again', async (t) => {
  const page = await open(t, { calm: true });
  await press(page, 'bench');
  await press(page, 'pair');
  const pair = () => at(page, 'client.qp').isVisible();
  assert.ok(await pair());
  for (const acts of [false, true]) {
    await press(page, 'tab.lessons');
    await press(page, 'opening.again');
    await at(page, 'opening').waitFor();
    if (acts) await press(page, 'client.alloc_pd');
    else await press(page, 'opening.skip');
    if (acts) await press(page, 'submit');
    await at(page, 'opening').waitFor({ state: 'detached' });
    if (acts) await press(page, 'bench');
    assert.ok(await pair(), `acts: ${acts}`);
  }
});

test('what the user does ends the opening', async (t) => {
  const page = await open(t, { fresh: true, clock: true });
  await press(page, 'opening.play'); // pauses
  await page.clock.runFor(60_000);
  assert.equal(await step(page), 0);
  await press(page, 'opening.next');
  assert.equal(await step(page), 1);
  await press(page, 'client.cq.poll_cq');
  assert.equal(await at(page, 'opening').count(), 0);
  assert.equal(await at(page, 'redo').isDisabled(), true);
});

test('a link, a returning learner and less motion play nothing', async (t) => {
  const link = await open(t, { fresh: true, hash: '#lesson=send' });
  await at(link, 'lesson').waitFor();
  assert.equal(await at(link, 'opening').count(), 0);
  const returning = await open(t);
  await at(returning, 'lesson.objects').waitFor();
  assert.equal(await at(returning, 'opening').count(), 0);
  const calm = await open(t, { fresh: true, calm: true, clock: true });
  await at(calm, 'opening').waitFor();
  await calm.clock.runFor(60_000);
  assert.equal(await step(calm), 0);
  for (let n = 1; n <= last; n++) {
    await press(calm, 'opening.next');
    assert.equal(await step(calm), n);
  }
  await calm.clock.runFor(100); // for the page's effects
  assert.equal(await calm.evaluate(() => document.activeElement.dataset.test), 'opening.lesson');
  await press(calm, 'opening.lesson');
  await calm.clock.runFor(100);
  assert.equal(await calm.evaluate(() => document.activeElement.id), 'guide-title');
});

test('before its first step the opening counts nothing', async (t) => {
  const page = await open(t, { fresh: true, calm: true });
  await press(page, 'opening.next');
  for (let i = 0; i < 2; i++) await press(page, 'back');
  assert.equal(await step(page), 0);
});

// The pane of each step in a narrow window.
const panes = [...Array(7).fill('hosts'), 'wire', 'hosts', 'hosts', 'details', 'details'];
const inView = () => {
  const marked = [...document.querySelectorAll('.marked')].at(-1);
  const box = marked.getBoundingClientRect();
  const frame = marked.closest(innerWidth < 1200 ? 'main' : '.host').getBoundingClientRect();
  return box.height > 0 && box.top >= frame.top && box.bottom <= frame.bottom;
};

for (const width of [1400, 800, 400]) {
  test(`each step shows what it changes: ${width} px`, async (t) => {
    const page = await open(t, { fresh: true, calm: true, width });
    assert.deepEqual(await page.locator('.host').evaluateAll((all) => all.map((host) => host.scrollTop)), [0, 0]);
    for (const [n, pane] of panes.entries()) {
      assert.equal(await step(page), n);
      if (width < 1200) await page.waitForSelector(`[data-test="pane.${pane}"][aria-pressed=true]`);
      if (n > 0 && (width >= 1200 || pane === 'hosts')) await page.waitForFunction(inView);
      if (n < last) await press(page, 'opening.next');
    }
  });
}
