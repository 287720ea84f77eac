// The report: real runs on soft0, drawn as a page, compared with their record and with the ladder.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { at, open } from './harness.mjs';
import { steps, watch } from './work.mjs';

const root = resolve(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '../..');
const bin = (name) => resolve(root, 'out/test-web', name);
const folder = mkdtempSync(join(tmpdir(), 'rawverbs-report-'));
after(() => rmSync(folder, { recursive: true }));
const file = (name) => join(folder, name);

/** Starts a server and returns its TCP port, and the address of its page if it serves one. */
async function serve(t, ...flags) {
  const server = spawn(bin('rdma_server'), ['--json', ...flags, 'soft0', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => server.kill('SIGKILL'));
  const found = { process: server };
  for await (const line of createInterface({ input: server.stdout })) {
    const e = JSON.parse(line);
    if (e.event === 'server.listening') found.port = e.address.replace(/.*:/, '');
    if (e.event === 'page.served') found.page = `http://${e.address}/`;
    if (found.port && (found.page || !flags.includes('--http'))) break;
  }
  server.stdout.resume();
  assert.ok(found.port, 'the server does not listen');
  return found;
}

/** Runs a job with a record of both ends and captures of both, and returns the record's lines. */
async function record(t, name, ...flags) {
  const { process: server, port } = await serve(t, '--once', '--pcap', file(`${name}-server.pcap`));
  const ended = new Promise((done) => server.on('exit', done));
  execFileSync(bin('rdma_client'), ['--quiet', '--record', file(`${name}.jsonl`), '--report', file(`${name}-own.html`), '--pcap', file(`${name}-client.pcap`), ...flags, '127.0.0.1', 'soft0', port]);
  await ended;
  return readFileSync(file(`${name}.jsonl`), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
}

const lab = (...args) => execFileSync(bin('rdma_lab'), args, { encoding: 'utf8' });

/** Scrolls through the drawing and returns what was drawn of each row: its id, kind and end. */
async function drawn(page) {
  await page.keyboard.press('f'); // open the messages
  return page.evaluate(async () => {
    const box = document.querySelector('[data-test=drawing]');
    const rows = new Map();
    const arrows = new Map();
    for (let top = 0; ; top += box.clientHeight / 2) {
      box.scrollTop = top;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      for (const e of box.querySelectorAll('[data-id]')) rows.set(e.dataset.id, { kind: e.dataset.kind, end: e.dataset.end, text: e.textContent });
      for (const e of box.querySelectorAll('[data-arrow]')) arrows.set(e.dataset.from + e.dataset.arrow + e.getAttribute('class'), { kind: e.dataset.arrow, unseen: e.dataset.unseen, open: e.dataset.open });
      if (top + box.clientHeight >= box.scrollHeight) return { rows: [...rows], arrows: [...arrows.values()] };
    }
  });
}

const count = (list, wanted) => list.filter(wanted).length;

/** The packets of a capture file that soft0 has written. */
const packetsIn = (name) => {
  const bytes = readFileSync(file(name));
  let n = 0;
  for (let at = 24; at < bytes.length; at += 16 + bytes.readUInt32LE(at + 8)) n++;
  return n;
};

for (const [job, ...flags] of [['write-read'], ['send'], ['bulk', '--size', '300K', '--chunk', '20000', '--qps', '2']]) {
  test(`the page and the ladder of ${job} equal the record`, async (t) => {
    const [, ...events] = await record(t, job, '--job', job, ...flags);
    lab('report', '--output', file(`${job}.html`), file(`${job}.jsonl`), file(`${job}-client.pcap`), file(`${job}-server.pcap`));
    const page = await open(t, { file: file(`${job}.html`) });
    const { rows } = await drawn(page);
    const kinds = { 'qp.transition': 'transition', 'wr.posted': 'post', 'wr.completed': 'completion', 'oob.message': 'message' };
    for (const [event, kind] of Object.entries(kinds)) {
      for (const end of ['client', 'server']) {
        const want = events.map((e, i) => [e, i]).filter(([e]) => e.event === event && e.end === end).map(([, i]) => `e${i}`);
        assert.deepEqual(rows.filter(([, r]) => r.kind === kind && r.end === end).map(([id]) => id).sort(), want.sort(), `${kind} of the ${end}`);
      }
    }
    // Each packet of both captures has a row where it was sent and one where it arrived.
    assert.equal(count(rows, ([id]) => id.startsWith('p')), packetsIn(`${job}-client.pcap`) + packetsIn(`${job}-server.pcap`));
    for (const [id, r] of rows) {
      const e = id.startsWith('e') ? events[Number(id.slice(1))] : undefined;
      if (e?.event === 'qp.transition') assert.ok(r.text.includes(`${e.attrs.from}→${e.attrs.to}`), r.text);
      if (e?.event === 'qp.transition' && e.attrs.to === 'ERR') assert.match(r.text, /the normal end of a run/);
      if (e?.event === 'qp.drained') assert.doesNotMatch(r.text, /…/); // between the lifelines there is room for all of it
    }
    // The ladder draws the same steps, and says how many it leaves out.
    const ladder = execFileSync(bin('rdma_client'), ['diagram', file(`${job}.jsonl`)], { encoding: 'utf8' });
    const steps = ladder.split('\n').slice(1, -2);
    const omitted = [...ladder.matchAll(/… (\d+) more like these/g)].reduce((sum, m) => sum + Number(m[1]), 0);
    const flushed = count(events, (e) => e.event === 'qp.drained' && e.attrs.flushed > 0);
    const want = count(rows, ([id, r]) => ['transition', 'post', 'completion'].includes(r.kind) || (r.kind === 'message' && events[Number(id.slice(1))].attrs.sent)) + flushed;
    assert.equal(count(steps, (line) => !line.includes('more like these')) + omitted, want);
    // Of several queue pairs the ladder counts moves that are alike.
    if (!flags.includes('--qps')) assert.equal(count(steps, (line) => line.includes('→')), count(rows, ([, r]) => r.kind === 'transition'));
  });
}

test('packets come from the device itself, and without them arrows are inferred', async (t) => {
  await record(t, 'own', '--job', 'send');
  let page = await open(t, { file: file('own-own.html') });
  let { rows, arrows } = await drawn(page);
  assert.equal(count(rows, ([id]) => id.startsWith('p')), packetsIn('own-client.pcap'));
  assert.ok(arrows.filter((a) => a.kind === 'packet').every((a) => a.unseen === 'begin' || a.unseen === 'end'), JSON.stringify(arrows));
  // Where the time is not known, an arrow does not reach the end's line.
  for (const a of arrows.filter((a) => a.kind === 'packet')) assert.equal(a.open, 'server');
  lab('report', '--output', file('bare.html'), file('own.jsonl'));
  page = await open(t, { file: file('bare.html') });
  ({ rows, arrows } = await drawn(page));
  const requests = arrows.filter((a) => a.kind === 'request');
  assert.ok(requests.length >= 2 && requests.every((a) => a.unseen === 'both'), JSON.stringify(arrows));
  assert.match(await at(page, 'capture-missing').innerText(), /inferred.*--pcap/);
});

/** A report of the record of the job send. change may change its events. */
async function sent(t, name, height, change = () => {}) {
  const [header, ...events] = await record(t, name, '--job', 'send');
  change(events);
  writeFileSync(file(`${name}-new.jsonl`), [header, ...events].map((e) => JSON.stringify(e)).join('\n') + '\n');
  lab('report', '--output', file(`${name}.html`), file(`${name}-new.jsonl`), file(`${name}-client.pcap`));
  return open(t, { file: file(`${name}.html`), height });
}

test('the first screen has the states and the packets, and messages are one line that opens', async (t) => {
  await record(t, 'first', '--job', 'send');
  for (const width of [1400, 400]) {
    const page = await open(t, { file: file('first-own.html'), width, height: 1000 }); // room for a break or two
    const shown = () => page.evaluate(() => {
      const { top, bottom } = document.querySelector('[data-test=drawing]').getBoundingClientRect();
      return [...document.querySelectorAll('[data-hit]')].filter((e) => e.getBoundingClientRect().top >= top - 1 && e.getBoundingClientRect().top < bottom).map((e) => e.dataset.hit);
    });
    const kind = (id) => page.locator(`[data-id=${id}]`).getAttribute('data-kind');
    const first = await shown();
    assert.equal(await kind(first[0]), 'transition');
    if (width === 1400) assert.equal(count(first, (id) => id.startsWith('p')), 4, first.join());
    assert.equal(await page.locator('[data-kind=message]').count(), 0);
    const id = first.find((id) => id.startsWith('f'));
    const fold = page.locator(`[data-id=${id}]`);
    assert.match(await fold.textContent(), /\d TCP messages?: /);
    for (const state of ['open', 'closed']) {
      await page.locator(`[data-hit=${id}]`).click();
      assert.equal(await fold.getAttribute('data-fold'), state);
      assert.equal(await page.locator('[data-kind=message]').count() > 1, state === 'open');
    }
    // States have their names at each width; what does not fit fades out.
    assert.ok(await page.locator('.pill').count() > 4);
    if (width === 400) assert.match(await page.locator('.kinds').evaluate((e) => getComputedStyle(e).maskImage), /gradient/);
    for (const code of await page.locator('[data-test=capture-missing] code span').all()) assert.equal(await code.evaluate((e) => e.getClientRects().length), 1);
  }
});

test('the graph of a few PSNs is low, has a label for each, and the colours of the ends', async (t) => {
  await record(t, 'few', '--job', 'send');
  const page = await open(t, { file: file('few-own.html') });
  await at(page, 'view-graph').click();
  const figures = await page.locator('.graph figure').evaluateAll((all) => all.map((e) => ({
    labels: [...e.querySelectorAll('.grid + text')].length, height: e.querySelector('svg').getBoundingClientRect().height,
    request: getComputedStyle(e.querySelector('.request')).stroke, ack: getComputedStyle(e.querySelector('.ack')).stroke,
  })));
  assert.deepEqual(figures.map((f) => f.labels), [1, 1]);
  for (const f of figures) assert.ok(f.height < 80, `${f.height} pixels`);
  assert.equal(figures[0].request, figures[1].ack);
  assert.equal(figures[1].request, figures[0].ack);
  assert.notEqual(figures[0].request, figures[1].request);
});

test('a long time without events is a break, with its length', async (t) => {
  const later = (time) => new Date(Date.parse(time) + 6000).toISOString().slice(0, 19) + time.slice(19);
  const page = await sent(t, 'break', 3000, (events) => {
    const { time } = events.find((e) => e.event === 'wr.completed');
    for (const e of events) if (e.time >= time) e.time = later(e.time);
  });
  const breaks = at(page, 'break');
  assert.equal(await breaks.count(), 1);
  assert.match(await breaks.textContent(), /^(5\.99|6\.)\d+ s without an event/);
});

test('packets that a page leaves out, and probes, are named', async (t) => {
  await record(t, 'omitted', '--job', 'send');
  const later = (time) => new Date(Date.parse(time) + 6000).toISOString().slice(0, 19) + time.slice(19);
  const html = readFileSync(file('omitted-own.html'), 'utf8').replace(/(id="data">)(.*?)(<\/script>)/s, (_, begin, json, end) => {
    const data = JSON.parse(json);
    const { time } = data.events.find((e) => e.event === 'wr.completed');
    for (const e of data.events) if (e.time >= time) e.time = later(e.time);
    for (const p of data.packets) for (const seen of ['sent', 'received']) if (p[seen] >= time) p[seen] = later(p[seen]);
    Object.assign(data.captures[0], { omitted: 7, omitted_after: time, omitted_until: later(time) });
    data.packets[0].probe = true;
    return begin + JSON.stringify(data).replaceAll('<', '\\u003c') + end;
  });
  writeFileSync(file('omitted.html'), html);
  const page = await open(t, { file: file('omitted.html'), height: 3000 });
  const [, n, all] = /(\d+) of (\d+) packets \(the first and the last\)/.exec(await page.locator('.sums').innerText());
  assert.equal(Number(all), Number(n) + 7);
  assert.match(await at(page, 'break').textContent(), /packets are not drawn, 7 in all/);
  await page.locator('[data-hit^="p0"]').first().click({ force: true });
  assert.match(await at(page, 'details').innerText(), /probe[^]*A tail-loss probe/);
});

test('states have their names, and a capture that is missing is named', async (t) => {
  const page = await sent(t, 'names', 600);
  await page.evaluate(() => { const box = document.querySelector('[data-test=drawing]'); box.scrollTop = 0.65 * box.scrollHeight; });
  await page.waitForFunction(() => ['client', 'server'].every((end) => document.querySelector(`[data-test=now-${end}]`)?.textContent === 'RTS'));
  assert.ok((await page.locator('.pill').allTextContents()).includes('RTS'));
  assert.match(await at(page, 'capture-missing').innerText(), /those that the client's device.*When the server's device saw[^]*--pcap/);
});

test('in the report no arrow crosses a label, and texts have 13 px', async (t) => {
  await record(t, 'labels', '--job', 'bulk', '--size', '300K', '--chunk', '20000');
  lab('report', '--output', file('labels.html'), file('labels.jsonl'), file('labels-client.pcap'), file('labels-server.pcap'));
  const page = await open(t, { file: file('labels.html'), height: 3000 });
  await at(page, 'kind-message').click();
  const { labels, crossed, small } = await page.evaluate(() => {
    const texts = [...document.querySelectorAll('.canvas .label')].map((e) => [e.textContent, e.getBBox()]);
    const lines = [...document.querySelectorAll('.arrow > path:not(.tip)')];
    const through = ({ x, y, width, height }, line) => {
      for (let at = 0; at <= line.getTotalLength(); at += 3) {
        const p = line.getPointAtLength(at);
        if (p.x > x && p.x < x + width && p.y > y + 2 && p.y < y + height - 2) return true;
      }
      return false;
    };
    const all = [...document.querySelectorAll('body *')].filter((e) => e.childElementCount === 0 && e.textContent.trim() && e.getClientRects().length && !e.closest('.hidden, option'));
    return {
      labels: texts.length, crossed: texts.filter(([, box]) => lines.some((line) => through(box, line))).map(([text]) => text),
      small: all.filter((e) => parseFloat(getComputedStyle(e).fontSize) < 12.99).map((e) => e.textContent),
    };
  });
  await at(page, 'view-graph').click();
  const dots = await page.locator('[data-dots]').evaluateAll((all) => all.reduce((sum, e) => sum + Number(e.dataset.dots), 0));
  const packets = await page.evaluate(() => JSON.parse(document.getElementById('data').textContent).packets.length);
  assert.equal(dots, packets);
  assert.ok(labels > 30, `${labels} labels`);
  assert.deepEqual(crossed, []);
  assert.deepEqual(small, []);
});

test('keys, filters, details and the table', async (t) => {
  const [, ...events] = await record(t, 'keys', '--job', 'write-read');
  lab('report', '--output', file('keys.html'), file('keys.jsonl'), file('keys-client.pcap'), file('keys-server.pcap'));
  const page = await open(t, { file: file('keys.html') });
  // The first screen has no set-up, and the keys need no focus.
  assert.equal(await page.locator('[data-kind=object]').count(), 0);
  assert.ok((await page.locator('[data-kind=transition]').count()) > 0);
  await page.keyboard.press('?');
  await at(page, 'legend').waitFor();
  await page.keyboard.press('?');
  await at(page, 'kind-object').click();
  await page.keyboard.press('End');
  await page.waitForFunction(() => document.querySelector('[data-test=selected]').textContent.includes('job succeeded'));
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  await page.waitForFunction(() => document.querySelector('[data-test=selected]').textContent.includes('port 1'));
  await page.keyboard.press('Enter');
  await at(page, 'details').waitFor();
  await page.keyboard.press('Escape');
  await at(page, 'details').waitFor({ state: 'detached' });
  for (const kind of ['message', 'object', 'note', 'packet', 'post', 'completion']) await at(page, `kind-${kind}`).click();
  const transitions = events.map((e, i) => [e, i]).filter(([e]) => e.event === 'qp.transition');
  assert.equal(await at(page, 'drawing').getAttribute('data-rows'), String(transitions.length));
  const [rtr, line] = transitions.find(([e]) => e.attrs.to === 'RTR');
  await page.locator(`[data-hit=e${line}]`).click();
  const changed = await at(page, 'changed').innerText();
  for (const [name, value] of Object.entries(rtr.attrs.attr)) assert.ok(changed.includes(name) && changed.includes(value), `${name} ${value}`);
  await at(page, 'kind-packet').click();
  await page.locator('[data-hit=p0s]').click();
  assert.match(await at(page, 'fields').innerText(), /^BTH[^]*OpCode\s+0–7[^]*DestQP[^]*IPv4/);
  await at(page, 'fields').getByRole('button', { name: 'SE', exact: true }).click();
  assert.match(await at(page, 'field-about').innerText(), /^BTH SE bit 8 · 0\s+solicited event: wakes/);
  await at(page, 'help').click();
  assert.match(await at(page, 'legend').innerText(), /SQE[^]*ERR at the normal end/);
  await at(page, 'help').click();
  await at(page, 'view-table').click();
  const table = await page.locator('[data-test=table] tbody tr').count();
  assert.equal(table, transitions.length + packetsIn('keys-client.pcap') + packetsIn('keys-server.pcap'));
  await at(page, 'language').selectOption('zh');
  assert.match(await page.locator('[data-test=table] thead').innerText(), /时间/);
  // Events are in the page's language; states, opcodes and packets have no other.
  for (const kind of ['object', 'note', 'post', 'message']) await at(page, `kind-${kind}`).click();
  const said = await page.locator(['object', 'note', 'post', 'message'].map((kind) => `[data-kind=${kind}] button.link`).join(', ')).allInnerTexts();
  assert.ok(said.length > 20, `${said.length} rows`);
  for (const text of said) assert.match(text, /[\u4e00-\u9fff]/);
  for (const text of said) assert.doesNotMatch(text, /hello|endpoints|regions|barrier|receives posted|in RTS|\d B\b/);
});

test('a Chinese report says so, and its head ends in an ordinary ERR', async (t) => {
  await record(t, 'chinese', '--job', 'write-read');
  lab('report', '--output', file('chinese.html'), file('chinese.jsonl'), file('chinese-client.pcap'), file('chinese-server.pcap'));
  const page = await open(t, { file: file('chinese.html'), lang: 'zh-CN', height: 300 });
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh');
  await at(page, 'drawing').evaluate((box) => { box.scrollTop = box.scrollHeight; });
  await page.locator('.now rect.ERR').first().waitFor();
  assert.equal(await at(page, 'title').innerText(), '任务 write-read 的运行记录');
  await page.keyboard.press('?');
  assert.doesNotMatch(await page.locator('body').innerText(), /[。：，；] |[^\n] （|作业|（英文）/);
  assert.equal(await page.locator('.now rect.ERR:not(.ordinary)').count(), 0);
});

test('every kind of event has a text in Chinese', () => {
  const sameEverywhere = ['qp.transition', 'log', 'bench.result', 'lab.explained'];
  const section = readFileSync(join(root, 'docs/record.md'), 'utf8').split('\n### The kinds of events\n')[1].split('\n## ')[0];
  const kinds = [...section.matchAll(/^- `([a-z]+(?:\.[a-z]+)?)`/gm)].map((m) => m[1]);
  const texts = new Set([...readFileSync(join(root, 'web/src/texts/zh/events.ts'), 'utf8').matchAll(/^  '([a-z.]+)':/gm)].map((m) => m[1]));
  assert.ok(kinds.length > 60, `${kinds.length} kinds`);
  assert.deepEqual(kinds.filter((kind) => !texts.has(kind) && !sameEverywhere.includes(kind)), []);
  assert.deepEqual([...texts].filter((kind) => !kinds.includes(kind)), []);
});

test('the Chinese texts of captures and failures are those that Go has', () => {
  const files = ['captures', 'collector', 'place', 'join'].map((name) => `cmd/internal/view/report/${name}.go`);
  const go = [...files, 'cmd/internal/app/run/record.go', 'oob/errors.go'].map((name) => readFileSync(join(root, name), 'utf8')).join();
  const keys = [...readFileSync(join(root, 'web/src/texts/zh/captures.ts'), 'utf8').matchAll(/^  "([^"]+)":/gm)].map((m) => m[1]);
  assert.ok(keys.length > 10);
  for (const part of keys.flatMap((key) => key.split(/ ?\{\d\} ?(?:ahead |behind that )?/))) assert.ok(go.includes(part), part);
});

test('errors have hints', async (t) => {
  const [header, ...events] = await record(t, 'errors', '--job', 'write-read');
  const done = events.find((e) => e.event === 'wr.completed');
  Object.assign(done.attrs, { status: 'IBV_WC_RETRY_EXC_ERR' });
  Object.assign(header, { done: false, error: 'it broke', failed_end: 'client' });
  writeFileSync(file('errors.jsonl'), [header, ...events].map((line) => JSON.stringify(line)).join('\n') + '\n');
  lab('report', file('errors.jsonl'));
  const page = await open(t, { file: file('errors.html') });
  assert.match(await at(page, 'error').innerText(), /client[^]*it broke/);
  await page.keyboard.press('e');
  assert.match(await at(page, 'hint').innerText(), /What to try/);
});

test('a failed job has a row, before what is cleaned up after it', async (t) => {
  const [header, ...events] = await record(t, 'failed', '--job', 'write-read');
  const done = events.find((e) => e.event === 'wr.completed');
  const cleanup = events.findIndex((e) => e.event === 'qp.transition' && e.attrs.to === 'ERR');
  const { time, end, who, level } = events[cleanup];
  const error = 'oob: peer 127.0.0.1:1 closed the connection; look at its output for the reason (if it was killed, there is none), then run both ends again';
  events.splice(cleanup, 0, { time, end, who, level: 'DEBUG', msg: `failed: ${error}`, event: 'job.failed', attrs: { error } }, { ...done, time, end, who, level, attrs: { wr_id: 9, status: 'IBV_WC_WR_FLUSH_ERR' } });
  Object.assign(header, { done: false, error, failed_end: 'server' });
  header[end].events += 2;
  writeFileSync(file('failed.jsonl'), [header, ...events].map((line) => JSON.stringify(line)).join('\n') + '\n');
  lab('report', file('failed.jsonl'));
  const page = await open(t, { file: file('failed.html') });
  assert.match(await at(page, 'next-failure').innerText(), /1$/); // what is flushed follows from it
  await page.keyboard.press('e');
  assert.match(await at(page, 'details').innerText(), /the job failed: peer 127\.0\.0\.1:1 closed the connection/);
  await at(page, 'view-table').click();
  await page.locator('tr[data-kind=transition] button', { hasText: 'RTS→ERR' }).first().click();
  assert.match(await at(page, 'cleanup').innerText(), /itself moved the queue pair, because the run had failed: peer/);
});

// A peer that dies is silent at a moment that no run chooses: the page's data is made so that it was.
test('the report of a failed run says what the wire shows', async (t) => {
  await record(t, 'silent', '--job', 'write-read');
  const [, before, text, behind] = /^([^]*<script type="application\/json" id="data">)([^]*?)(<\/script>[^]*)$/.exec(readFileSync(file('silent-own.html'), 'utf8'));
  const write = async (change, options) => {
    const data = JSON.parse(text);
    change(data);
    writeFileSync(file('silent.html'), before + JSON.stringify(data).replaceAll('<', '\\u003c') + behind);
    return open(t, { file: file('silent.html'), ...options });
  };
  const silence = ({ record, packets, events }, answers) => {
    Object.assign(record, { done: false, error: 'it broke', failed_end: 'client' });
    const request = packets.filter((p) => p.from === 'client' && !p.response).at(-1);
    const gone = packets.filter((p) => p.response && p.from === 'server').slice(answers);
    packets.splice(0, packets.length, ...packets.filter((p) => !gone.includes(p)));
    const last = events.at(-1).time;
    for (const more of [{ again: true }, { again: true }, { probe: true }]) packets.push({ ...request, ...more, sent: last });
    const done = events.find((e) => e.end === 'client' && e.event === 'wr.completed');
    for (let i = 0; i < 2; i++) events.push({ ...done, time: last, attrs: { wr_id: 90 + i, status: 'IBV_WC_WR_FLUSH_ERR' } });
  };
  const page = await write((data) => silence(data, 1));
  assert.match(await at(page, 'wire-says').innerText(), /^The last answer of the server arrived after [\d.]+ ms: [^]*, PSN 0x[0-9a-f]{6}\.\nThen the client sent \d+ packets, 3 of them again or as probes; no answer to them arrived\.\nAt the client, \d+ requests ended/);
  await at(page, 'kind-packet').click(); // hidden, and shown again by the link
  await at(page, 'wire-says').locator('button').click();
  assert.match(await at(page, 'details').innerText(), /PSN 0x[0-9a-f]{6}/);
  assert.equal(await at(page, 'kind-packet').getAttribute('aria-pressed'), 'true');
  const sums = () => page.locator('.sums').innerText();
  const all = await sums();
  for (const kind of ['note', 'message', 'packet', 'completion', 'transition']) await at(page, `kind-${kind}`).click();
  assert.equal(await sums(), all); // a filter hides rows, and does not shorten the run
  const never = await write((data) => silence(data, 0), { width: 1000, lang: 'zh-CN' });
  assert.match(await at(never, 'wire-says').innerText(), /^服务端的应答一个也没有到达，尽管客户端发了 \d+ 个报文，其中 3 个是重传或探测。/);
  const lines = await never.evaluate(() => [document.querySelector('.title h1'), document.querySelector('.looks')].map((e) => e.getBoundingClientRect()).map(({ top, bottom }) => (top + bottom) / 2));
  assert.ok(Math.abs(lines[0] - lines[1]) < 12, `the title at ${lines[0]} px, what changes the look at ${lines[1]}`);
  const answered = await write(({ record }) => Object.assign(record, { done: false, error: 'it broke', failed_end: 'client' }));
  assert.equal(await at(answered, 'wire-says').count(), 0); // each request had its answer
});

// The time of a step is only printed. What a step does must not grow with the record.
test('a step through 10,000 events does no more than through a few', async (t) => {
  const [header, ...events] = await record(t, 'long', '--job', 'send');
  const posts = events.filter((e) => e.event === 'wr.posted' && e.verb === 'ibv_post_send');
  const at0 = events.findIndex((e) => e === posts[0]);
  async function work(pairs) {
    const more = [];
    for (let i = 0; i < pairs; i++) more.push({ ...posts[0], attrs: { ...posts[0].attrs, wr_id: 1000 + i } }, { ...events[at0], event: 'wr.completed', verb: 'ibv_poll_cq', attrs: { wr_id: 1000 + i, status: 'IBV_WC_SUCCESS', opcode: 'IBV_WC_SEND' } });
    const all = [...events.slice(0, at0), ...more, ...events.slice(at0)];
    const first = structuredClone(header);
    first[posts[0].end].events += more.length;
    writeFileSync(file('long.jsonl'), [first, ...all].map((line) => JSON.stringify(line)).join('\n') + '\n');
    lab('report', file('long.jsonl'));
    const page = await open(t, { file: file('long.html') });
    await watch(page);
    await at(page, 'drawing').focus();
    const { most, ms } = await steps(page, 30, async (i) => {
      await page.keyboard.press(i % 3 === 2 ? 'PageDown' : 'ArrowDown');
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    });
    const elements = await page.locator('[data-test=drawing] svg *').count();
    t.diagnostic(`a step through ${all.length} events: ${ms.toFixed(1)} ms of scripting in the median; at most ${JSON.stringify(most)}; ${elements} elements`);
    return { ...most, elements };
  }
  const short = await work(500);
  const long = await work(5000);
  for (const [what, n] of Object.entries(long)) assert.ok(n <= 1.1 * short[what], `${n} ${what}, and ${short[what]} in a short record`);
  assert.ok(long.elements < 2000, `${long.elements} elements`);
});

test('pictures fit at all widths, and axe finds nothing', async (t) => {
  await record(t, 'sizes', '--job', 'write-read');
  const axe = readFileSync(resolve(root, 'web/node_modules/axe-core/axe.min.js'), 'utf8');
  for (const [width, dark] of [[400, false], [800, true], [1400, false], [1600, true]]) {
    const page = await open(t, { file: file('sizes-own.html'), width, dark });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${wide} pixels beyond ${width}`);
    await page.keyboard.press('?');
    await page.locator('[data-hit^=e]').first().click({ force: true });
    const session = await page.context().newCDPSession(page);
    await session.send('Page.setBypassCSP', { enabled: true });
    await page.evaluate(axe);
    for (const part of ['html', '.tablebox']) {
      if (part !== 'html') await at(page, 'view-table').click();
      const { violations } = await page.evaluate((where) => globalThis.axe.run(where, { resultTypes: ['violations'] }), part);
      assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target).join(', ')}`), [], `${part}, ${width}`);
    }
  }
});

test('a server shows its clients while they run, and one that dies', async (t) => {
  const { port, page: url, process: server } = await serve(t, '--http', '0');
  const page = await open(t, { url, forgive: /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING/ });
  await page.waitForSelector('[data-test=wire].connected');
  execFileSync(bin('rdma_client'), ['--quiet', '--job', 'send', '127.0.0.1', 'soft0', port]);
  await page.waitForSelector('[data-client="server/1"][data-state=done]');
  const client = spawn(bin('rdma_client'), ['--quiet', '--job', 'bench-write-bw', '-D', '3600', '127.0.0.1', 'soft0', port]);
  t.after(() => client.kill('SIGKILL'));
  await page.waitForSelector('[data-client="server/2"][data-state=running]');
  // Its packets follow, so the moves need not be in view.
  await page.waitForFunction(() => Number(document.querySelector('[data-test=kind-transition] .count')?.textContent) >= 3);
  client.kill('SIGKILL');
  await page.waitForSelector('[data-client="server/2"][data-state=failed]');
  assert.match(await at(page, 'error').innerText(), /closed the connection/);
  await page.locator('[data-client="server/1"]').click();
  await page.waitForFunction(() => document.querySelector('[data-test=title]').textContent === 'Run of the job send');
  // The device's own packets: those that it sent, and those that it received.
  await page.waitForFunction(() => Number(document.querySelector('[data-test=kind-packet] .count')?.textContent) >= 4);
  const { arrows } = await drawn(page);
  const halves = arrows.filter((a) => a.kind === 'packet').map((a) => a.unseen);
  assert.deepEqual([...new Set(halves)].sort(), ['begin', 'end']);
  const ended = new Promise((done) => server.on('exit', done));
  server.kill('SIGINT');
  await ended;
  await page.waitForSelector('[data-test=wire]:not(.connected)');
});
