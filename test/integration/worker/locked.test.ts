import { defineTask, implement, retryAfter } from '@pgqueue/core';
import { settle, sqlState, unlockedJobs } from '@pgqueue/postgres/internal';
import { fromPg } from '@pgqueue/producer/pg';
import { Client } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import type { TestWorker } from '../../support/worker-bench.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
let application: Client;
beforeEach(async () => {
  application = new Client({ connectionString: bench.test.url });
  await application.connect();
});
afterEach(async () => {
  await application.end();
  await bench.clear();
});

const task = defineTask({ name: 'task', payload: z.object({ end: z.enum(['done', 'retry', 'dead']) }) });

/** Starts jobs whose handlers run until they are released. */
async function running(ends: readonly ('done' | 'retry' | 'dead')[]) {
  const letGo = Promise.withResolvers<void>();
  const handler = implement(task, async ({ end }) => {
    await letGo.promise;
    if (end === 'dead') throw new Error('no');
    return end === 'retry' ? retryAfter('1h', 'later') : end;
  });
  const worker = await bench.worker([handler], { heartbeatMs: 1_000 });
  const jobs = await bench.producer.enqueueMany(
    ends.map((end, index) =>
      task.job({ end }, { uniqueKey: `job ${index}`, retry: { maxTries: end === 'dead' ? 1 : 3 } }),
    ),
  );
  await bench.dispatch();
  await until('all to run', () => worker.of('job.started').length === ends.length);
  return { worker, ids: jobs.map(({ id }) => id), letGo: letGo.resolve };
}

const settled = (worker: TestWorker): readonly string[] => worker.of('job.settled').map(({ job }) => job);
const statusOf = async (id = ''): Promise<string> => (await bench.job(id)).status;

const lock = (id = ''): Promise<unknown> =>
  application.query('select from pgqueue.queue where id = $1 for update', [id]);
/** Takes a job's unique key, as a producer does in a transaction of the application. */
const taking = (onConflict: 'replace' | 'supersede') => (): Promise<unknown> =>
  bench.producer
    .with(fromPg(application))
    .enqueue(task, { end: 'done' }, { uniqueKey: { key: 'job 0', onConflict } });

describe('a running job that an open transaction has locked', () => {
  test.each<[string, (id?: string) => Promise<unknown>]>([
    ['by a lock of its own', lock],
    ['by an enqueue that replaces its unique key', taking('replace')],
    ['by an enqueue that supersedes it', taking('supersede')],
  ])('%s: others are settled while the lock is held, and it is when the lock is gone', async (_how, take) => {
    const { worker, ids, letGo } = await running(['done', 'done', 'retry', 'dead']);
    await application.query('begin');
    await take(ids[0]);
    letGo();
    await until('the others to be settled', () => settled(worker).length === 3);
    expect(await Promise.all(ids.slice(1).map(statusOf))).toEqual(['done', 'delayed', 'dead']);
    expect(await statusOf(ids[0])).toBe('running');
    expect(worker.running).toBe(0);

    const later = await bench.producer.enqueue(task, { end: 'done' });
    await bench.dispatch();
    await until('a later one to be settled', () => settled(worker).includes(later.id));
    expect(await statusOf(ids[0])).toBe('running');

    await application.query('commit');
    await until('the one that was locked to be settled', () => settled(worker).includes(ids[0] ?? ''));
    expect(await bench.job(ids[0] ?? '')).toMatchObject({ status: 'done', tries: 0, crashes: 0 });
    expect(worker.of('job.stale')).toEqual([]);
    expect(worker.of('database.error')).toEqual([]);
  });

  test('and that another node has meanwhile is stale when the lock is gone: nothing of it is settled', async () => {
    const { worker, ids, letGo } = await running(['done', 'done']);
    await application.query('begin');
    await lock(ids[0]);
    letGo();
    await until('the other to be settled', () => settled(worker).length === 1);
    await bench.sql(`update pgqueue.work_queue set lock_key = 'thief', lock_token = gen_random_uuid()`);
    await application.query('commit');
    await until('it to be stale', () => worker.of('job.stale').some(({ job }) => job === ids[0]));
    expect(await bench.job(ids[0] ?? '')).toMatchObject({ status: 'running', node: 'thief' });
    expect(settled(worker)).toEqual([ids[1]]);
  });

  test('does not keep a worker from stopping', async () => {
    const { worker, ids, letGo } = await running(['done', 'done']);
    await application.query('begin');
    await lock(ids[0]);
    letGo();
    await until('the other to be settled', () => settled(worker).length === 1);
    const stopped = worker.stop({ drainMs: 0 });
    await application.query('rollback');
    await stopped;
    expect(['done', 'ready']).toContain(await statusOf(ids[0]));
  });
});

test('an impatient settlement that meets a lock changes nothing, and its jobs can be told apart', async () => {
  const { ids } = await running(['done', 'done']);
  const leases = (await bench.sql('select id, lock_token as token from pgqueue.work_queue')) as readonly {
    id: string;
    token: string;
  }[];
  const settlements = leases.map(
    ({ id, token }) => ({ id, token, outcome: 'done', delayMs: null, data: null }) as const,
  );
  await application.query('begin');
  await lock(ids[0]);
  for (const repeat of [false, true]) {
    const refused = settle(bench.database, settlements, { impatient: true, repeat });
    expect(sqlState(await refused.catch((error: unknown) => error))).toBe('55P03');
  }
  const gone = '00000000-0000-7000-8000-000000000000';
  // the server sends the error before it releases the locks of the refused transaction
  await expect
    .poll(() => unlockedJobs(bench.database, [...leases, { id: gone, token: gone }]), { timeout: 20_000 })
    .toEqual(new Set([ids[1], gone]));
  expect(await Promise.all(ids.map(statusOf))).toEqual(['running', 'running']);
  await application.query('rollback');
  expect(await unlockedJobs(bench.database, leases)).toEqual(new Set(ids));
  expect([...(await settle(bench.database, settlements, { impatient: true })).values()]).toEqual([
    'done',
    'done',
  ]);
});

test('a search for unlocked jobs locks none whose token it does not have', async () => {
  const ids = [...(await running(['done', 'done'])).ids].sort();
  await bench.sql(`update pgqueue.work_queue set lock_token = id`);
  await application.query('begin');
  const leases = ids.map((id) => ({ id, token: ids[0] ?? '' }));
  const query = async (text: string, values: readonly unknown[]) =>
    (await application.query(text, [...values])).rows;
  expect(await unlockedJobs({ ...bench.database, query } as typeof bench.database, leases)).toEqual(
    new Set(ids),
  );
  expect(await bench.sql('select id from pgqueue.queue for update skip locked')).toEqual([{ id: ids[1] }]);
  await application.query('rollback');
});
