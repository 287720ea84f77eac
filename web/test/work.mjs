// Counts what a page does for a step. Unlike its time, that does not depend on the host.

/** Starts to count: changes of the page, and calls of the engine with the lengths of their replies. */
export const watch = (page) => page.evaluate(() => {
  const work = { changes: 0, calls: 0, bytes: 0 };
  new MutationObserver((records) => { work.changes += records.length; }).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
  for (const [name, call] of Object.entries(globalThis.rawverbs ?? {})) {
    rawverbs[name] = (...args) => {
      const reply = call(...args);
      work.calls++;
      work.bytes += reply.length;
      return reply;
    };
  }
  globalThis.work = work;
});

/** Returns the work of each of n steps: of a function that makes one and waits until it is drawn. */
export async function steps(page, n, step) {
  const client = await page.context().newCDPSession(page);
  await client.send('Performance.enable');
  const scripting = async () => (await client.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration').value * 1000;
  const all = [];
  for (let i = 0; i < n; i++) {
    const before = await scripting();
    await page.evaluate(() => { Object.assign(work, { changes: 0, calls: 0, bytes: 0 }); });
    await step(i);
    all.push({ ...(await page.evaluate(() => work)), ms: (await scripting()) - before });
  }
  const of = (name) => all.map((step) => step[name]).sort((a, b) => a - b);
  return { most: Object.fromEntries(['changes', 'calls', 'bytes'].map((name) => [name, of(name).at(-1)])), ms: of('ms')[n >> 1] };
}
