import type { SpawnSyncReturns } from 'node:child_process';
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const docs = `${root}docs`;
const site = `${docs}/.vitepress/dist`;

let built: SpawnSyncReturns<string>;

beforeAll(() => {
  built = spawnSync('npm', ['run', 'docs:site:run'], { cwd: root, encoding: 'utf8' });
});

test('it is built: no link is dead', () => {
  expect({ status: built.status, said: `${built.stdout}${built.stderr}` }).toMatchObject({ status: 0 });
});

test('every page of the docs is on the site, and the README is its first', () => {
  const pages = (folder: string, ending: string): readonly string[] =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith(ending) && !/^(node_modules|\.vitepress)/.test(file))
      .map((file) => file.slice(0, -ending.length).replace(/README$/, 'index'))
      .toSorted();
  expect(pages(`${site}/docs`, '.html')).toEqual(pages(docs, '.md'));
  expect(readFileSync(`${site}/index.html`, 'utf8')).toContain('Two commands');
});

test('the search has an index of its own', () => {
  const index = readdirSync(`${site}/assets/chunks`).find((file) => file.startsWith('@localSearchIndex'));
  expect(index && readFileSync(`${site}/assets/chunks/${index}`, 'utf8')).toContain(
    'promises-that-nobody-awaits',
  );
});

test('sources are named, not linked: they are not part of the site', () => {
  const page = readFileSync(`${site}/CONTRIBUTING.html`, 'utf8');
  expect(page).toContain('tick-loop.ts');
  expect(page).not.toMatch(/href="[^"]*\.(ts|sql)"/);
});
