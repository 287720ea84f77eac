// Builds the pages: one script and one style sheet for each entry, into dist/ or the directory that
// the first argument names. The output depends only on the sources and package-lock.json, so that
// `make test-web` can compare it with the committed files.
//
//   node build.mjs [DIRECTORY]
import { build } from 'esbuild';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const out = process.argv[2] ?? 'dist';
const entries = ['lab', 'report'];

mkdirSync(out, { recursive: true });
const { metafile } = await build({
  entryPoints: Object.fromEntries(entries.map((name) => [name, `src/${name}/main.tsx`])),
  outdir: out,
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2021',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  charset: 'utf8',
  legalComments: 'none', // LICENSES.txt has them
  metafile: true,
  logLevel: 'warning',
});
for (const name of entries) copyFileSync(`src/${name}/index.html`, join(out, `${name}.html`));

// The licences of what the pages consist of: the packages in the bundles …
const packages = new Set();
for (const input of Object.keys(metafile.inputs)) {
  const [, name] = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/) ?? [];
  if (name) packages.add(name);
}
const licences = [...packages].sort().map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8'));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, 'utf8').trim()}\n`;
});
// … and the parts of the engine: Go's standard library and runtime, and pkg/errors.
for (const [name, file] of [['Go', 'go'], ['github.com/pkg/errors', 'pkg-errors']]) {
  licences.push(`${name}\n\n${readFileSync(`licences/${file}.txt`, 'utf8').trim()}\n`);
}
writeFileSync(join(out, 'LICENSES.txt'), licences.join('\n'));
