// The final examination through the page: questions, tasks on the bench, the result and what is kept of it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { at, open, reload } from './harness.mjs';
import { perform, press } from './perform.mjs';

const tables = async (page) => JSON.parse(await page.evaluate(() => rawverbs.tables())).value;
const byMouse = ['exam-rights', 'exam-flush'];

/** Solves a task: by the mouse, or as a file that the session loads. */
async function solve(page, part) {
  if (byMouse.includes(part.id)) {
    for (const action of part.solution) await perform(page, action);
    return;
  }
  const file = { schema: 'rawverbs-session', version: 1, setup: { lesson: part.id }, actions: [...part.start, ...part.solution] };
  await press(page, 'session');
  await at(page, 'session.file').setInputFiles({ name: 'task.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(file)) });
  await page.waitForFunction((n) => document.querySelector('[data-test=scrub]').max === String(n), file.actions.length);
}

const metGoals = (page) => page.locator('[data-test^="goal."][data-met=true]').count();

test('an examination with three mistakes, and its result', async (t) => {
  const page = await open(t, { served: true });
  const { exam, subjects } = await tables(page);
  assert.equal(exam.length, 20);
  assert.equal(exam.filter((part) => part.goals.length > 0).length, 10);
  await press(page, 'tab.exam');
  await press(page, 'exam.start');
  for (const [i, part] of exam.entries()) {
    await page.waitForSelector(`[data-part="${part.id}"]`);
    if (part.answers > 0) {
      assert.equal(await page.locator('[data-test^="exam.answer."]').count(), part.answers);
      if (part.id !== 'exam-closed') await at(page, `exam.answer.${part.id === 'exam-psns' ? 1 : part.right}`).check();
    } else if (part.id !== 'exam-full') {
      assert.equal(await metGoals(page), 0, part.id);
      await solve(page, part);
      assert.equal(await metGoals(page), part.goals.length, part.id);
      if (part.id === 'exam-drain') { // a task that begins again, or is left, stays solved
        await press(page, 'exam.restart');
        await press(page, 'exam.to.1');
        await press(page, `exam.to.${i + 1}`);
        assert.equal(await metGoals(page), part.goals.length);
      }
    }
    assert.equal(await page.locator('[data-test^="hint."]').count(), 0);
    if (i < exam.length - 1) await press(page, 'exam.next');
  }
  await press(page, 'exam.end');
  assert.match(await at(page, 'exam.end').innerText(), /2 parts are open/);
  await press(page, 'exam.end');
  assert.match(await at(page, 'exam.sum').innerText(), /17 of 20/);
  for (const subject of subjects) {
    const lost = { wire: 1, memory: 1, queues: 1 }[subject] ?? 0;
    assert.match(await at(page, `exam.mark.${subject}`).innerText(), new RegExp(`${4 - lost} of 4`));
  }
  assert.deepEqual(await page.locator('[data-test^="exam.wrong."]').evaluateAll((all) => all.map((e) => e.dataset.test)), ['exam.wrong.exam-psns', 'exam.wrong.exam-closed', 'exam.wrong.exam-full']);
  assert.match(await at(page, 'exam.left').innerText(), /^Left open/);
  assert.equal(await at(page, 'exam.left').locator('[data-test^="exam.wrong."]').count(), 2);
  const untouched = at(page, 'exam.wrong.exam-full');
  await untouched.locator('summary').first().click();
  assert.doesNotMatch(await untouched.innerText(), /Not reached/); // not before the learner asks
  await untouched.locator('summary', { hasText: 'The answer' }).click();
  assert.match(await untouched.innerText(), /Not reached: A post at the client is refused/);
  assert.match(await at(page, 'exam.lesson.exam-psns').textContent(), /Lesson: /);
  await at(page, 'exam.wrong.exam-psns').locator('summary').click();
  assert.match(await at(page, 'exam.wrong.exam-psns').innerText(), /You chose: 0x101[^]*packets, not messages[^]*The right answer: 0x103[^]*three packets/);
  await press(page, 'exam.solution.exam-full');
  assert.equal(await at(page, 'play').isDisabled(), false);

  const [file] = await Promise.all([page.waitForEvent('download'), press(page, 'exam.save')]);
  const text = readFileSync(await file.path(), 'utf8');
  assert.match(text, /17 of 20[^]*4 of 4 {2}States[^]* 1 right: A packet[^]* 3 WRONG: Which PSN[^]*You chose: 0x101[^]*The right answer: 0x103[^]*three packets/);

  const ended = await page.evaluate(() => localStorage.getItem('rawverbs.exam'));
  await page.goto(page.url().split('#')[0]);
  await reload(page, 'exam', ended);
  await press(page, 'tab.exam');
  assert.match(await at(page, 'exam.sum').innerText(), /17 of 20/); // kept
  await press(page, 'exam.again'); // asks
  await press(page, 'exam.again');
  await press(page, 'exam.start');
  await page.waitForSelector('[data-part="exam-init"]');
  assert.equal(await page.locator('.question input:checked').count(), 0);
  // By the keyboard: from Next to the first field of the next part.
  await at(page, 'exam.next').focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement.id === 'guide-title');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.test), 'exam.restart');
});

test('the order of the answers depends on the seed alone', async (t) => {
  const page = await open(t, { served: true });
  const orders = [];
  for (const seed of [1, 2, 3, 4, 5, 6, 1]) {
    const exam = JSON.stringify({ seed, at: 0, answers: {}, met: {}, ended: '' });
    await page.evaluate((text) => localStorage.setItem('rawverbs.exam', text), exam);
    await reload(page, 'exam', exam);
    await press(page, 'tab.exam');
    orders.push((await page.locator('[data-test^="exam.answer."]').evaluateAll((all) => all.map((e) => e.dataset.test))).join());
  }
  assert.ok(new Set(orders).size >= 3, orders.join('\n'));
  assert.equal(orders[0], orders[6]);
});

test('the rights of a queue pair begin with those that it has', async (t) => {
  const page = await open(t);
  await press(page, 'tab.exam');
  await press(page, 'exam.start');
  const { exam } = await tables(page);
  await press(page, `exam.to.${exam.findIndex((part) => part.id === 'exam-rights') + 1}`);
  await press(page, 'server.qp.to.RTS');
  await at(page, 'bit.ACCESS_FLAGS').check();
  const ticked = () => page.locator('[data-test^="value.ACCESS_FLAGS."]:checked').evaluateAll((all) => all.map((box) => box.dataset.test.split('.')[2]));
  assert.deepEqual(await ticked(), ['REMOTE_WRITE']);
});

test('every part is in Chinese too, and a task leaves the moves to the learner', async (t) => {
  const page = await open(t, { lang: 'zh-CN' });
  const { exam } = await tables(page);
  await press(page, 'tab.exam');
  await press(page, 'exam.start');
  for (const [i, part] of exam.entries()) {
    await press(page, `exam.to.${i + 1}`);
    await page.waitForSelector(`[data-part="${part.id}"]`);
    for (const text of await page.locator('[data-test="exam.part"] :is(h2, p, legend)').allInnerTexts()) assert.match(text, /[\u4e00-\u9fff]/);
    if (part.id === 'exam-silent') {
      await press(page, 'client.qp.to.RESET');
      await press(page, 'submit');
      assert.equal(await at(page, 'client.qp.connect').count(), 0);
    }
    if (part.id === 'exam-recover') {
      await press(page, 'client.qp.to.RESET');
      await press(page, 'submit');
      await press(page, 'server.qp.to.RESET');
      await press(page, 'submit');
      await at(page, 'client.qp.connect').waitFor();
    }
  }
});

/** Opens the examination at a part, with all other parts done. */
async function almostDone(page, open) {
  const { exam } = await tables(page);
  const rest = exam.filter((part) => part.id !== open);
  const text = JSON.stringify({
    seed: 1, at: exam.findIndex((part) => part.id === open), ended: '',
    answers: Object.fromEntries(rest.filter((p) => p.answers > 0).map((p) => [p.id, p.right])), met: Object.fromEntries(rest.map((p) => [p.id, p.goals])),
  });
  await page.waitForFunction(() => location.hash === ''); // the address follows the session after a moment
  await page.evaluate((kept) => localStorage.setItem('rawverbs.exam', kept), text);
  await reload(page, 'exam', text);
  await press(page, 'tab.exam');
  return exam.find((part) => part.id === open);
}

const focused = (page) => page.waitForFunction(() => document.activeElement.id === 'guide-title');

test('an examination leaves the bench as it was, and a lesson’s address', async (t) => {
  const page = await open(t, { hash: '#lesson=send' });
  await at(page, 'lesson').waitFor();
  await press(page, 'tab.exam');
  await press(page, 'exam.start');
  await page.waitForFunction(() => location.hash === '');
  await press(page, 'bench');
  await perform(page, { do: 'alloc_pd', host: 'client', name: 'mine' });
  await press(page, 'tab.exam');
  await press(page, 'exam.to.1');
  await press(page, 'pair');
  await at(page, 'client.qp').waitFor();
  await press(page, 'exam.next');
  await press(page, 'bench');
  await at(page, 'client.mine').waitFor();
  assert.equal(await at(page, 'client.qp').count(), 0);
  await press(page, 'undo');
  await press(page, 'bench');
  assert.equal(await at(page, 'client.mine').count(), 0, 'an older bench came back');
});

test('the end of an examination asks only while parts are open, and begins at the top', async (t) => {
  const page = await open(t, { height: 400, served: true });
  const part = await almostDone(page, 'exam-check');
  await press(page, 'exam.end');
  assert.match(await at(page, 'exam.end').innerText(), /1 part is open/);
  await at(page, `exam.answer.${part.right}`).check();
  assert.equal(await at(page, 'exam.end').innerText(), 'End the exam');
  await at(page, 'exam.end').focus();
  await page.keyboard.press('Enter');
  await at(page, 'exam.sum').waitFor();
  await focused(page);
  assert.equal(await page.locator('.guide').evaluate((guide) => guide.scrollTop), 0);
  assert.match((await page.pdf({ preferCSSPageSize: true })).toString('latin1'), /MediaBox\s*\[0 0 6\d\d/); // portrait
  for (let i = 0; i < 2; i++) {
    await at(page, 'exam.again').focus();
    await page.keyboard.press('Enter');
  }
  await at(page, 'exam.start').waitFor();
  await focused(page);
});

test('a look at the past takes no goal back', async (t) => {
  const page = await open(t, { served: true });
  const part = await almostDone(page, 'exam-rnr');
  await press(page, 'exam.restart');
  for (const action of part.solution) await perform(page, action);
  const kept = () => page.evaluate((id) => JSON.parse(localStorage.getItem('rawverbs.exam')).met[id], part.id);
  const [first] = part.goals;
  await press(page, 'exam.to.1');
  assert.deepEqual(await kept(), part.goals);
  await almostDone(page, part.id);
  await press(page, 'exam.restart');
  for (const action of part.solution.slice(0, -1)) await perform(page, action); // the last poll is missing
  assert.deepEqual(await kept(), [first]);
  await at(page, 'scrub').fill('0');
  assert.equal(await metGoals(page), 0);
  await press(page, 'exam.to.1');
  assert.deepEqual(await kept(), [first]);
});
