import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { settle } from '@pgqueue/postgres/internal';
import type { SettleRequest } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { afterEach, describe, expect, test } from 'vitest';
import type { Actor } from '../../support/actors.ts';
import { startActor } from '../../support/actors.ts';
import { hold } from '../../support/actors/tasks.ts';
import { useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const jobs = 10;
const cli = fileURLToPath(new URL('../../../packages/cli/src/main.ts', import.meta.url));

const own = useDatabase({ each: true });
const { database } = own;
const actors: Actor[] = [];
afterEach(() => Promise.all(actors.splice(0).map((actor) => actor.stop())));

async function start(kind: 'scheduler' | 'worker', name: string, options = {}): Promise<Actor> {
  const actor = await startActor(kind, { url: own.url, name, options });
  actors.push(actor);
  return actor;
}

async function count(sql: string, values: readonly unknown[] = []): Promise<number> {
  const [row] = await database.query<{ count: number }>(
    `select count(*)::integer as count from ${sql}`,
    values,
  );
  return row?.count ?? 0;
}

/** A node that holds ten jobs with timeouts of an hour, and another one that is idle. */
async function tenJobsHeld(): Promise<{
  readonly holder: Actor;
  readonly leases: readonly SettleRequest[];
}> {
  await start('scheduler', 'scheduler-1');
  const holder = await start('worker', 'node-a', { holds: true });
  const producer = createProducer({ connectionString: own.url });
  await producer.enqueueMany(Array.from({ length: jobs }, (_, n) => hold.job({ n })));
  await producer.close();
  await until(
    'ten handlers to have started',
    () => holder.heard.filter(({ type }) => type === 'started').length === jobs,
  );
  await start('worker', 'node-b');
  const held = await database.query<{ id: string; token: string; hours: number }>(
    `select id, lock_token as token, extract(epoch from lock_timeout - now())::float8 / 3600 as hours
     from pgqueue.work_queue where lock_key = 'node-a'`,
    [],
  );
  expect(held.length).toBe(jobs);
  expect(Math.min(...held.map(({ hours }) => hours))).toBeGreaterThan(0.9);
  const leases = held.map(({ id, token }) => ({
    id,
    token,
    outcome: 'done' as const,
    delayMs: null,
    data: '"late"',
  }));
  return { holder, leases };
}

const doneElsewhere = (): Promise<number> =>
  count(`pgqueue.history where outcome = 'done' and node = 'node-b'`);

describe('a worker killed with -9 that holds ten jobs with timeouts of an hour', () => {
  test('`pgqueue nodes reset` makes them run elsewhere, and the old tokens settle none', async () => {
    const { holder, leases } = await tenJobsHeld();
    // or it would find the dead node by itself, before the command has started
    const [scheduler] = actors;
    scheduler?.signal('SIGSTOP');
    holder.signal('SIGKILL');
    const { stdout } = await promisify(execFile)(
      'node',
      ['--conditions=@pgqueue/source', cli, 'nodes', 'reset', 'node-a', '--json'],
      { env: { ...process.env, PGQUEUE_DATABASE_URL: own.url } },
    );
    expect(stdout).toContain('10');
    scheduler?.signal('SIGCONT');
    await until('the ten to be done elsewhere', async () => (await doneElsewhere()) === jobs);
    expect((await settle(database, leases)).size).toBe(0);
    expect(await count(`pgqueue.history where result = '"late"'`)).toBe(0);
  });

  test('without a reset they run elsewhere when the node is lost', async () => {
    const { holder, leases } = await tenJobsHeld();
    holder.signal('SIGKILL');
    await until('the ten to be done elsewhere', async () => (await doneElsewhere()) === jobs);
    expect((await settle(database, leases)).size).toBe(0);
  });
});

test('a process that was frozen, reset, and comes back settles none of its jobs, and registers anew', async () => {
  const { holder } = await tenJobsHeld();
  holder.signal('SIGSTOP');
  await database.query(`select pgqueue.reset_node('node-a')`, []);
  await until('the ten to be done elsewhere', async () => (await doneElsewhere()) === jobs);
  holder.tell('finish');
  holder.signal('SIGCONT');
  await until('it to have noticed every lost lease', () => {
    const stale = holder.heard.filter(({ type }) => type === 'job.stale').map(({ job }) => job);
    return new Set(stale).size === jobs;
  });
  await until(
    'it to be registered again',
    () => holder.heard.filter(({ type }) => type === 'node.registered').length === 2,
  );
  expect(await doneElsewhere()).toBe(jobs);
  expect(await count('pgqueue.history')).toBe(jobs);
  expect(await count(`pgqueue.node where id = 'node-a' and state = 'alive'`)).toBe(1);
});
