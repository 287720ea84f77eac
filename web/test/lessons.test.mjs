// Every lesson is solved through the page, in English and in Chinese. In English some are solved by the mouse,
// with WHOLE=1 all, and then two by the keyboard too. The others are solved by the solution that the page
// shows. The question is answered wrongly first, then rightly.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { at, open } from './harness.mjs';
import { keyboard } from './keyboard.mjs';
import { forward, perform, press } from './perform.mjs';

const byMouse = ['rtr', 'signalling', 'overrun', 'events', 'rdma', 'order', 'windows', 'gap', 'ecn']; // rtr has two refused transitions, gap the switches of the devices, ecn marks

/** The lessons of the engine's tables. */
const lessons = async (page) => JSON.parse(await page.evaluate(() => rawverbs.tables())).value.lessons;

async function goals(page, { goals: keys }) {
  const met = {};
  for (const key of keys) met[key] = (await at(page, `goal.${key}`).getAttribute('data-met')) === 'true';
  return met;
}
const all = ({ goals: keys }, value) => Object.fromEntries(keys.map((key) => [key, value]));

// Each answer has a reason of its own; the right one comes last.
async function answer(page, lesson) {
  const reasons = new Set();
  const all = Array.from({ length: lesson.answers }, (_, i) => i + 1);
  for (const n of [...all.filter((i) => i !== lesson.right), lesson.right]) {
    await at(page, `answer.${n}`).check();
    await press(page, 'answer.check');
    assert.equal(await at(page, 'verdict').getAttribute('data-right'), String(n === lesson.right));
    reasons.add(await at(page, n === lesson.right ? 'lesson.end' : 'verdict').locator('.prose').innerText());
  }
  assert.equal(reasons.size, lesson.answers);
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
    assert.equal(list.length, 23);
    let own = 0; // a solution that the page plays does not count
    for (const [i, lesson] of list.entries()) {
      await t.test(lesson.id, async () => {
        if (i === 0) await press(page, `lesson.${lesson.id}`);
        assert.deepEqual(await goals(page, lesson), all(lesson, false));
        assert.equal(await at(page, 'question').count(), 0);
        if (lang === 'en-US' && (process.env.WHOLE || byMouse.includes(lesson.id))) {
          own++;
          for (const action of lesson.solution) await perform(page, action);
        } else {
          await press(page, 'lesson.solution');
          await forward(page, lesson.solution.length);
        }
        assert.deepEqual(await goals(page, lesson), all(lesson, true));
        await answer(page, lesson);
        for (const key of lesson.goals) assert.match(await at(page, `end.step.${key}`).innerText(), /[1-9]/);
        assert.match(await at(page, 'end.progress').innerText(), new RegExp(`${own} .*${list.length}\\b`));
        await written(page, lang);
        if (i + 1 < list.length) await press(page, 'lesson.next');
      });
    }
    assert.equal(await at(page, 'lesson.next').count(), 0);
    assert.equal(await at(page, 'lessons.end').locator('li').count(), list.length - own);
  });
}

test('an undo is no solution, and a look at the past keeps what is chosen', async (t) => {
  const page = await open(t, { hash: '#lesson=rnr' });
  const lesson = (await lessons(page)).find((l) => l.id === 'rnr');
  await perform(page, lesson.solution[0]);
  await perform(page, lesson.solution[1]);
  await press(page, 'undo');
  assert.equal(await at(page, 'ready').count(), 0);
  await page.waitForFunction(() => location.hash && !location.hash.includes('lesson='));
  await page.reload();
  await at(page, 'goal.' + lesson.goals[0]).waitFor();
  assert.equal(await at(page, 'scrub').getAttribute('max'), String(lesson.start.length + 1));
  await press(page, 'lesson.solution');
  await at(page, 'ready').waitFor();
  await page.waitForFunction(() => location.hash === '#lesson=rnr');
  await forward(page, lesson.solution.length);
  await at(page, 'answer.1').check();
  await press(page, 'back');
  await press(page, 'now');
  assert.ok(await at(page, 'answer.1').isChecked());
});

test('two lessons by the keyboard alone', { skip: !process.env.WHOLE && 'needs WHOLE=1' }, async (t) => {
  const page = await open(t);
  const { use, call, move, tabTo } = keyboard(page);
  const list = await lessons(page);
  const solved = async (id) => {
    const lesson = list.find((l) => l.id === id);
    assert.deepEqual(await goals(page, lesson), all(lesson, true), id);
    await page.keyboard.press('l');
    await tabTo('answer.1'); // Tab reaches the first answer; the arrows choose
    await page.keyboard.press('Space');
    for (let n = 1; n < lesson.right; n++) await page.keyboard.press('ArrowDown');
    await use('answer.check');
    assert.equal(await at(page, 'verdict').getAttribute('data-right'), 'true', id);
  };
  const opened = async (id) => {
    await page.keyboard.press('l');
    await use('tab.lessons');
    await use(`lesson.${id}`);
  };

  await opened('objects');
  for (const host of ['client', 'server']) for (const verb of ['alloc_pd', 'reg_mr', 'create_cq', 'create_qp']) await call(`${host}.${verb}`);
  await use('client.pd.close'); // refused: the PD has children
  await solved('objects');

  await opened('send');
  await move('client', 'RTS');
  await call('client.qp.post_send');
  await page.keyboard.press('r');
  for (const host of ['client', 'server']) await use(`${host}.cq.poll_cq`);
  await solved('send');
});
