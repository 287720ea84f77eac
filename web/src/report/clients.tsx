// The list of a server's clients.
import type { Live } from './live';
import { t } from './texts';

export function Clients({ live, chosen, choose }: { live: Live; chosen: string; choose(who: string): void }) {
  return (
    <nav class="clients" aria-label={t('report.clients')} data-test="clients">
      <p class={live.connected ? 'wire connected' : 'wire'} role="status" data-test="wire">
        {live.connected ? t('report.live.connected') : live.full ? t('report.live.full') : t('report.live.lost')}
      </p>
      {live.clients.length === 0 && <p class="remark">{t('report.clients.none')}</p>}
      <ul>
        {[...live.clients].reverse().map((c) => (
          <li key={c.who}>
            <button class={c.who === chosen ? 'client-button chosen' : 'client-button'} aria-pressed={c.who === chosen} onClick={() => choose(c.who)} data-client={c.who} data-state={c.state}>
              <span class={`badge ${c.state}`}>{t(`report.${c.state}`)}</span>
              <span class="name">{c.job || '…'}</span>
              <span class="peer">{c.peer || c.who}</span>
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}
