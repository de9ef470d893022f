import { once } from 'node:events';
import type { JobContext } from '@pgqueue/core';
import { defineTask, implement, implementBatch } from '@pgqueue/core';
import { dispatch, lead } from '@pgqueue/postgres/internal';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { dispatchAll } from '../../support/dispatch-all.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
afterEach(() => bench.clear());

const task = defineTask({ name: 'task', payload: z.object({ n: z.int() }), timeout: '1h' });
/** So long that a node hears of a cancellation by LISTEN only. */
const heartbeats = { heartbeatMs: 120_000, lostAfterMs: 600_000 };

const unique = { uniqueKey: { key: 'u', onConflict: 'supersede' } } as const;
const supersede = async (n: number): Promise<string> => {
  const { id } = await bench.producer.enqueue(task, { n }, unique);
  await bench.dispatch();
  return id;
};
const ended = (id: string, status: string): Promise<unknown> =>
  until(`job ${id} to be ${status}`, async () => (await bench.job(id)).status === status);

/** Resolves to the reason of the abort. */
async function aborted({ signal }: Pick<JobContext, 'signal'>): Promise<unknown> {
  if (!signal.aborted) await once(signal, 'abort');
  return signal.reason.code;
}

test('the signal of the older job aborts as cancelled; the newer one may run at the same time', async () => {
  const reasons: unknown[] = [];
  const newerRuns = Promise.withResolvers<void>();
  const handler = implement(task, async ({ n }, ctx) => {
    if (n === 2) return newerRuns.resolve();
    reasons.push(await aborted(ctx));
    await newerRuns.promise;
    throw ctx.signal.reason;
  });
  const worker = await bench.worker([handler], heartbeats);
  const older = await supersede(1);
  await until('it to run', () => worker.of('job.started').length === 1);
  const newer = await supersede(2);
  await Promise.all([ended(older, 'cancelled'), ended(newer, 'done')]);
  expect(reasons).toEqual(['cancelled']);
  expect(await bench.job(older)).toMatchObject({ tries: 0, crashes: 0 });
});

test('in a batch: the others run on', async () => {
  const letGo = Promise.withResolvers<void>();
  const handler = implement(task, async ({ n }, ctx) => {
    if (n === 1) return Promise.reject(new Error(String(await aborted(ctx))));
    return n === 2 ? 'newer' : letGo.promise;
  });
  const worker = await bench.worker([handler], { ...heartbeats, concurrency: 1 });
  const made = await bench.producer.enqueueMany([
    task.job({ n: 1 }, unique),
    task.job({ n: 5 }, { uniqueKey: 'v' }),
    task.job({ n: 6 }, { uniqueKey: 'w' }),
  ]);
  await dispatchAll(bench.database, 'default', 3);
  const [older = '', ...others] = made.map(({ id }) => id);
  await until('it to run', () => worker.of('job.started').length === 1);
  const newer = await supersede(2);
  await ended(older, 'cancelled');
  letGo.resolve();
  await Promise.all([newer, ...others].map((id) => ended(id, 'done')));
  expect(await bench.job(older)).toMatchObject({ tries: 0, crashes: 0 });
});

test('in a bundle: its own signal aborts, and the others end as they would', async () => {
  const reasons: unknown[] = [];
  const handler = implementBatch(task, async (jobs) => {
    const older = jobs.find(({ payload }) => payload.n === 1);
    if (older !== undefined) reasons.push(await aborted(older));
    return jobs.map((job) => (job.signal.aborted ? new Error('stopped') : null));
  });
  const made = await bench.producer.enqueueMany([
    task.job({ n: 1 }, unique),
    ...[5, 6].map((n) => task.job({ n })),
  ]);
  const [older = '', ...others] = made.map(({ id }) => id);
  const leader = 'test-dispatcher';
  const { epoch } = await lead(bench.database, leader, 60_000);
  const jobs = [older, ...others].map((id) => ({ id, pool: 'default', rowVersion: null, bundle: older }));
  await dispatch(bench.database, { leader, epoch, jobs, parts: null, settled: [], notify: true });
  const worker = await bench.worker([handler], heartbeats);
  await until('all to run', () => worker.of('job.started').length === 3);
  const newer = await supersede(2);
  await Promise.all([ended(older, 'cancelled'), ...[...others, newer].map((id) => ended(id, 'done'))]);
  expect(reasons).toEqual(['cancelled']);
});

test('a handler that supersedes its own job ends as done, and the newer one runs', async () => {
  const newer = Promise.withResolvers<string>();
  const handler = implement(task, async ({ n }, ctx) => {
    if (n === 2) return 'newer';
    newer.resolve(await supersede(2));
    return aborted(ctx);
  });
  await bench.worker([handler], heartbeats);
  const older = await supersede(1);
  await ended(older, 'done');
  expect((await bench.job(older)).result).toBe('cancelled');
  await ended(await newer.promise, 'done');
});

test('when the transaction rolls back, the older job runs on', async () => {
  const letGo = Promise.withResolvers<void>();
  const handler = implement(task, async (_payload, ctx) => {
    await letGo.promise;
    return ctx.signal.aborted;
  });
  const worker = await bench.worker([handler], heartbeats);
  const older = await supersede(1);
  await until('it to run', () => worker.of('job.started').length === 1);
  const client = await bench.database.pool.connect();
  try {
    await client.query('begin');
    const { outcome } = await bench.producer.with(client).enqueue(task, { n: 2 }, unique);
    expect(outcome).toBe('superseded');
    await client.query('rollback');
  } finally {
    client.release();
  }
  letGo.resolve();
  await ended(older, 'done');
  expect(await bench.job(older)).toMatchObject({ result: false, uniqueKey: 'u' });
});
