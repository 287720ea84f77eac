// The icons of buttons: 16 units wide, drawn with the colour of the text.
const paths = {
  play: 'M5 3.2v9.6l8-4.8z',
  pause: 'M4.5 3h2.4v10H4.500zM9.100 3h2.400v10H9.100z',
  forward: 'M3 3.500v9l6-4.500zM11 3.500h2v9h-2z',
  back: 'M13 3.500v9L7 8zM3 3.500h2v9H3z',
  step: 'M8 2.500v7.500m0 0L5 7m3 3 3-3M3 13.500h10',
  run: 'M8 1.500v5m0 0L5.500 4M8 6.500 10.500 4M8 7v5m0 0L5.500 9.500M8 12l2.500-2.500M3 14.500h10',
  undo: 'M6 3 2.500 6.500 6 10M3 6.500h6.500a3.500 3.500 0 0 1 0 7H7',
  redo: 'M10 3l3.500 3.500L10 10M13 6.500H6.500a3.500 3.500 0 0 0 0 7H9',
  close: 'M4 4l8 8M12 4l-8 8',
  check: 'M3 8.500l3.500 3.500L13 4.500',
  plus: 'M8 3v10M3 8h10',
  light: 'M8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.500 1.500M11.500 11.500 13 13M13 3l-1.500 1.500M4.500 11.500 3 13M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6z',
  dark: 'M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7z',
  menu: 'M2.500 4h11M2.500 8h11M2.500 12h11',
  help: 'M5.500 6a2.500 2.500 0 1 1 3.500 2.300c-.7.4-1 .8-1 1.700M8 12.700v.100',
};
export type IconName = keyof typeof paths;

const filled = new Set<IconName>(['play', 'pause', 'forward', 'back']);

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class={filled.has(name) ? 'icon filled' : 'icon'} viewBox="0 0 16 16" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
