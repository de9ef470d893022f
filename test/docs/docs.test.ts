import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { createTestDatabase } from '../support/database.ts';
import type { Tool } from '../support/tools.ts';
import { lacks } from '../support/tools.ts';
import type { Block } from './blocks.ts';
import { blocksOf, useOf } from './blocks.ts';
import { documents } from './documents.ts';
import { runDocument } from './runner.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folders: string[] = [];

/** The programs of the system that a document's examples call. */
function toolsOf(blocks: readonly Block[]): readonly Tool[] {
  const uses = blocks.map((block) => ({ use: useOf(block), text: block.text }));
  const sql = uses.some(
    ({ use, text }) => use.kind === 'sql' || (use.kind === 'shell' && text.includes('psql')),
  );
  const python = uses.some(
    ({ use }) => use.kind === 'python' || (use.kind === 'file' && use.name.endsWith('.py')),
  );
  const client = python && uses.some(({ text }) => text.includes('from pgqueue import'));
  const library = client ? 'psycopg' : 'psycopg2';
  return [...(sql ? (['psql'] as const) : []), ...(python ? ([library] as const) : [])];
}

/** Two documents at a time: mostly their processes wait. */
const lanes = [Promise.resolve(), Promise.resolve()];
let turns = 0;
function inTurn(work: () => Promise<void>): Promise<void> {
  const lane = turns++ % lanes.length;
  const turn = (lanes[lane] ?? Promise.resolve()).then(work);
  lanes[lane] = turn.catch(() => {});
  return turn;
}

describe.concurrent.each(documents)('%s', (name) => {
  const blocks = blocksOf(readFileSync(join(root, name), 'utf8'));

  test.skipIf(toolsOf(blocks).some(lacks))('its examples run, in their order', { timeout: 1_200_000 }, () =>
    inTurn(async () => {
      const uses = blocks.map(useOf);
      if (uses.every(({ kind }) => kind === 'illustration' || kind === 'excerpt')) return;
      const database = await createTestDatabase();
      const document = runDocument(name, database.url);
      try {
        for (const block of blocks) await expect(document.step(block)).resolves.toBeUndefined();
        if (uses.some((use) => use.kind === 'file' && use.name.endsWith('.ts')))
          folders.push(document.folder);
      } finally {
        await document.stop();
        await database.drop();
      }
    }),
  );
});

test('a block that fails, or prints something else, fails the test', async () => {
  const database = await createTestDatabase();
  const document = runDocument('seeded', database.url);
  try {
    const [fails, prints, other] = blocksOf(
      '```sh\nexit 3\n```\n```sh\necho one\n```\n```output\ntwo\n```\n',
    );
    if (fails === undefined || prints === undefined || other === undefined) throw new Error('three blocks');
    await expect(document.step(fails)).rejects.toThrow('ended with 3');
    await document.step(prints);
    await expect(document.step(other)).rejects.toThrow('expected');
  } finally {
    await document.stop();
    await database.drop();
  }
});

test('a background process that fails later fails the test', async () => {
  const document = runDocument('background', 'postgres://nowhere');
  const [starts, next] = blocksOf('```sh background\necho up\nexit 4\n```\n```sh\ntrue\n```\n');
  if (starts === undefined || next === undefined) throw new Error('two blocks');
  try {
    await document.step(starts);
    const outcome = (): Promise<string> => document.step(next).then(() => 'fine', String);
    await expect.poll(outcome).toContain('ended with 4');
  } finally {
    await document.stop();
  }
});

/** The types of the examples, all documents in one compiler run, as in a strict project of a reader's. */
async function compile(examples: readonly string[]): Promise<void> {
  const config = join(root, 'test/docs/scratch/tsconfig.json');
  writeFileSync(
    config,
    JSON.stringify({
      extends: '../../tsconfig.json',
      compilerOptions: { rootDir: '../../..', noPropertyAccessFromIndexSignature: false },
      include: examples.map((folder) => `${folder}/*.ts`),
      // the tests' own list has this folder
      exclude: [],
      references: [],
    }),
  );
  await promisify(execFile)('tsc', ['-p', config, '--noEmit']).catch((error: { readonly stdout: string }) => {
    throw new Error(`the examples do not compile:\n${error.stdout}`);
  });
}

test('an example that does not compile fails the test', async () => {
  const document = runDocument('types', 'postgres://nowhere');
  const [block] = blocksOf("```ts wrong.ts\nexport const one: number = 'one';\n```\n");
  if (block === undefined) throw new Error('a block');
  await document.step(block);
  await expect(compile([document.folder])).rejects.toThrow("Type 'string' is not assignable");
});

afterAll(async () => {
  if (folders.length > 0) await compile(folders);
}, 600_000);
