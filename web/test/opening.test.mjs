// The opening: the first visit plays a SEND by itself. The page's clock is the test's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { at, open, reload } from './harness.mjs';
import { press } from './perform.mjs';

const caption = 2500; // the page's time for one caption, in milliseconds
const step = async (page) => Number(await at(page, 'opening').getAttribute('data-step'));

test('the first visit plays a SEND to both completions, and leads into lesson 1', async (t) => {
  const page = await open(t, { fresh: true, clock: true });
  await at(page, 'opening').waitFor();
  const captions = new Set();
  for (let n = 0; n <= 7; n++) {
    assert.equal(await step(page), n);
    captions.add(await at(page, 'opening.caption').innerText());
    if (n < 7) assert.equal(await at(page, 'opening.lesson').count(), 0);
    if (n === 3) assert.equal(await page.locator('.wire [data-fate="in flight"]').count(), 1);
    await page.clock.runFor(caption);
  }
  assert.equal(captions.size, 8);
  assert.match(await page.locator('.host.server .memory').innerText(), /hello, s/);
  assert.match(await at(page, 'result').innerText(), /SUCCESS[^]*RECV/);
  assert.equal(await page.evaluate(() => location.hash), '');
  await press(page, 'opening.lesson');
  assert.ok(await at(page, 'goal.pd').isVisible());
  assert.equal(await at(page, 'opening').count(), 0);
});

test('skipping leads to the list of lessons, and the next visit begins there', async (t) => {
  const page = await open(t, { fresh: true, clock: true, lang: 'zh-CN' });
  await page.clock.runFor(2 * caption);
  assert.equal(await step(page), 2);
  await press(page, 'opening.skip');
  assert.ok(await at(page, 'lesson.objects').isVisible());
  assert.ok(await at(page, 'pair').isVisible()); // the bench is empty
  await page.clock.runFor(10 * caption);
  assert.ok(await at(page, 'pair').isVisible());
  await reload(page, 'opening', 'true');
  await at(page, 'lesson.objects').waitFor();
  assert.equal(await at(page, 'opening').count(), 0);
});

test('what the user does ends the opening', async (t) => {
  const page = await open(t, { fresh: true, clock: true });
  await press(page, 'opening.play'); // pauses
  await page.clock.runFor(10 * caption);
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
  await calm.clock.runFor(10 * caption);
  assert.equal(await step(calm), 0);
  for (let n = 1; n <= 7; n++) {
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
