import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { boundaryProblems } from '../../scripts/check-boundaries.mjs';
import { roomProblems } from '../../scripts/check-rooms.mjs';
import { nameProblems } from '../../scripts/check-names.mjs';
import { commentProblems, vagueSentences } from '../../scripts/check-comments.mjs';
import { catalogEntries, dependencyProblems } from '../../scripts/check-dependencies.mjs';
import { lacks } from '../support/tools.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
let scratch: string;

beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'pgqueue-tidy-'));
});
afterEach(() => {
  rmSync(scratch, { recursive: true, force: true });
});

function write(file: string, text: string): void {
  mkdirSync(dirname(join(scratch, file)), { recursive: true });
  writeFileSync(join(scratch, file), text);
}

function lint(): string {
  cpSync(join(root, '.oxlintrc.json'), join(scratch, '.oxlintrc.json'));
  const oxlint = join(root, 'node_modules/.bin/oxlint');
  const { stdout } = spawnSync(oxlint, ['--format=unix', '.'], { cwd: scratch, encoding: 'utf8' });
  return stdout;
}

describe('comments', () => {
  test.skipIf(lacks('git'))('hold in this repository', () => {
    expect(commentProblems(root)).toEqual([]);
  });

  test.each([
    ['a.ts', '/** What it is. */\nexport const a = 1;', 'What it is.'],
    [
      'a.ts',
      '/**\n * Runs it.\n * Where it is late, it waits.\n */\nexport const a = 1;',
      'Where it is late, it waits.',
    ],
    ['a.ts', '  // Runs it. Whether it is\n  // late is told.\n', 'Whether it is late is told.'],
    ['a.sql', '-- Runs it. Of all others it\n-- takes one.\nselect 1;\n', 'Of all others it takes one.'],
  ])('a sentence in %s that hides who acts is found: %j', (file, text, sentence) => {
    expect(vagueSentences(file, text)).toEqual([expect.stringContaining(`"${sentence}"`)]);
  });

  test('other sentences are fine, also behind a colon or in code', () => {
    const text =
      '/** Tells what it is: what runs. `Where` is code. @throws {Error} it is none */\nexport const a = 1;';
    expect(vagueSentences('a.ts', text)).toEqual([]);
  });
});

describe('names', () => {
  test('hold in this repository', () => {
    expect(nameProblems(root)).toEqual([]);
  });

  test('the name of a file or folder that fits any, and a type with two meanings, are caught', () => {
    write('packages/core/src/job/utils.ts', 'export interface Plan {}');
    write('packages/core/src/lib/heap.ts', '');
    write('packages/worker/src/plan.ts', 'export type Plan = 1;');
    write('packages/worker/src/plan.test.ts', 'export type Plan = 2;');
    expect(nameProblems(scratch)).toEqual([
      expect.stringContaining('packages/core/src/job/utils.ts: this name fits any file'),
      expect.stringContaining('packages/core/src/lib/heap.ts: this name fits any file'),
      'Plan is a type of packages/core/src/job/utils.ts and of packages/worker/src/plan.ts: give one of them another name',
    ]);
  });

  test('a call of a SQL function with seven arguments that have no name is caught', () => {
    const many = 'p_a integer, p_b integer, p_c integer, p_d integer, p_e integer, p_f integer, p_g integer';
    write('packages/postgres/sql/many.sql', `create function many(${many}) returns void`);
    write('packages/postgres/src/good.ts', 'query(`select ${s}.many(1, 2, f(3, 3), 4, 5, 6, p_g => 7)`);');
    write('packages/postgres/src/bad.ts', 'query(`select ${s}.many(1, 2, f(3, 3), 4, 5, 6, $1)`);');
    write('clients/python/bad.py', 'sql = "select many(%s, %s, %s, %s, %s, %s, %s)"');
    expect(nameProblems(scratch)).toEqual([
      'packages/postgres/src/bad.ts: many(…) has more than six arguments without a name',
      'clients/python/bad.py: many(…) has more than six arguments without a name',
    ]);
  });
});

describe('boundaries', () => {
  test('hold in this repository', () => {
    expect(boundaryProblems(root)).toEqual([]);
  });

  test.each([
    ['producer', `import type { Worker } from '@pgqueue/worker';`, 'may not import @pgqueue/worker'],
    ['worker', `export const x = import('@pgqueue/scheduler');`, 'may not import @pgqueue/sched'],
    ['worker', `export type X = import('@pgqueue/producer').X;`, 'may not import @pgqueue/prod'],
    ['postgres', `export * from '../../core/src/job/job.ts';`, 'leaves postgres/src'],
    ['core', `import { readFile } from 'node:fs/promises';`, 'core is pure'],
    ['core', `import { Client } from 'pg';`, 'may not import pg'],
    ['scheduler', `export { sql } from 'kysely';`, 'may not import kysely'],
    ['surprise', ``, 'no rule'],
  ])('catch a seeded breach: %s, %s', (name, code, problem) => {
    write(`packages/${name}/package.json`, '{}');
    write(`packages/${name}/src/index.ts`, code);
    expect(boundaryProblems(scratch)).toEqual([expect.stringContaining(problem)]);
  });

  test.each([
    [`import pg from 'pg';`, 'may not import pg'],
    [`export * from '../../src/dashboard.ts';`, 'may not import ../../src/dashboard.ts'],
  ])('catch a breach of the front end: %s', (code, problem) => {
    write('packages/dashboard/package.json', '{"devDependencies":{"react":"catalog:"}}');
    write(
      'packages/dashboard/web/src/fine.ts',
      `import 'react';\nimport type {} from '../../src/contract.ts';`,
    );
    write('packages/dashboard/web/src/page.tsx', code);
    expect(boundaryProblems(scratch)).toEqual([expect.stringContaining(problem)]);
  });

  test.each(['examples/shop/app.ts', 'docs/guides/worker.md', 'README.md'])(
    'catch an example that imports what is internal: %s',
    (file) => {
      write('packages/core/package.json', '{}');
      write(file, `import { within } from '@pgqueue/core/internal';`);
      expect(boundaryProblems(scratch)).toEqual([expect.stringContaining('may not import ./internal')]);
    },
  );

  test('catch a forbidden dependency', () => {
    write('packages/worker/package.json', '{"dependencies":{"@pgqueue/producer":"workspace:*"}}');
    expect(boundaryProblems(scratch)).toEqual([expect.stringContaining('may not depend on')]);
  });
});

describe('rooms', () => {
  test('are small, and no two of them import each other', () => {
    expect(roomProblems(root)).toEqual([]);
  });

  test('a folder of more than 20 files is caught, and circles of files and of folders are', () => {
    for (let n = 0; n <= 20; n += 1) {
      write(`packages/core/src/room/f${n}.ts`, 'export {};');
      write(`test/room/f${n}.test.ts`, 'export {};');
    }
    write('packages/core/src/a.ts', `import type { B } from './b.ts';\nexport type A = B;`);
    write('packages/core/src/b.ts', `export type { A as B } from './a.ts';`);
    write('packages/core/src/one/x.ts', `export * from '../two/y.ts';`);
    write('packages/core/src/two/y.ts', `export const y = 1;`);
    write('packages/core/src/two/z.ts', `export * from '../one/x.ts';`);
    expect(roomProblems(scratch)).toEqual([
      expect.stringContaining('packages/core/src/room: 21 files, where 20 are the most'),
      'packages/core/src: a.ts, b.ts import each other in a circle',
      'packages/core/src: one, two import each other in a circle',
      expect.stringContaining('test/room: 21 files, where 20 are the most'),
    ]);
  });
});

describe('dependencies', () => {
  test('have an exact version, a reason, and one place', () => {
    expect(dependencyProblems(root)).toEqual([]);
  });

  test('without reason, version or catalog are caught', () => {
    write(
      'pnpm-workspace.yaml',
      'catalog:\n  # why\n  a: 1.2.3\n  b: ^1.0.0\n  # why\n  a-0: npm:a@0.1.2\n  # why\n  a-1: npm:a@^1\n',
    );
    write('pnpm-lock.yaml', '');
    write('package.json', '{"dependencies":{"c":"1.0.0"}}');
    expect(catalogEntries('catalog:\n  # why\n  a: 1.2.3\n')).toHaveLength(1);
    expect(dependencyProblems(scratch)).toEqual([
      expect.stringContaining('b has no reason'),
      expect.stringContaining('b has no exact version'),
      expect.stringContaining('a-1 has no exact version'),
      expect.stringContaining('c is "1.0.0"'),
    ]);
  });
});

describe('size', () => {
  test('a file over 400 lines is an error', () => {
    write('long.ts', 'export {};\n'.repeat(401));
    expect(lint()).toMatch(/max-lines\b(?!-)/);
  });

  test('a function over 80 lines is an error', () => {
    write('long.ts', `export function f(): void {\n${'  f();\n'.repeat(80)}}\n`);
    expect(lint()).toContain('max-lines-per-function');
  });
});
