// The site: every link leads to a file and a heading that exist.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { after, test } from 'node:test';
import { laboratory } from './harness.mjs';

const root = resolve(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'rawverbs-site-'));
after(() => rmSync(folder, { recursive: true }));

const entities = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };
const decoded = (text) => text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => entities[name]);

test('all links of the site lead somewhere', () => {
  const report = join(folder, 'report.html');
  const data = join(root, 'cmd/internal/view/report/testdata');
  execFileSync(join(root, 'out/test-web/rdma_lab'), ['report', '--output', report, join(data, 'write-read.jsonl'), join(data, 'client.pcap'), join(data, 'server.pcap')]);
  const site = join(folder, 'site');
  execFileSync('node', [join(root, 'web/site.mjs'), site, laboratory, report]);
  const files = readdirSync(site, { recursive: true }).filter((name) => statSync(join(site, name)).isFile());
  const pages = files.filter((name) => name.endsWith('.html') && !['laboratory.html', 'report.html'].includes(name));
  const text = new Map(pages.map((page) => [page, readFileSync(join(site, page), 'utf8')]));
  const anchors = new Map([...text].map(([page, html]) => [page, new Set([...html.matchAll(/\b(?:id|name)="([^"]*)"/g)].map((m) => decoded(m[1])))]));
  const wrong = [];
  let links = 0;
  for (const [page, html] of text) {
    for (const [, href] of html.matchAll(/<(?:a|img|link|source)\b[^>]*?\b(?:href|src)="([^"]*)"/g)) {
      if (/^(https?|mailto|data):/.test(href)) continue;
      links++;
      const [path, anchor] = decoded(href).split('#');
      const target = path === '' ? page : relative(site, join(site, dirname(page), decodeURIComponent(path)));
      if (target.startsWith('..') || !existsSync(join(site, target)) || statSync(join(site, target)).isDirectory()) wrong.push(`${page}: ${href}`);
      else if (anchor && anchors.has(target) && !anchors.get(target).has(decodeURIComponent(anchor))) wrong.push(`${page}: ${href}: no such heading`);
    }
    if (!/<h1\b/.test(html)) wrong.push(`${page}: no title`);
  }
  assert.deepEqual(wrong, []);
  assert.ok(pages.length >= 30 && links >= 500, `${pages.length} pages, ${links} links`);
  assert.ok(files.includes('laboratory.html') && files.includes('docs/benchmarks.html'));
});
