// Loads the engine that the page carries, and calls it.
import type { Action, Engine, File, Opened, PacketDetail, Reply, Snapshot, Tables } from '../api';
import { bytes } from '../common/format';
import { find, t } from '../texts';

declare global {
  var rawverbs: Engine;
  var rawverbsReady: () => void;
  class Go {
    importObject: WebAssembly.Imports;
    run(instance: WebAssembly.Instance): Promise<void>;
  }
}

/** Unpacks the engine of the element "engine" (base64 of gzip), once it is there, and starts it. */
export async function load(): Promise<void> {
  if (document.readyState === 'loading') await new Promise((resolve) => document.addEventListener('DOMContentLoaded', resolve));
  const element = document.getElementById('engine')!;
  const packed = bytes(element.textContent!);
  element.remove(); // 2.5 MB of text that nobody needs any more
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const code = await new Response(stream).arrayBuffer();
  const ready = new Promise<void>((resolve) => (globalThis.rawverbsReady = resolve));
  const go = new Go();
  const { instance } = await WebAssembly.instantiate(code, go.importObject);
  void go.run(instance); // does not resolve while the page lives
  await ready;
}

function unpack<T>(text: string): T {
  const reply = JSON.parse(text) as Reply<T>;
  if (reply.error !== undefined) throw new Error(reply.error);
  return reply.value as T;
}

/** An error of the page itself, in the reader's language. */
export class PageError extends Error {}

/** An action or a setup as JSON. It has null for NaN, which the engine reads as 0; here NaN is an error. */
export const json = (value: object) =>
  JSON.stringify(value, (name, part: unknown) => {
    if (typeof part === 'number' && isNaN(part)) throw new PageError(t('ui.no-number', { field: (name !== 'lkey' && find(`ui.f.${name}`)) || name }));
    return part;
  });

/** The calls of the engine with types. An error of a call is thrown. */
export const engine = {
  tables: () => unpack<Tables>(rawverbs.tables()),
  open: (text: string) => unpack<Opened>(rawverbs.open(text)),
  close: (session: number) => unpack<true>(rawverbs.close(session)),
  do: (session: number, action: Action) => unpack<Snapshot>(rawverbs.do(session, json(action))),
  snapshot: (session: number, since: number) => unpack<Snapshot>(rawverbs.snapshot(session, since)),
  back: (session: number, n: number) => unpack<Snapshot>(rawverbs.back(session, n)),
  peek: (session: number, at: number, since: number) => unpack<Snapshot>(rawverbs.peek(session, at, since)),
  packet: (session: number, id: number) => unpack<PacketDetail>(rawverbs.packet(session, id)),
  file: (session: number) => unpack<File>(rawverbs.file(session)),
  link: (session: number) => unpack<string>(rawverbs.link(session)),
  record: (session: number) => unpack<string>(rawverbs.record(session)),
  program: (session: number, language: 'c' | 'go') => unpack<string>(rawverbs.program(session, language)),
};
