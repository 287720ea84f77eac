// Every lesson is solved through the page, in English and in Chinese. Some are solved by clicks alone, with
// WHOLE=1 all English ones; the others by the solution that the page shows. The question is answered
// wrongly first, then rightly.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { at, open } from './harness.mjs';
import { forward, perform, press } from './perform.mjs';

const byClicks = ['init', 'rtr', 'send', 'rdma', 'rnr'];

/** The lessons of the engine's tables. */
const lessons = async (page) => JSON.parse(await page.evaluate(() => rawverbs.tables())).value.lessons;

async function goals(page, { goals: keys }) {
  const met = {};
  for (const key of keys) met[key] = (await at(page, `goal.${key}`).getAttribute('data-met')) === 'true';
  return met;
}
const all = ({ goals: keys }, value) => Object.fromEntries(keys.map((key) => [key, value]));

async function answer(page, lesson) {
  const wrong = (lesson.right % lesson.answers) + 1;
  for (const [n, right] of [[wrong, 'false'], [lesson.right, 'true']]) {
    await at(page, `answer.${n}`).check();
    await press(page, 'answer.check');
    assert.equal(await at(page, 'verdict').getAttribute('data-right'), right);
  }
}

/** Every part of the lesson is shown in Chinese characters, or in English without any. */
async function written(page, lang) {
  const chinese = /[\u4e00-\u9fff]/;
  for (const text of await page.locator('[data-test=lesson] p, [data-test=lesson] legend').allInnerTexts()) {
    if (text) assert.equal(chinese.test(text), lang === 'zh-CN', text);
  }
}

for (const lang of ['en-US', 'zh-CN']) {
  test(`every lesson, ${lang}`, async (t) => {
    const page = await open(t, { lang });
    const list = await lessons(page);
    assert.equal(list.length, 14);
    for (const [i, lesson] of list.entries()) {
      await t.test(lesson.id, async () => {
        if (i === 0) await press(page, `lesson.${lesson.id}`);
        assert.deepEqual(await goals(page, lesson), all(lesson, false));
        assert.equal(await at(page, 'question').count(), 0);
        if (lang === 'en-US' && (process.env.WHOLE || byClicks.includes(lesson.id))) {
          for (const action of lesson.solution) await perform(page, action);
        } else {
          await press(page, 'lesson.solution');
          await forward(page, lesson.solution.length);
        }
        assert.deepEqual(await goals(page, lesson), all(lesson, true));
        await answer(page, lesson);
        await written(page, lang);
        if (i + 1 < list.length) await press(page, 'lesson.next');
      });
    }
    assert.equal(await at(page, 'lesson.next').count(), 0);
  });
}
