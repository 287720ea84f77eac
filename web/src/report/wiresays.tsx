// What the packets and the completions say of a run that has failed: the last answer, what was sent after it in vain, and
// how many requests were flushed.
import { attr, nanoseconds, otherEnd, type Data, type End } from './data';
import { opcodeText, psn } from './model';
import { moment, named, t } from './texts';

const ends: End[] = ['client', 'server'];

interface Said {
  text: string;
  row?: string; // that it is about
}

export function WireSays({ data, start, select }: { data: Data; start: string; select(row: string): void }) {
  const said = [...ends.flatMap((end) => answers(data, end, start)), ...ends.flatMap((end) => flushed(data, end))];
  if (said.length === 0) return null;
  return (
    <ul class="wire-says" data-test="wire-says">
      {said.map(({ text, row }) => <li key={text}>{row ? <button class="link" onClick={() => select(row)}>{text}</button> : text}</li>)}
    </ul>
  );
}

// The last answer that an end has got, if the packets that it has sent later have none.
function answers(data: Data, end: End, start: string): Said[] {
  const at = (time: string | undefined) => (time ? nanoseconds(time, start) : -1);
  const got = data.packets.filter((p) => p.response && p.from === otherEnd(end) && p.received).sort((a, b) => at(a.received) - at(b.received));
  const last = got.at(-1);
  const since = at(last?.received);
  const later = data.packets.filter((p) => !p.response && p.from === end && at(p.sent) > since);
  const again = later.filter((p) => p.again || p.probe).length;
  if (again === 0) return []; // what is answered, or never asked again, is not the cause
  const values = { end: t(`report.${end}`), peer: t(`report.${otherEnd(end)}`) };
  const cut = data.captures.some((c) => c.end === end && c.omitted && (!c.omitted_until || at(c.omitted_until) > since)); // some of them are not here
  return [
    last ? { row: `p${data.packets.indexOf(last)}r`, text: t('report.wire.last', { ...values, time: moment(since), what: last.carries ? named(last.carries) : opcodeText(last.opcode), psn: psn(last.psn) }) } : { text: t('report.wire.never', values) },
    { text: cut ? t('report.wire.vain.some', values) : t('report.wire.vain', { ...values, n: later.length, again }) },
  ];
}

function flushed(data: Data, end: End): Said[] {
  const n = data.events.filter((e) => e.end === end && e.event === 'wr.completed' && attr(e, 'status') === 'IBV_WC_WR_FLUSH_ERR').length;
  return n === 0 ? [] : [{ text: t('report.wire.flushed', { end: t(`report.${end}`), n }) }];
}
