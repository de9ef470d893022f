import { execFile } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { migrate, migrationStatus } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import type { TestServer } from '@pgqueue/postgres/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { now } from '../support/servers/actors/config.ts';
import type { Base } from '../support/servers/machine.ts';
import { createBase } from '../support/servers/machine.ts';
import type { Program, Role, System } from '../support/servers/system.ts';
import { createSystem } from '../support/servers/system.ts';
import { earlierCommit, materialise } from '../support/servers/version.ts';
import { until } from '../support/until.ts';

/** Nothing is published yet: the version before is the repository's own past, before the migration that changed most. */
const before = earlierCommit('migrations/0010_scheduling.sql');

let base: Base;
let server: TestServer;
let system: System;

/** The same programs, with the packages of that commit. */
function oldProgram(folder: string, role: Role): Program {
  return { file: pathToFileURL(join(folder, 'test/servers/actors', `${role}.ts`)) };
}

beforeAll(async () => {
  if (before === undefined) return;
  base = createBase();
  server = await startServer();
  const old = base.make('old');
  materialise(before, old);
  mkdirSync(join(old, 'test/actors'), { recursive: true });
  const support = new URL('../support/', import.meta.url).pathname;
  cpSync(join(support, 'actors/messages.ts'), join(old, 'test/actors/messages.ts'));
  cpSync(join(support, 'servers/actors'), join(old, 'test/servers/actors'), { recursive: true });
  const commandLine = join(old, 'packages/cli/src/main.ts');
  const args = ['--conditions=@pgqueue/source', commandLine, 'migrate', '--database-url', server.adminUrl];
  await promisify(execFile)(process.execPath, args, { cwd: old });
  system = createSystem({ url: server.adminUrl, config: { perSecond: 50 } });
  const add = (role: Role, name: string): Promise<unknown> => system.add(role, name, oldProgram(old, role));
  await Promise.all([
    ...['old-leader', 'old-standby'].map((name) => add('scheduler', name)),
    ...['old-node-1', 'old-node-2'].map((name) => add('worker', name)),
    add('producer', 'producer-old'),
  ]);
});

afterAll(async () => {
  if (before === undefined) return;
  await system.stop();
  await server.stop();
  await base.remove();
});

const versionOf = async (): Promise<number> => {
  const all = await migrationStatus({ connectionString: server.adminUrl });
  return Math.max(...all.filter(({ applied }) => applied !== null).map(({ version }) => version));
};

const worked = (name: string): boolean => system.witnessed().some(({ node }) => node === name);

describe.skipIf(before === undefined)('a rolling upgrade under load', () => {
  test('old and new schedulers and workers side by side, during a migration and after it: nothing lost, no error', async () => {
    await system.goesOn(now(), 60_000); // everything has begun
    const oldVersion = await versionOf();
    expect(oldVersion).toBe(9);

    await migrate({ connectionString: server.adminUrl });
    expect(await versionOf()).toBeGreaterThan(oldVersion);
    await system.goesOn(now(), 30_000);

    // side by side: either may lead, and both work
    await Promise.all([
      system.add('scheduler', 'new-scheduler'),
      system.add('worker', 'new-node-1'),
      system.add('producer', 'producer-new'),
    ]);
    await system.goesOn(now(), 30_000);
    await until('a new node to work', () => worked('new-node-1'), 30_000);
    // the old ones leave, one after the other
    for (const name of ['old-standby', 'old-node-1', 'old-leader']) {
      await system.remove(name);
      await system.goesOn(now(), 30_000);
    }
    await system.add('worker', 'new-node-2');
    await system.remove('old-node-2');
    await until('the last new node to work', () => worked('new-node-2'), 30_000);
    await system.finish();
    const { acknowledged, ...verdict } = await system.judge();
    console.log(JSON.stringify({ from: oldVersion, to: await versionOf(), acknowledged }));
    expect(acknowledged).toBeGreaterThan(100);
    expect(verdict).toMatchObject({ lost: [], twice: [], dead: 0, died: [], ranAgain: 0 });
    // a deadlock with the migration is repeated by whoever was chosen to give way
    const told = system.told(['database.error', 'refused', 'job.stale', 'node.lost']);
    expect(told.filter((line) => !line.includes('deadlock detected'))).toEqual([]);
  });
});
