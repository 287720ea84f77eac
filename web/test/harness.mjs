// Drives laboratory.html in Debian's Chromium. A console error, an uncaught exception or a request that
// leaves the file fails the test that opened the page.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { resolve } from 'node:path';
import { after } from 'node:test';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const root = resolve(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '../..');
export const laboratory = resolve(root, 'out/laboratory.html');
// limit is the limit of every wait, in milliseconds. It only ends tests that hang.
const limit = 180_000;
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';

let browser;
let server;
after(() => browser?.close());
after(() => server?.close());

/** Serves the laboratory on loopback, and returns its address. */
async function serve() {
  if (!server) {
    const page = readFileSync(laboratory);
    server = createServer((_, reply) => reply.setHeader('Content-Type', 'text/html').end(page)).listen(0, '127.0.0.1');
    await once(server, 'listening');
  }
  return `http://127.0.0.1:${server.address().port}/`;
}

/** The browser of all tests of a file. */
export const launched = async () => (browser ??= await chromium.launch({ executablePath, timeout: limit, args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] }));

/** Opens a file, or a url, in a new page. Options: hash, width, height, dark, lang; forgive: console errors that may come; fresh: no page was open in this browser before; calm: less motion;
 * clock: the page's clock moves only by page.clock.runFor; served: the laboratory comes by HTTP, because Chromium may lose what the page of a
 * file has stored just before a reload (9 of 150 times beside busy loops; by HTTP never). */
export async function open(t, { file = laboratory, hash = '', width = 1400, height = 900, dark = false, lang = 'en-US', url = '', forgive, fresh = false, calm = false, clock = false, served = false } = {}) {
  if (served) url = await serve();
  assert.ok(url || existsSync(file), `there is no ${file}; try: make test-web`);
  const context = await (await launched()).newContext({
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    locale: lang,
    reducedMotion: calm ? 'reduce' : 'no-preference',
    acceptDownloads: true,
  });
  context.setDefaultTimeout(limit);
  if (!fresh) await context.addInitScript(() => { try { localStorage.setItem('rawverbs.opening', 'true'); } catch { /* about:blank has no storage */ } });
  const page = await context.newPage();
  if (clock) {
    await page.clock.install({ time: 0 });
    await page.clock.pauseAt(1000);
  }
  const wrong = [];
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && !forgive?.test(message.text()) && wrong.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => wrong.push(`exception: ${error.stack}`));
  page.on('request', (request) => /^(file|data|blob):/.test(request.url()) || (url && request.url().startsWith(url)) || wrong.push(`request: ${request.url()}`));
  t.after(async () => {
    await context.close();
    assert.deepEqual(wrong, []);
  });
  await page.goto((url || pathToFileURL(file)) + hash);
  await page.waitForSelector('[data-test=title]');
  if (clock) {
    await page.waitForSelector('[data-test=scrub]', { state: 'attached' });
    await page.clock.runFor(100); // the page listens from its first frame on
  }
  return page;
}

/** Returns the locator of the elements with this data-test name. */
export const at = (page, name) => page.locator(`[data-test="${name}"]`);

/** Reloads the page once it has kept a value. It must be served. */
export async function reload(page, name, value) {
  await page.waitForFunction(([key, kept]) => localStorage.getItem(key) === kept, [`rawverbs.${name}`, value]);
  await page.reload();
}
