// The page starts from disk. Its file has 3.3 MB at most, which is most of the work of a start.
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { test } from 'node:test';
import { at, laboratory, open } from './harness.mjs';

test('the file has at most 3.3 MB', () => {
  assert.ok(statSync(laboratory).size <= 3_300_000, `${statSync(laboratory).size} bytes`);
});

test('the page opens from disk', async (t) => {
  await open(t); // starts the browser
  const began = performance.now();
  const page = await open(t);
  t.diagnostic(`${(performance.now() - began).toFixed(0)} ms`);
  assert.equal(await at(page, 'title').count(), 1);
});
