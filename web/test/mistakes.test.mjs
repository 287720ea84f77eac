// Every mistake is made through the page, in English and in Chinese: the question comes first, and what
// both ends see is what cmd/internal/lab/mistake promises. The first one, with WHOLE=1 all, is played by the page.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { at, open } from './harness.mjs';
import { forward, press } from './perform.mjs';

const promises = JSON.parse(readFileSync(new URL('mistakes.json', import.meta.url), 'utf8'));

/** What the page says that an end has seen, without events: errnos and statuses in order, and its queue pair's state. */
async function seen(page, host) {
  const part = at(page, `seen.${host}`);
  const rows = await part.locator('li:not(.event)').allInnerTexts();
  const saw = rows.slice(0, -1).flatMap((row) => row.match(/\b(E[A-Z]+|SUCCESS|[A-Z_]+_ERR)\b/)?.[0] ?? []);
  const state = rows.at(-1).match(/·\s*(\w+)/)?.[1];
  return { saw, state };
}

for (const lang of ['en-US', 'zh-CN']) {
  test(`every mistake, ${lang}`, async (t) => {
    const page = await open(t, { lang });
    await press(page, 'tab.mistakes');
    const names = Object.keys(promises);
    const { mistakes } = JSON.parse(await page.evaluate(() => rawverbs.tables())).value;
    const left = Object.fromEntries(mistakes.map((m) => [m.name, m.actions.length - m.question]));
    assert.equal(await page.locator('.entries [data-test^="mistake."]').count(), names.length);
    for (const name of names) {
      await t.test(name, async () => {
        await press(page, 'tab.mistakes');
        await press(page, `mistake.${name}`);
        await at(page, 'speed').selectOption('10');
        for (const late of ['mistake.seen', 'mistake.why']) assert.equal(await at(page, late).count(), 0, `${late} before the answer`);
        const failures = promises[name].client.saw.filter((what) => what !== 'SUCCESS');
        const outcome = failures.some((what) => /^E[A-Z]+$/.test(what)) ? 'REFUSED' : failures.at(-1) ?? 'SUCCESS';
        assert.equal(await page.locator('[data-test^="guess."]').count(), 5);
        await press(page, `guess.${outcome}`);
        if (process.env.WHOLE || name === names[0]) await press(page, 'mistake.go');
        else await forward(page, left[name]);
        await at(page, 'mistake.why').waitFor();
        assert.equal(await at(page, 'guess.verdict').getAttribute('data-right'), 'true');
        for (const host of ['client', 'server']) assert.deepEqual(await seen(page, host), promises[name][host], host);
        if (name === 'no-read-resources') assert.match(await at(page, 'seen.server').innerText(), /IBV_EVENT_QP_REQ_ERR/);
        for (const text of await page.locator('[data-test=mistake] p, [data-test^="status."] p').allInnerTexts()) {
          if (text && !text.includes(name)) assert.equal(/[\u4e00-\u9fff]/.test(text), lang === 'zh-CN', text);
        }
      });
    }
    await t.test('a text without a translation says so', async () => {
      await press(page, 'session');
      await at(page, 'session.file').setInputFiles({ name: 'other.json', mimeType: 'application/json', buffer: Buffer.from('{"schema": "x", "version": 1}') });
      assert.match(await at(page, 'problem').innerText(), lang === 'zh-CN' ? /schema "x".*（英文）$/ : /schema "x"[^（]*$/);
      await press(page, 'cancel');
    });
  });
}

test('a mistake that the learner has left can be made again', async (t) => {
  const page = await open(t, { hash: '#mistake=bad-rkey' });
  await press(page, 'guess.SUCCESS');
  await press(page, 'client.cq.poll_cq');
  await at(page, 'mistake.own').waitFor();
  assert.equal(await at(page, 'mistake.go').count(), 0);
  await press(page, 'mistake.restart');
  await press(page, 'guess.SUCCESS');
  const { actions, question } = JSON.parse(await page.evaluate(() => rawverbs.tables())).value.mistakes.find((m) => m.name === 'bad-rkey');
  await forward(page, actions.length - question);
  await at(page, 'mistake.why').waitFor();
  assert.equal(await at(page, 'guess.verdict').getAttribute('data-right'), 'false');
  await press(page, 'tab.mistakes');
  await press(page, 'mistake.bad-rkey'); // the list starts it again, too
  await at(page, 'guess.SUCCESS').waitFor();
});

test('a mistake that is carried out keeps its address', async (t) => {
  const page = await open(t, { hash: '#mistake=missing-mask-bit', clock: true });
  const { actions, question } = JSON.parse(await page.evaluate(() => rawverbs.tables())).value.mistakes.find((m) => m.name === 'missing-mask-bit');
  for (let n = question; n < actions.length; n++) await press(page, 'forward');
  await at(page, 'mistake.why').waitFor();
  await page.clock.runFor(1000); // the address follows after a moment
  assert.equal(await page.evaluate(() => location.hash), '#mistake=missing-mask-bit');
});
