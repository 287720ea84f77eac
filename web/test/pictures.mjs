// Draws the pictures of the documentation from the laboratory, into docs/images or the folder IMAGES. It needs Chromium and pngquant:
//
//   make laboratory web && cd web && node --test test/pictures.mjs
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { at, open } from './harness.mjs';
import { clock, fill, perform, press } from './perform.mjs';

const images = process.env.IMAGES ?? resolve(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '../../docs/images');
const mostBytes = 150_000;

const lessons = async (page) => JSON.parse(await page.evaluate(() => rawverbs.tables())).value.lessons;

/** Opens a lesson and carries out a part of its solution: the first actions, or all. */
async function solve(page, id, actions) {
  await press(page, `lesson.${id}`);
  const { solution } = (await lessons(page)).find((lesson) => lesson.id === id);
  for (const action of solution.slice(0, actions)) await perform(page, action);
}

const pictures = {
  // The move to RTR without two of its bits, as the device has refused it.
  rtr: {
    draw: async (page) => {
      await solve(page, 'rtr', 0);
      await press(page, 'client.qp.to.RTR');
      await fill(page);
      for (const bit of ['MIN_RNR_TIMER', 'MAX_DEST_RD_ATOMIC']) await at(page, `bit.${bit}`).uncheck();
      await press(page, 'submit');
      await at(page, 'refusal').waitFor();
    },
  },
  // The first message: the packet has arrived, its acknowledgement is on the wire.
  send: {
    draw: async (page) => {
      await solve(page, 'send', 2);
      await clock(page, 'step');
    },
  },
  // The first copy of a packet is lost, the second is on its way.
  loss: {
    dark: true,
    draw: async (page) => {
      await solve(page, 'loss', 4);
      await clock(page, 'step');
      await page.locator('[data-test="packet.2"]').dispatchEvent('click');
    },
  },
  rnr: { lang: 'zh-CN', draw: (page) => solve(page, 'rnr', 2) },
  // The whole lesson: two queue pairs have taken their receives from one queue.
  srq: { draw: (page) => solve(page, 'srq') },
};

for (const [name, { draw, ...options }] of Object.entries(pictures)) {
  test(`picture of the lesson ${name}`, async (t) => {
    const page = await open(t, { width: 1360, height: 850, ...options });
    await draw(page);
    await page.mouse.move(0, 0);
    await page.evaluate(() => {
      document.activeElement?.blur();
      for (const host of document.querySelectorAll('.host')) host.scrollTop = 0;
    });
    const path = resolve(images, `laboratory-${name}.png`);
    await page.screenshot({ path, animations: 'disabled' });
    execFileSync('pngquant', ['--force', '--strip', '--output', path, '256', path]);
    assert.ok(statSync(path).size <= mostBytes, `${path} has ${statSync(path).size} bytes`);
  });
}
