import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { Block } from '../docs/blocks.ts';
import { blocksOf, useOf } from '../docs/blocks.ts';
import { documents } from '../docs/documents.ts';
import { anchorsOf, deadLinks } from '../docs/links.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Excerpts of files that no longer say so. Indentation may differ: an excerpt may come from within a function. */
function staleExcerpts(blocks: readonly Block[]): readonly string[] {
  const flat = (lines: string): string => lines.replaceAll(/^ +/gm, '').trim();
  return blocks.flatMap((block) => {
    const use = useOf(block);
    if (use.kind !== 'excerpt') return [];
    const file = flat(readFileSync(join(root, use.of), 'utf8'));
    return file.includes(flat(block.text)) ? [] : [`line ${block.line}: this is not in ${use.of}`];
  });
}

/** Packages that the examples of a document import, and that its `npm install` does not name. */
function notInstalled(blocks: readonly Block[]): readonly string[] {
  const installed = blocks.flatMap(({ text }) => /npm install (.+)/.exec(text)?.[1]?.split(' ') ?? []);
  const imported = blocks.flatMap(({ text }) =>
    [...text.matchAll(/ from '((?:@[\w-]+\/)?[\w-]+)(?:\/[\w-]+)*'/g)].map(([, name = '']) => name),
  );
  return imported.filter((name) => !installed.includes(name));
}

test.each(documents.filter((name) => /^packages\/[\w-]+\/README\.md$/.test(name)))(
  '%s: its installation has what its examples import',
  (name) => {
    const text = readFileSync(join(root, name), 'utf8');
    expect(text).toContain('npm install ');
    expect(notInstalled(blocksOf(text))).toEqual([]);
  },
);

describe.each(documents)('%s', (name) => {
  test('its links lead somewhere', () => {
    expect(deadLinks(root, name)).toEqual([]);
  });

  test('its excerpts stand in their files', () => {
    expect(staleExcerpts(blocksOf(readFileSync(join(root, name), 'utf8')))).toEqual([]);
  });
});

test('an excerpt that its file does not contain is found', () => {
  const blocks = blocksOf(
    '```json from package.json\n"name": "pgqueue-repository",\n```\n```json from package.json\n"name": "other",\n```\n',
  );
  expect(staleExcerpts(blocks)).toEqual(['line 4: this is not in package.json']);
});

test('a link to a heading that is not there is found', () => {
  const text = '# A `b`, c\n## Same\n## Same\n```sh\n# none\n```\n### [Linked](x.md) one\n';
  expect([...anchorsOf(text)]).toEqual(['a-b-c', 'same', 'same-1', 'linked-one']);
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-links-'));
  try {
    writeFileSync(join(folder, 'x.md'), '# One\n[a](#one) [b](#two) [c](x.md#one) [d](x.md#no) [e](y.md)');
    expect(deadLinks(folder, 'x.md')).toEqual(['#two', 'x.md#no', 'y.md']);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
