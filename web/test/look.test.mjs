// How the page looks and feels: accessibility in both themes, widths, and the work of a step.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { at, launched, laboratory, open, reload } from './harness.mjs';
import { clock, fill, forward, press } from './perform.mjs';
import { steps, watch } from './work.mjs';

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

// The opening, a prediction, the end of a lesson and the examination: each is accessible, legible, and fits.
for (const [width, dark, lang] of [[400, false, 'zh-CN'], [1400, true, 'en-US']]) {
  test(`what guides a learner: ${width} px, ${dark ? 'dark' : 'light'}`, async (t) => {
    const page = await open(t, { fresh: true, calm: true, width, height: width === 400 ? 800 : 900, dark, lang });
    mkdirSync(pictures, { recursive: true });
    const look = async (what, part) => {
      await accessible(page, what, part);
      assert.deepEqual(await small(page), [], what);
      const [inside, outside] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(inside <= outside, `${what}: ${inside} px in ${outside}`);
      await page.screenshot({ path: `${pictures}/${width}-${dark ? 'dark' : 'light'}-${what}.png` });
    };
    const guide = async () => { if (width === 400) await press(page, 'pane.guide'); };
    await press(page, 'opening.next');
    await look('opening');
    await page.goto(page.url() + '#lesson=send');
    await at(page, 'lesson').waitFor();
    if (width === 400) await press(page, 'pane.hosts');
    await press(page, 'client.qp.to.RTS');
    await fill(page);
    await press(page, 'submit');
    await press(page, 'client.qp.post_send');
    await press(page, 'submit');
    await guide();
    await press(page, 'predict.RETRY_EXC_ERR');
    await look('prediction', '.guide');
    await clock(page, 'run');
    await at(page, 'predict.verdict').waitFor();
    await look('verdict', '.guide');
    await press(page, 'lesson.solution');
    await forward(page, 5);
    await at(page, 'answer.2').check();
    await press(page, 'answer.check');
    await look('wrong-answer', '.guide');
    await at(page, 'answer.1').check();
    await press(page, 'answer.check');
    await at(page, 'lesson.end').waitFor();
    await look('lesson-end', '.guide');
    await press(page, 'tab.exam');
    await look('exam', '.guide');
    await press(page, 'exam.start');
    await at(page, 'exam.answer.1').check();
    await look('exam-question', '.guide');
    await press(page, 'exam.next');
    await at(page, 'goal.timeout').waitFor();
    await look('exam-task', '.guide');
    for (let i = 0; i < 2; i++) await press(page, 'exam.end');
    await at(page, 'exam.wrong.exam-init').locator('summary').click();
    await look('exam-result', '.guide');
  });
}

// The quick part has one picture of each kind.
const pictured = process.env.WHOLE ? [400, 800, 1000, 1400, 1600] : [400, 1000, 1400];
for (const width of pictured) {
  for (const dark of process.env.WHOLE ? [false, true] : [width === 1400]) {
    test(`nothing is wider than ${width} px, ${dark ? 'dark' : 'light'}`, async (t) => {
      const page = await open(t, { hash: '#lesson=loss', width, height: width === 400 ? 800 : 900, dark });
      const name = (part) => `${pictures}/${width}-${dark ? 'dark' : 'light'}-${part}.png`;
      mkdirSync(pictures, { recursive: true });
      if (width < 900) await press(page, 'pane.guide');
      await play(page, 10);
      const parts = width < 900 ? ['guide', 'hosts', 'wire', 'details'] : width < 1200 ? ['hosts', 'wire', 'details'] : ['all'];
      for (const part of parts) {
        if (part !== 'all') await press(page, `pane.${part}`);
        const [inside, outside] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(inside <= outside, `${part}: ${inside} px in ${outside}`);
        await page.screenshot({ path: name(part) });
      }
      if (parts.length === 3) { // two panes, as high as the window, also with a packet in the details
        await press(page, 'detail.packet');
        const [guide, dock, all] = await page.evaluate(() => ['.guide', '.dock', 'main'].map((part) => document.querySelector(part).getBoundingClientRect().height));
        assert.deepEqual([guide, dock], [all, all]);
      }
    });
  }
}

// A script that sets the theme would run after the first paint.
test('the pages are dark at once, before any script runs', async (t) => {
  for (const [colorScheme, ground] of [['dark', 'rgb(16, 19, 26)'], ['light', 'rgb(244, 245, 248)']]) {
    const context = await (await launched()).newContext({ colorScheme, javaScriptEnabled: false });
    t.after(() => context.close());
    const page = await context.newPage();
    await page.goto(pathToFileURL(laboratory).href);
    assert.equal(await page.locator('html').evaluate((e) => getComputedStyle(e).backgroundColor), ground);
  }
});

test('the chosen theme is kept, and paper is light', async (t) => {
  const page = await open(t, { hash: '#lesson=loss', dark: true, served: true });
  const ground = () => page.locator('html').evaluate((e) => getComputedStyle(e).backgroundColor);
  const [dark, light] = ['rgb(16, 19, 26)', 'rgb(244, 245, 248)'];
  assert.equal(await ground(), dark);
  await page.emulateMedia({ media: 'print' });
  assert.equal(await ground(), light);
  await page.emulateMedia({ media: 'screen' });
  await press(page, 'theme');
  assert.equal(await ground(), light);
  await reload(page, 'theme', '"light"');
  await at(page, 'lesson').waitFor();
  assert.equal(await ground(), light);
  assert.equal(await at(page, 'theme').getAttribute('aria-pressed'), 'false');
  await press(page, 'theme');
  await page.emulateMedia({ media: 'print' });
  assert.equal(await ground(), light); // though the user chose dark
});

// At 1000 px, details and hosts take turns: what is in one is reached from the other.
test('at 1000 px, the packets fit their pane, and a failure and a packet lead to the details', async (t) => {
  const page = await open(t, { hash: '#lesson=loss', width: 1000, height: 800, lang: 'zh-CN' });
  await play(page, 10);
  await press(page, 'pane.details');
  await press(page, 'detail.packets');
  const [inside, outside] = await page.evaluate(() => { const e = document.getElementById('dock-panel'); return [e.scrollWidth, e.clientWidth]; });
  assert.ok(inside <= outside, `${inside} px in ${outside}`);
  await press(page, 'pane.wire');
  await page.locator('[data-test="packet.1"] .touch').click();
  await press(page, 'wire.details');
  assert.match(await page.locator('.packet-panel').innerText(), /#1\b/);
  const failing = await open(t, { hash: '#mistake=bad-rkey', width: 1000, height: 800 });
  await press(failing, 'pane.hosts');
  await forward(failing, await failing.evaluate(() => { const m = JSON.parse(rawverbs.tables()).value.mistakes.find(({ name }) => name === 'bad-rkey'); return m.actions.findIndex((a) => a.do === 'poll_cq' && a.host === 'client') + 1 - m.question; }));
  assert.match(await at(failing, 'last-note').innerText(), /^Client REM_ACCESS_ERR: no region[^]*Try: /);
  await press(failing, 'pane.wire');
  assert.equal(await at(failing, 'last-note').isVisible(), false);
  await press(failing, 'pane.hosts');
  await failing.setViewportSize({ width: 1400, height: 900 });
  assert.equal(await at(failing, 'last-note').isVisible(), false); // the details are beside it
  await failing.setViewportSize({ width: 1000, height: 800 });
  await press(failing, 'last-note.more');
  await at(failing, 'status.REM_ACCESS_ERR').waitFor();
  const stalled = await open(t, { hash: '#lesson=rnr', width: 1000, height: 800 });
  await press(stalled, 'pane.hosts');
  await press(stalled, 'client.cq.poll_cq');
  assert.match(await at(stalled, 'last-note').innerText(), /^nothing has completed$/);
  assert.equal(await at(stalled, 'said').evaluate((e) => getComputedStyle(e).opacity), '0'); // it would say the same
});

/** The texts that are smaller than 13 px on the screen, drawings' scales included. */
const small = (page) => page.evaluate(() => {
  const found = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const of = node.parentElement;
    if (!node.textContent.trim() || of.closest('.hidden, script, style, title, option') || of.getClientRects().length === 0) continue;
    const scale = of instanceof SVGElement ? of.getScreenCTM().a : 1;
    const size = parseFloat(getComputedStyle(of).fontSize) * scale;
    if (size < 12.99) found.add(`${size.toFixed(1)} px: ${node.textContent.trim().slice(0, 30)}`);
  }
  return [...found];
});

test('text has at least 13 px', async (t) => {
  const page = await open(t, { hash: '#lesson=loss' });
  await play(page, 10);
  await page.locator('[data-test="packet.1"] .touch').click();
  for (const tab of ['packet', 'result', 'packets', 'events']) {
    await press(page, `detail.${tab}`);
    assert.deepEqual(await small(page), [], tab);
  }
  for (const name of ['client.qp.to.RTR', 'client.qp.post_send', 'session', 'keys']) {
    await press(page, name);
    assert.deepEqual(await small(page), [], name);
    await press(page, 'cancel');
  }
  const narrow = await open(t, { hash: '#lesson=loss', width: 400, height: 800 });
  for (const part of ['guide', 'hosts', 'wire', 'details']) {
    await press(narrow, `pane.${part}`);
    assert.deepEqual(await small(narrow), [], part);
  }
});

for (const width of [1200, 1400]) {
  test(`rows, names and labels are whole at ${width} px`, async (t) => {
    const page = await open(t, { hash: '#lesson=rdma', width });
    await press(page, 'lesson.solution');
    await forward(page, await page.evaluate(() => JSON.parse(rawverbs.tables()).value.lessons.find((l) => l.id === 'rdma').solution.length));
    await page.evaluate(() => document.querySelectorAll('details.attributes').forEach((part) => { part.open = true; }));
    const broken = await page.evaluate(() => {
      const lines = (of, from, to) => {
        const range = document.createRange();
        range.setStart(of, from);
        range.setEnd(of, to);
        return range.getClientRects().length;
      };
      const rows = [...document.querySelectorAll('.memory td:nth-child(2)')].filter((cell) => cell.getClientRects()[0].height > 30).map((cell) => cell.textContent);
      const outside = [...document.querySelectorAll('.memory td, .attributes td')].filter((cell) => cell.getBoundingClientRect().right > cell.closest('.object').getBoundingClientRect().right).map((cell) => cell.textContent);
      const words = [];
      const walk = (of) => {
        for (const node of of.childNodes) {
          if (node.nodeType !== Node.TEXT_NODE) walk(node);
          else for (const { index, 0: word } of node.data.matchAll(/\w+/g)) if (lines(node, index, index + word.length) > 1) words.push(node.data);
        }
      };
      document.querySelectorAll(innerWidth < 1400 ? '.attributes th, .attributes td:last-child' : '.attributes th, .attributes td').forEach(walk);
      const texts = [...document.querySelectorAll('.wire .message text')];
      const [left, right] = ['left', 'right'].map((side) => document.querySelector(`.lifelines .${side}`).getBBox().x);
      const cut = texts.filter((text) => text.textContent.includes('…') || text.getBBox().x < left || text.getBBox().x + text.getBBox().width > right).map((text) => text.textContent);
      return { rows, outside, words, cut, notes: texts.filter((text) => text.matches('.note')).length };
    });
    assert.ok(broken.notes > 0);
    assert.deepEqual(broken, { rows: [], outside: [], words: [], cut: [], notes: broken.notes });
  });
}

test('the mask of a move is in view at 1400 × 900', async (t) => {
  const page = await open(t, { hash: '#lesson=rtr' });
  await press(page, 'client.qp.to.RTR');
  for (const box of await page.locator('fieldset.bits').first().locator('[data-test^="bit."]').all()) {
    await box.check();
    const { top, bottom } = await page.evaluate(() => document.querySelector('.mask').getBoundingClientRect());
    assert.ok(top > 0 && bottom <= 900, `${top} to ${bottom}`);
  }
});

// Two messages of four packets each cross on the wire.
test('no arrow crosses a label', async (t) => {
  const page = await open(t, { hash: '#lesson=loss' });
  const { actions } = await page.evaluate(() => JSON.parse(rawverbs.file(2)).value ?? JSON.parse(rawverbs.file(1)).value);
  for (const action of actions) if (action.do === 'reg_mr') action.length = 8192;
  const receive = (host) => ({ do: 'post_recv', host, name: 'qp', wrs: [{ id: 1, sgl: [{ mr: 'buf', offset: 4096, length: 4096 }] }] });
  const send = (host) => ({ do: 'post_send', host, name: 'qp', wrs: [{ id: 1, opcode: 'SEND', sgl: [{ mr: 'buf', length: 4000 }] }] });
  const both = [receive('client'), receive('server'), send('client'), send('server')];
  const file = { schema: 'rawverbs-session', version: 1, setup: {}, actions: [...actions, ...both, { do: 'corrupt', packet: 2, bit: 400 }, { do: 'run', ns: 10_000 }, ...both, { do: 'run', ns: 30_000 }] };
  await press(page, 'session');
  await at(page, 'session.file').setInputFiles({ name: 'cross.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(file)) });
  await page.waitForFunction(() => document.querySelectorAll('.wire [data-fate]').length > 10);
  const { labels, crossed } = await page.evaluate(() => {
    const texts = [...document.querySelectorAll('.wire svg .message text, .wire svg .mark text')].map((e) => [e.textContent, e.getBBox()]);
    const lines = [...document.querySelectorAll('.wire svg .message .line')];
    const through = ({ x, y, width, height }, line) => {
      for (let at = 0; at <= line.getTotalLength(); at += 2) {
        const p = line.getPointAtLength(at);
        if (p.x > x && p.x < x + width && p.y > y + 2 && p.y < y + height - 2) return true;
      }
      return false;
    };
    return { labels: texts.length, crossed: texts.filter(([, box]) => lines.some((line) => through(box, line))).map(([text]) => text) };
  });
  assert.ok(labels > 20, `${labels} labels`);
  assert.deepEqual(crossed, []);
});

test('the poster has all states and moves, and prints on one page', async (t) => {
  const page = await open(t);
  await press(page, 'poster');
  const poster = at(page, 'poster.page');
  const rows = await poster.locator('tbody th').allInnerTexts();
  for (const state of ['RESET', 'INIT', 'RTR', 'RTS', 'SQD', 'SQE', 'ERR']) assert.ok(rows.some((row) => row.startsWith(state)), state);
  const { transitions } = await page.evaluate(() => JSON.parse(rawverbs.tables()).value);
  const rtr = transitions.RC.find((m) => m.from === 'INIT' && m.to === 'RTR');
  const cell = await poster.locator('tr', { hasText: 'INIT → RTR' }).locator('td').first().innerText();
  for (const bit of rtr.required) assert.ok(cell.includes(bit), `${bit} in ${cell}`);
  // Each move of the engine's table has its row and its bits, and there is no other.
  const types = ['RC', 'UC', 'UD'];
  const shown = await poster.locator('tr[data-to]').evaluateAll((all) => all.map((row) => ({ from: row.dataset.from.split(' '), to: row.dataset.to, cells: [...row.querySelectorAll('td')].map((cell) => cell.innerText) })));
  for (const [i, type] of types.entries()) {
    const said = shown.flatMap(({ from, to, cells }) => from.filter(() => /STATE/.test(cells[i] ?? cells[0])).map((f) => `${f} ${to}: ${[...(cells[i] ?? cells[0]).matchAll(/[A-Z][A-Z_]+/g)].slice(1).sort().join(' ')}`));
    const legal = transitions[type].map((m) => `${m.from} ${m.to}: ${[...m.required, ...m.optional].sort().join(' ')}`);
    const missing = legal.filter((move) => !said.includes(move));
    assert.deepEqual(missing, [], type);
    // A row of moves without bits is of all types together.
    assert.deepEqual(said.filter((move) => !legal.includes(move) && !types.some((other) => transitions[other].some((m) => move === `${m.from} ${m.to}: `))), [], type);
  }
  assert.deepEqual(await poster.locator('path[data-move*=SQE]').evaluateAll((all) => all.map((path) => path.dataset.move)), ['SQE RTS', 'RTS SQE']);
  await accessible(page, 'poster', 'dialog');
  assert.deepEqual(await small(page), []);
  for (const language of ['en', 'zh']) {
    const direct = await open(t, { hash: '#poster', lang: language, dark: language === 'zh' });
    await at(direct, 'poster.page').waitFor();
    const pdf = (await direct.pdf({ preferCSSPageSize: true })).toString('latin1');
    assert.equal(pdf.match(/\/Type\s*\/Page\b/g).length, 1, language);
    assert.match(pdf, /MediaBox\s*\[0 0 84[12]/); // A4, landscape
  }
});

// The time of a step is only printed. What a step does must not grow with the session.
test('a step in a session of 10,000 events does no more than in a short one', async (t) => {
  const page = await open(t, { hash: '#lesson=rdma' });
  const write = { id: 1, opcode: 'RDMA_WRITE', sgl: [{ mr: 'buf', length: 16 }], remote: { mr: 'buf' } };
  const round = [{ do: 'post_send', host: 'client', name: 'qp', wrs: [write] }, { do: 'run' }, { do: 'poll_cq', host: 'client', name: 'cq' }];
  const { actions: start } = await page.evaluate(() => JSON.parse(rawverbs.file(2)).value ?? JSON.parse(rawverbs.file(1)).value);
  await watch(page);
  async function work(length) {
    const actions = [...start];
    while (actions.length < length) actions.push(...round);
    const file = { schema: 'rawverbs-session', version: 1, setup: {}, actions };
    await press(page, 'session');
    await at(page, 'session.file').setInputFiles({ name: 'long.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(file)) });
    await page.waitForFunction((n) => document.querySelector('[data-test=scrub]').max === String(n), actions.length);
    await press(page, 'detail.events');
    // From the middle on, one moment at a time.
    await at(page, 'scrub').fill(String(actions.length - 60));
    const moment = () => at(page, 'scrub').inputValue().then(Number);
    const first = await moment();
    const { most, ms } = await steps(page, 21, () => forward(page, 1));
    assert.equal(await moment(), first + 21);
    const events = Number(await page.locator('#tab-events .count').innerText());
    const elements = await page.locator('*').count();
    t.diagnostic(`a step through ${events} events: ${ms.toFixed(1)} ms of scripting in the median; at most ${JSON.stringify(most)}; ${elements} elements`);
    return { events, most: { ...most, elements } };
  }
  const short = await work(760);
  const long = await work(15_100);
  assert.ok(long.events >= 10_000, `${long.events} events`);
  for (const [what, n] of Object.entries(long.most)) assert.ok(n <= 1.1 * short.most[what], `${n} ${what}, and ${short.most[what]} in a short session`);
});
