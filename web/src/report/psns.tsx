// The graph of PSNs over time, from the packets that the captures have.
import { Graph, type Dot, type DotKind } from '../common/graph';
import { otherEnd, type Packet } from './data';
import type { Model } from './model';
import { t, type Key } from './texts';

interface Props {
  model: Model;
  selected: string;
  select(id: string): void;
}

function kindOf(p: Packet): DotKind {
  if (!p.response) return p.again ? 'again' : 'request';
  if (!p.opcode.endsWith('_ACKNOWLEDGE') || p.opcode.includes('ATOMIC')) return 'response';
  return p.carries?.includes('NAK') ? 'nak' : 'ack';
}

// One dot for each packet: where its requester has sent it or got it, or else where the peer did.
function dotsOf(model: Model): Dot[] {
  const dots = new Map<Packet, Dot>();
  for (const row of model.rows) {
    const p = row.packet;
    if (!p) continue;
    const end = p.response ? otherEnd(p.from) : p.from;
    if (dots.has(p) && row.end !== end) continue;
    const qp = p.response ? p.qpn : p.sender_qp ?? model.pairs.find((pair) => pair[otherEnd(end)] === p.qpn)?.[end] ?? '';
    dots.set(p, { id: row.id, requester: `${end} ${qp}`, at: row.at, psn: p.psn, kind: kindOf(p), lost: !!p.lost });
  }
  return [...dots.values()].sort((a, b) => a.at - b.at);
}

export function PSNGraph({ model, selected, select }: Props) {
  const named = (requester: string) => {
    const [end = 'client', qp = ''] = requester.split(' ');
    return { host: t(`report.${end}` as Key), qp };
  };
  const words = {
    title: (r: string) => t('report.graph.title', named(r)), kind: (kind: string) => t(`report.graph.${kind}` as Key), empty: t('report.graph.empty'),
    about: (r: string, n: number, from: string, to: string) => t('report.graph.about', { ...named(r), n, from, to }),
  };
  return <div class="graphbox"><Graph dots={dotsOf(model)} selected={selected} onSelect={select} words={words} /></div>;
}
