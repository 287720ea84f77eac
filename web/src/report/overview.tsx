// The whole run in a narrow strip: a line for each row, errors in red, and the window on it.
import { useEffect, useRef } from 'preact/hooks';
import { isDark } from '../common/theme';
import type { Places } from './geometry';
import type { Model } from './model';

export function Overview({ model, places, top, view, rowHeight, go }: { model: Model; places: Places; top: number; view: number; rowHeight: number; go(top: number): void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const whole = places.all * rowHeight;
  useEffect(() => {
    const c = canvas.current;
    const paper = c?.getContext('2d');
    if (!c || !paper) return;
    const colourOf = (name: string) => ((c.style.color = `var(${name})`), getComputedStyle(c).color);
    const colour = { client: colourOf('--client'), server: colourOf('--server'), quiet: colourOf('--wire'), failed: colourOf('--bad') };
    const [width, height] = [c.clientWidth, c.clientHeight];
    c.width = width * devicePixelRatio;
    c.height = height * devicePixelRatio;
    paper.scale(devicePixelRatio, devicePixelRatio);
    const thick = Math.max(1, Math.min(3, height / Math.max(1, places.all)));
    for (const failed of [false, true]) {
      model.rows.forEach((r, i) => {
        if (r.failed !== failed) return;
        const quiet = r.kind === 'object' || r.kind === 'message' || r.kind === 'note' || r.kind === 'dump';
        paper.fillStyle = failed ? colour.failed : quiet ? colour.quiet : colour[r.end];
        const half = width / 2 - 4;
        paper.fillRect(failed ? 2 : r.end === 'client' ? 4 : width / 2, (places.of[i]! / places.all) * height, failed ? width - 4 : half, failed ? Math.max(3, thick) : thick);
      });
    }
  }, [model, view, isDark()]);
  if (whole <= view || view === 0) return null;
  const drag = (e: PointerEvent) => {
    if (e.buttons === 0 && e.type !== 'pointerdown') return;
    const box = canvas.current!.getBoundingClientRect();
    go(((e.clientY - box.top) / box.height) * whole - view / 2);
  };
  return (
    <div class="overview" aria-hidden="true" onPointerDown={(e) => (e.currentTarget.setPointerCapture(e.pointerId), drag(e))} onPointerMove={drag}>
      <canvas ref={canvas} />
      <div class="window" style={{ top: `${(top / whole) * 100}%`, height: `${Math.max(1, (view / whole) * 100)}%` }} />
    </div>
  );
}
