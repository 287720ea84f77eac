// Tests the engine's binding under node: every lesson is solved through the functions of the global
// object, and a long session keeps its answers short.
//
//   node cmd/internal/lab/workbench/engine/test.cjs GOROOT engine.wasm
'use strict';
const fs = require('fs');
const [, , goroot, wasm] = process.argv;
globalThis.crypto ??= require('crypto').webcrypto; // node 18 has no global of this name
require(`${goroot}/lib/wasm/wasm_exec.js`);

const fail = (text) => {
  console.error(text);
  process.exit(1);
};
const call = (name, ...args) => {
  const reply = JSON.parse(rawverbs[name](...args));
  if (reply.error) throw new Error(`${name}: ${reply.error}`);
  return reply.value;
};

function lessons(tables) {
  for (const lesson of tables.lessons) {
    const { session } = call('open', JSON.stringify({ lesson: lesson.id }));
    let last;
    for (const action of lesson.solution) last = call('do', session, JSON.stringify(action));
    const open = last.goals.filter((goal) => goal.met < 0).map((goal) => goal.key);
    if (open.length > 0) fail(`lesson ${lesson.id}: not met: ${open}`);
    const again = call('open', call('link', session));
    if (JSON.stringify(again.snapshot.hosts) !== JSON.stringify(call('snapshot', session, 0).hosts)) {
      fail(`lesson ${lesson.id}: the link's session differs`);
    }
    call('close', session);
    call('close', again.session);
  }
}

// A step of a session of 10,000 actions must leave a page time to draw. Its time is only printed: what the page
// gets must not grow with the session.
function long() {
  const { session } = call('open', JSON.stringify({ lesson: 'rdma' }));
  const write = { id: 1, opcode: 'RDMA_WRITE', sgl: [{ mr: 'buf', length: 16 }], remote: { mr: 'buf' } };
  const round = [
    { do: 'post_send', host: 'client', name: 'qp', wrs: [write] },
    { do: 'step' },
    { do: 'step' },
    { do: 'poll_cq', host: 'client', name: 'cq' },
  ].map((action) => JSON.stringify(action));
  const times = [];
  let early = 0, late = 0; // the longest replies of the first and the last 100 actions
  for (let i = 0; i < 10000; i++) {
    const began = performance.now();
    const reply = rawverbs.do(session, round[i % 4]);
    times.push(performance.now() - began);
    const { length } = reply;
    if (JSON.parse(reply).error) fail(`action ${i}: ${reply}`);
    if (i < 100) early = Math.max(early, length);
    if (i >= 9900) late = Math.max(late, length);
  }
  if (late > 1.1 * early) fail(`one action of 10,000 has a reply of ${late} bytes, and one of 100 of ${early}`);
  times.sort((a, b) => a - b);
  return times[times.length >> 1];
}

globalThis.rawverbsReady = () => {
  const tables = call('tables');
  for (const name of ['nothing', 'do']) {
    if (rawverbs[name] && !JSON.parse(rawverbs[name]()).error) fail(`${name}() without arguments is no error`);
  }
  lessons(tables);
  const median = long();
  console.log(`engine: ${tables.lessons.length} lessons solved; one action of 10,000 takes ${median.toFixed(2)} ms in the median`);
  process.exit(0);
};
const go = new Go();
WebAssembly.instantiate(fs.readFileSync(wasm), go.importObject).then(({ instance }) => go.run(instance), (error) => fail(error));
