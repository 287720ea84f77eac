// What the packets and the completions say of a run that has failed: the last answer, what was sent after it in vain, and
// how many requests were flushed.
import { useMemo } from 'preact/hooks';
import { attr, nanoseconds, otherEnd, type Data, type End, type Packet } from './data';
import { packetWhat, psn } from './model';
import { language, moment, t } from './texts';

const ends: End[] = ['client', 'server'];

interface Said {
  text: string;
  row?: string; // that it is about
}

export function WireSays({ data, start, select }: { data: Data; start: string; select(row: string): void }) {
  const said = useMemo(() => [...ends.flatMap((end) => answers(data, end, start)), ...ends.flatMap((end) => flushed(data, end))], [data.events, data.packets, language()]);
  if (said.length === 0) return null;
  return (
    <ul class="wire-says" data-test="wire-says">
      {said.map(({ text, row }) => <li key={text}>{row ? <button class="link" onClick={() => select(row)}>{text}</button> : text}</li>)}
    </ul>
  );
}

// The last answer that an end has got, if the packets that it has sent later have none. Of several queue pairs it says nothing,
// and neither if the page lacks packets behind that answer: another one may be among them.
function answers(data: Data, end: End, start: string): Said[] {
  const requests = data.packets.filter((p) => !p.response && p.from === end && p.sent);
  if (new Set(requests.map((p) => p.qpn)).size > 1) return [];
  const last = data.packets.filter((p) => p.response && p.from === otherEnd(end) && p.received).reduce<Packet | undefined>((most, p) => (most && most.received! > p.received! ? most : p), undefined);
  const since = last?.received ?? '';
  const later = requests.filter((p) => p.sent! > since);
  const again = later.filter((p) => p.again || p.probe).length;
  const lacks = data.live || data.captures.some((c) => c.end === end && (c.cut || (c.omitted && (!c.omitted_until || c.omitted_until > since))));
  if (again === 0 || lacks) return []; // what is answered, or never asked again, is not the cause
  const values = { end: t(`report.${end}`), peer: t(`report.${otherEnd(end)}`), n: later.length, again };
  if (!last) return [{ text: t('report.wire.never', values) }];
  return [{ row: `p${data.packets.indexOf(last)}r`, text: t('report.wire.last', { ...values, time: moment(nanoseconds(since, start)), what: packetWhat(last), psn: psn(last.psn) }) }, { text: t('report.wire.vain', values) }];
}

// Completions that the program has polled, and those that it has only counted at its end.
function flushed(data: Data, end: End): Said[] {
  const own = data.events.filter((e) => e.end === end);
  const polled = own.filter((e) => e.event === 'wr.completed' && attr(e, 'status') === 'IBV_WC_WR_FLUSH_ERR').length;
  const n = own.filter((e) => e.event === 'qp.drained').reduce((sum, e) => sum + Number(attr(e, 'flushed')), polled);
  return n === 0 ? [] : [{ text: t('report.wire.flushed', { end: t(`report.${end}`), n }) }];
}
