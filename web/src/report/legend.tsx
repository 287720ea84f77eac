// What the signs mean, where the packets come from, and the keys.
import type { ComponentChildren } from 'preact';
import type { Data } from './data';
import { captureText, duration, marked, t, type Key } from './texts';

export function Legend({ data }: { data: Data }) {
  const clock = data.record?.clock;
  return (
    <aside class="legend" tabIndex={0} aria-label={t('report.help')} data-test="legend">
      <ul>
        <Sign text="report.legend.tcp">
          <path class="sign message" d="M2 8H46M40 4l6 4l-6 4" />
        </Sign>
        <Sign text="report.legend.packet">
          <path class="sign packet" d="M2 8H46M40 4l6 4l-6 4" />
        </Sign>
        <Sign text="report.legend.half">
          <path class="sign life" d="M2 1V15M46 1V15" />
          <path class="sign packet" d="M2 8H20" />
          <path class="sign packet dashed" d="M20 8H36" />
          <path class="sign packet" d="M30 4l6 4l-6 4" />
        </Sign>
        <Sign text="report.legend.inferred">
          <path class="sign packet dashed" d="M2 8H46" />
          <path class="sign packet" d="M40 4l6 4l-6 4" />
        </Sign>
        <Sign text="report.legend.lost">
          <path class="sign packet" d="M2 8H30" />
          <path class="sign failed" d="M28 4l8 8M28 12l8 -8" />
        </Sign>
        {data.packets.some((p) => p.probe) && (
          <Sign text="report.legend.probe">
            <path class="sign packet" d="M2 8H46M40 4l6 4l-6 4" />
          </Sign>
        )}
        <li class="states">
          {t('report.legend.state')}
          {['RESET', 'INIT', 'RTR', 'RTS', 'SQD', 'SQE', 'ERR', 'ordinary'].map((s) => (
            <span key={s}>
              <svg width="10" height="14" aria-hidden="true">
                <rect class={`state ${s}`} width="6" height="14" x="2" rx="3" />
              </svg>
              {s === 'ordinary' ? t('report.legend.ordinary') : s}
            </span>
          ))}
        </li>
      </ul>
      <div>
        {data.captures.length > 0 && <h2>{t('report.captures')}</h2>}
        {data.captures.map((c) => (
          <p key={c.name} data-test="capture">
            <strong>{c.name}</strong> · {t('report.packets', { n: c.packets })} · {t('report.capture.at', { end: t(`report.${c.end}`), why: captureText(c.why) })}
            {c.others > 0 && <> · {t('report.capture.others', { n: c.others })}</>}
            {!!c.omitted && <> · {t('report.capture.omitted', { n: c.omitted })}</>}
            {c.cut && <> · {marked(c.cut)}</>}
          </p>
        ))}
        {clock && <p>{t('report.clock', { time: duration(clock.uncertainty_ns) })}</p>}
      </div>
      <div>
        <h2>{t('report.keys')}</h2>
        <dl class="keys">
          {(
            [
              ['↑ ↓', 'move'],
              ['Page ↑ ↓', 'page'],
              ['Home End', 'ends'],
              ['+ −', 'zoom'],
              ['E', 'failure'],
              ['F', 'fold'],
              ['Enter Esc', 'details'],
              ['T', 'table'],
              ['P', 'graph'],
            ] as const
          ).map(([key, name]) => (
            <div key={name}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{t(`report.key.${name}` as Key)}</dd>
            </div>
          ))}
        </dl>
      </div>
    </aside>
  );
}

function Sign({ text, children }: { text: Key; children: ComponentChildren }) {
  return (
    <li>
      <svg width="48" height="16" aria-hidden="true">
        {children}
      </svg>
      {t(text)}
    </li>
  );
}
