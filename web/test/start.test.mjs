// The page starts from disk: in two seconds at most, and its file has three megabytes at most.
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { test } from 'node:test';
import { at, laboratory, open } from './harness.mjs';

test('the file has at most 3 MB', () => {
  assert.ok(statSync(laboratory).size <= 3_000_000, `${statSync(laboratory).size} bytes`);
});

test('the page opens from disk in at most 2 s', async (t) => {
  await open(t); // starts the browser
  const times = []; // the best of ten at most: other work of this machine is not the page's
  while (times.length < 10 && !times.some((ms) => ms <= 2000)) {
    const began = performance.now();
    const page = await open(t);
    times.push(performance.now() - began);
    assert.equal(await at(page, 'title').count(), 1);
    await page.close();
  }
  const ms = Math.min(...times);
  t.diagnostic(`${ms.toFixed(0)} ms`);
  assert.ok(ms <= 2000, `${ms} ms`);
});
