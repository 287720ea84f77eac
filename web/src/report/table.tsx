// The rows as a table, for screen readers and for searching. A page has 250 rows.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Model } from './model';
import { moment, t, type Key } from './texts';

const perPage = 250;

export function Table({ model, selected, select }: { model: Model; selected: string; select(id: string): void }) {
  const [page, setPage] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const at = model.rows.findIndex((r) => r.id === selected);
    if (at >= 0) setPage(Math.floor(at / perPage));
  }, [selected]);
  const pages = Math.max(1, Math.ceil(model.rows.length / perPage));
  const now = Math.min(page, pages - 1);
  useLayoutEffect(() => {
    box.current!.querySelector('tr.selected')?.scrollIntoView({ block: 'nearest' });
  }, [selected, now]);
  const shown = model.rows.slice(now * perPage, (now + 1) * perPage);
  return (
    <div class="tablebox">
      <div class="scroll" ref={box} tabIndex={0} role="region" aria-label={t('report.table.caption')}>
        <table class="rows" aria-rowcount={model.rows.length + 1} data-test="table">
          <caption class="hidden">{t('report.table.caption')}</caption>
          <thead>
            <tr>
              {(['n', 'time', 'end', 'kind', 'what'] as const).map((name) => (
                <th key={name} scope="col">
                  {t(`report.table.${name}`)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((r, i) => (
              <tr key={r.id} class={`${r.failed ? 'failed' : ''} ${r.id === selected ? 'selected' : ''}`} aria-rowindex={now * perPage + i + 2} data-id={r.id} data-kind={r.kind}>
                <td>{now * perPage + i + 1}</td>
                <td class="number">{moment(r.at)}</td>
                <td>
                  <span class={`tag ${r.end}`}>{t(`report.${r.end}`)}</span>
                </td>
                <td>{t(`report.one.${r.kind}` as Key)}</td>
                <td>
                  <button class="link" onClick={() => select(r.id)}>
                    {r.received ? '← ' : r.kind === 'message' || r.kind === 'packet' ? '→ ' : ''}
                    {r.text}
                  </button>
                  {r.failed && <strong class="failed"> {t('report.table.error')}</strong>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {pages > 1 && (
        <nav class="pages">
          <button disabled={now === 0} onClick={() => setPage(now - 1)}>
            {t('report.page.back')}
          </button>
          <span>{t('report.page', { from: now * perPage + 1, to: Math.min(model.rows.length, (now + 1) * perPage), all: model.rows.length })}</span>
          <button disabled={now === pages - 1} onClick={() => setPage(now + 1)} data-test="next-page">
            {t('report.page.next')}
          </button>
        </nav>
      )}
    </div>
  );
}
