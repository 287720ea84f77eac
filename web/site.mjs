// Builds the static site: the laboratory, the documentation, a sample report. Any web server can host
// it, and it opens from disk. All links between its files are relative.
//
//   node site.mjs OUT LABORATORY REPORT
//
// The pages are README.md and every file of Markdown that can be reached from it by links. A file of
// another kind that is linked is copied as text, and a folder becomes a page that lists it.
import { marked } from 'marked';
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, extname, join, posix, relative, resolve } from 'node:path';

const [out, laboratory, report] = process.argv.slice(2);
const root = resolve(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '..');
const tracked = new Set(execFileSync('git', ['-c', 'safe.directory=*', '-C', root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8', maxBuffer: 1 << 26 }).split('\0'));

/** The places that are always there, in the order of the navigation. */
const places = [
  ['laboratory.html', 'Laboratory'],
  ['report.html', 'Report'],
  ['docs/README.md', 'Docs'],
  ['docs/qp-states.md', 'States'],
  ['docs/jobs/README.md', 'Jobs'],
  ['docs/on-the-wire.md', 'On the wire'],
  ['docs/mistakes.md', 'Mistakes'],
  ['docs/errors.md', 'Errors'],
  ['docs/glossary.md', 'Glossary'],
  ['docs/setup.md', 'Set up'],
  ['docs/benchmarks.md', 'Benchmarks'],
  ['ARCHITECTURE.md', 'Architecture'],
];

const isImage = (path) => ['.png', '.svg', '.jpg', '.gif'].includes(extname(path));
const isFolder = (path) => existsSync(join(root, path)) && statSync(join(root, path)).isDirectory();

/** The file of the site for a file or folder of the repository. */
function pageOf(path) {
  if (path === 'README.md') return 'index.html';
  if (isFolder(path)) return tracked.has(posix.join(path, 'README.md')) ? pageOf(posix.join(path, 'README.md')) : posix.join(path, 'index.html');
  if (path.endsWith('.md')) return path.replace(/\.md$/, '.html');
  return isImage(path) || path.endsWith('.html') ? path : `${path}.txt`;
}

/** The anchor of a heading, as GitHub makes it. */
function slugs() {
  const seen = new Map();
  return (text) => {
    const slug = text.toLowerCase().replace(/[^\p{L}\p{N}\p{M}_\- ]/gu, '').replaceAll(' ', '-');
    const n = seen.get(slug) ?? 0;
    seen.set(slug, n + 1);
    return n ? `${slug}-${n}` : slug;
  };
}

const plain = (html) => html.replace(/<[^>]*>/g, '').replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => ({ amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" })[name]);
const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);

const waiting = [];
const known = new Set();
function need(path) {
  const file = isFolder(path) && tracked.has(posix.join(path, 'README.md')) ? posix.join(path, 'README.md') : path;
  if (!known.has(file)) {
    known.add(file);
    waiting.push(file);
  }
}

/** Returns the link to a place from a page, and builds the place. */
function link(href, from) {
  if (/^[a-z]+:|^#/i.test(href)) return href;
  const [path, anchor] = href.split('#');
  let target = posix.normalize(posix.join(posix.dirname(from), decodeURIComponent(path))).replace(/\/$/, '');
  if (target === '.') target = 'README.md';
  if (!existsSync(join(root, target))) throw new Error(`${from} has a link to ${href}, which does not exist`);
  need(target);
  return (posix.relative(posix.dirname(pageOf(from)), pageOf(target)) || basename(pageOf(from))) + (anchor ? `#${anchor}` : '');
}

function body(path) {
  const slug = slugs();
  const tokens = marked.lexer(readFileSync(join(root, path), 'utf8'));
  const renderer = new marked.Renderer();
  renderer.heading = function ({ tokens, depth }) {
    const html = this.parser.parseInline(tokens);
    const id = slug(plain(html));
    return `<h${depth} id="${id}"><a class="anchor" href="#${id}">${html.replace(/<\/?a\b[^>]*>/g, '')}</a></h${depth}>\n`;
  };
  renderer.link = function ({ href, tokens }) {
    return `<a href="${escaped(link(href, path))}">${this.parser.parseInline(tokens)}</a>`;
  };
  renderer.image = function ({ href, text }) {
    return `<img src="${escaped(link(href, path))}" alt="${escaped(text)}" loading="lazy">`;
  };
  const table = renderer.table;
  renderer.table = function (token) {
    return `<div class="table">${table.call(this, token)}</div>`;
  };
  const html = marked.parser(tokens, { renderer });
  // Raw HTML in Markdown has links of its own.
  return html.replace(/(<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=")([^"#:]+\.(?:md|png|svg))(#[^"]*)?(")/g, (all, before, href, anchor, after) =>
    known.has(href) || !existsSync(join(root, dirname(path), href)) ? all : before + link(href + (anchor ?? ''), path) + after,
  );
}

const style = readFileSync(join(root, 'web/src/common/theme.css'), 'utf8') + readFileSync(join(root, 'web/site.css'), 'utf8');

function write(path, title, content) {
  const page = pageOf(path);
  const up = (to) => posix.relative(posix.dirname(page), to) || basename(to);
  const nav = places.map(([place, name]) => `<a href="${up(pageOf(place))}"${place === path ? ' aria-current="page"' : ''}>${name}</a>`).join('\n');
  put(page, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)} · rawverbs</title>
<link rel="stylesheet" href="${up('site.css')}">
</head>
<body>
<header class="bar"><a class="name" href="${up('index.html')}">rawverbs</a>
<nav aria-label="Pages">
${nav}
</nav></header>
<main>
${content}
</main>
</body>
</html>
`);
}

function put(page, content) {
  mkdirSync(dirname(join(out, page)), { recursive: true });
  writeFileSync(join(out, page), content);
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
put('site.css', style);
copyFileSync(laboratory, join(out, 'laboratory.html'));
copyFileSync(report, join(out, 'report.html'));
need('README.md');
for (const [place] of places) if (place.endsWith('.md')) need(place);
let pages = 0;
for (let path; (path = waiting.shift()); ) {
  if (isFolder(path)) {
    const inside = readdirSync(join(root, path)).filter((name) => tracked.has(posix.join(path, name)) || [...tracked].some((f) => f.startsWith(`${path}/${name}/`)));
    const items = inside.map((name) => `<li><a href="${escaped(link(name, posix.join(path, 'x')))}">${escaped(name)}</a></li>`);
    // The links are relative to the page of the folder, which is in the folder.
    write(path, path, `<h1>${escaped(path)}</h1>\n<ul>${items.join('\n')}</ul>`);
  } else if (path.endsWith('.md')) {
    const html = body(path);
    write(path, plain(/<h1[^>]*>(.*?)<\/h1>/s.exec(html)?.[1] ?? path), html);
  } else if (isImage(path)) {
    mkdirSync(dirname(join(out, path)), { recursive: true });
    copyFileSync(join(root, path), join(out, path));
    continue;
  } else {
    put(pageOf(path), readFileSync(join(root, path)));
    continue;
  }
  pages++;
}
console.log(`${relative(process.cwd(), out) || out}: ${pages} pages; open ${join(out, 'index.html')}`);
