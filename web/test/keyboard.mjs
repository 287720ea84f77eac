// Drives the page by the keyboard alone, as a user without a mouse does.
import assert from 'node:assert/strict';
import { at } from './harness.mjs';

const keyOf = { client: 'c', server: 'v' }; // the page's keys that lead to a host

/** Returns what a user without a mouse can do on the page. */
export function keyboard(page) {
  const focused = () => page.evaluate(() => document.activeElement?.dataset?.test);

  /** Presses Tab until the element has the focus. */
  async function tabTo(name) {
    for (let i = 0; i < 150; i++) {
      if ((await focused()) === name) return;
      await page.keyboard.press('Tab');
    }
    assert.fail(`Tab does not reach ${name}`);
  }

  /** Goes to an element and presses Enter. */
  async function use(name) {
    const key = keyOf[name.split('.')[0]];
    if (key) await page.keyboard.press(key);
    await tabTo(name);
    await page.keyboard.press('Enter');
  }

  /** Opens a dialog and carries out its call with the values that the page offers. */
  async function call(name) {
    await use(name);
    await use('submit');
    assert.equal(await page.locator('dialog[open]').count(), 0, `${name} leaves its dialog open`);
  }

  /** Moves a queue pair with the bits that the transition requires. */
  async function move(host, to) {
    await use(`${host}.qp.to.${to}`);
    const bits = await page.locator('fieldset.bits').first().locator('[data-test^="bit."]:not(:checked)').evaluateAll((boxes) => boxes.map((box) => box.dataset.test));
    if (await at(page, 'fill').count()) await use('fill');
    else for (const bit of bits) { await tabTo(bit); await page.keyboard.press('Space'); }
    await use('submit');
    assert.equal(await at(page, `${host}.qp`).getAttribute('data-state'), to);
  }

  return { tabTo, use, call, move };
}
