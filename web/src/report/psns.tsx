// The graph of PSNs over time, from the packets that the captures have.
import { Graph, type Dot, type DotKind } from '../common/graph';
import { attr, nanoseconds, otherEnd, type Data, type Packet } from './data';
import type { Model } from './model';
import { t, type Key } from './texts';

interface Props {
  data: Data;
  model: Model;
  hidden: boolean; // the filter hides packets
  selected: string;
  select(id: string): void;
}

function kindOf(p: Packet): DotKind {
  if (!p.response) return p.probe ? 'probe' : p.again ? 'again' : 'request';
  if (p.lost) return 'stray';
  if (!p.opcode.endsWith('_ACKNOWLEDGE') || p.opcode.includes('ATOMIC')) return 'response';
  return p.carries?.includes('NAK') ? 'nak' : 'ack';
}

// One dot for each packet: where its requester has sent it or got it, or else where the peer did.
function dotsOf(data: Data, model: Model): Dot[] {
  const dots = new Map<Packet, Dot>();
  // A queue pair that goes to RESET has other PSNs afterwards: another graph.
  const resets = data.events.filter((e) => e.event === 'qp.transition' && attr(e, 'to') === 'RESET' && attr(e, 'error') === '').map((e) => ({ of: `${e.end} ${attr(e, 'qpn')}`, at: nanoseconds(e.time, model.start) }));
  for (const row of model.rows) {
    const p = row.packet;
    if (!p) continue;
    const end = p.response ? otherEnd(p.from) : p.from;
    if (dots.has(p) && row.end !== end) continue;
    const qp = p.response ? p.qpn : p.sender_qp ?? model.pairs.find((pair) => pair[otherEnd(end)] === p.qpn)?.[end] ?? '';
    const of = `${end} ${qp}`;
    const number = resets.filter((r) => r.of === of && r.at < row.at).length;
    dots.set(p, { id: row.id, requester: number ? `${of} ${number + 1}` : of, at: row.at, psn: p.psn, kind: kindOf(p), lost: !!p.lost && !p.response });
  }
  return [...dots.values()].sort((a, b) => a.at - b.at);
}

export function PSNGraph({ data, model, hidden, selected, select }: Props) {
  const named = (requester: string) => {
    const [end = 'client', qp = '', number = ''] = requester.split(' ');
    return { host: t(`report.${end}` as Key), qp, number };
  };
  const words = {
    title(r: string) {
      const { number, ...values } = named(r);
      const title = t('report.graph.title', values);
      return number ? t('report.graph.number', { title, n: number }) : title;
    },
    end: (end: string) => t(`report.${end}` as Key), kind: (kind: string) => t(`report.graph.${kind}` as Key), empty: t(data.packets.length === 0 ? 'report.graph.empty' : hidden ? 'report.graph.hidden' : 'report.graph.others'),
    omitted: (time: string) => t('report.graph.omitted', { time }),
    about: (r: string, n: number, from: string, to: string) => t('report.graph.about', { ...named(r), n, from, to }),
  };
  return <div class="graphbox"><Graph dots={dotsOf(data, model)} selected={selected} onSelect={select} words={words} gaps={model.gaps} /></div>;
}
