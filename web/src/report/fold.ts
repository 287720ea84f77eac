// Messages over TCP that stand together are one row until the reader opens it: the first screen is for the queue pairs.
import type { Arrow, Row } from './model';
import { joined, t } from './texts';

/** Which folds are open: those of but are not as the others are. */
export interface Folds {
  open: boolean;
  but: Set<string>; // ids of rows
}

export const isOpen = (folds: Folds, id: string) => folds.open !== folds.but.has(id);

export function toggled(folds: Folds, id: string): Folds {
  const but = new Set(folds.but);
  if (!but.delete(id)) but.add(id);
  return { ...folds, but };
}

// What ends a group of messages: what a queue pair or its device does. A note or a posted receive does not.
const ends = (r: Row) => r.kind === 'transition' || r.kind === 'packet' || r.kind === 'completion' || r.event?.verb === 'ibv_post_send';

// A barrier has a message of each end: both are in one group, though a queue pair changes its state between them.
function same(last: Group | undefined, a: Arrow, rows: Row[], row: number): Group | undefined {
  const before = last?.messages.at(-1);
  if (!last || !before || before.text !== a.text || before.end === a.end) return undefined;
  return rows.slice(last.at, row).some((r) => ends(r) && r.kind !== 'transition') ? undefined : last;
}

interface Group {
  at: number; // its first row
  to: number; // its last row
  messages: Arrow[];
}

/** Puts a row before each group of messages. Of a group that is not open, it is all that is left, where the last message arrives. */
export function fold(rows: Row[], messages: Arrow[], folds: Folds): Row[] {
  const arrowOf = new Map<number, Arrow>();
  for (const a of messages) for (const row of [a.from, a.to]) arrowOf.set(row, a);
  const groups: Group[] = [];
  const groupOf = new Map<Arrow, Group>();
  let current: Group | undefined;
  rows.forEach((r, row) => {
    const a = arrowOf.get(row);
    if (ends(r)) current = undefined;
    if (!a || a.failed || groupOf.has(a)) return;
    current ??= same(groups.at(-1), a, rows, row);
    if (!current) groups.push((current = { at: row, to: row, messages: [] }));
    current.to = Math.max(current.to, a.from, a.to);
    current.messages.push(a);
    groupOf.set(a, current);
  });
  return rows.flatMap((r, row) => {
    const a = arrowOf.get(row);
    const group = a && groupOf.get(a);
    if (!a || !group) return [r];
    const id = `f${rows[group.at]!.index}`;
    const open = isOpen(folds, id);
    const first = row === (open ? group.at : group.to);
    const head: Row = { ...r, id, text: textOf(group.messages), fold: open ? 'open' : 'closed', event: undefined, qpn: '' };
    return [...(first ? [head] : []), ...(open ? [r] : [])];
  });
}

function textOf(messages: Arrow[]): string {
  const names = [...new Set(messages.map((a) => a.text))];
  return t('report.fold', { n: messages.length, names: joined(names) });
}
