// The theme: the system's, until the user chooses another. theme.css has the colours.
const system = matchMedia('(prefers-color-scheme: dark)');
const { dataset } = document.documentElement;

export const isDark = () => (dataset.theme ? dataset.theme === 'dark' : system.matches);

/** Uses a theme, '' for the system's. */
export function chooseTheme(theme: string) {
  if (theme) dataset.theme = theme;
}

/** Changes from light to dark or back, and returns the theme. */
export const swapTheme = () => (dataset.theme = isDark() ? 'light' : 'dark');

/** Calls changed when the system's theme changes. */
export const onSystemTheme = (changed: () => void) => system.addEventListener('change', changed);
