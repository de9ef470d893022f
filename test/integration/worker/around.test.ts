import { AsyncLocalStorage } from 'node:async_hooks';
import { defineTask, implement, implementBatch, isolated } from '@pgqueue/core';
import { drain } from '@pgqueue/testing';
import type { Around, AroundJob } from '@pgqueue/worker';
import { createQueue } from 'pgqueue';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { misbehave } from '../../support/isolated/tasks.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';
import { dispatchBundles } from '../sql/bundles-support.ts';

const bench = opened(openWorkerBench);
afterEach(async () => {
  await bench.clear();
  await bench.sql(`update pgqueue.scheduler_lease set leader = null, expires = '-infinity'`);
});

const task = defineTask({ name: 'task', payload: z.object({ n: z.coerce.number() }), retry: { base: '1m' } });
const scope = new AsyncLocalStorage<string>();
const ended = (id: string, status: string): Promise<unknown> =>
  until(`job to be ${status}`, async () => (await bench.job(id)).status === status);

let seen: AroundJob[];
beforeEach(() => {
  seen = [];
});
const around: Around = (job, next) => {
  seen.push(job);
  return scope.run(`${job.task} ${job.jobs.length}`, next);
};

test('a handler runs within it, and it sees the checked payload and the number of the attempt', async () => {
  await bench.worker([implement(task, () => scope.getStore())], { around });
  const { id } = await bench.producer.enqueue(task, { n: '7' }, { key: 'acme' });
  await bench.sql('update pgqueue.queue set tries = 2');
  await bench.dispatch();
  await ended(id, 'done');
  expect((await bench.job(id)).result).toBe('task 1');
  expect(seen).toMatchObject([{ id, task: 'task', key: 'acme', attempt: 3, payload: { n: 7 } }]);
});

test('a bundle runs within one call of it', async () => {
  await bench.worker([implementBatch(task, () => scope.getStore())], { around });
  const jobs = [1, 2, 3].map((n) => task.job({ n }, { key: 'acme' }));
  const ids = (await bench.producer.enqueueMany(jobs)).map(({ id }) => id);
  await dispatchBundles(bench.database, [ids]);
  for (const id of ids) await ended(id, 'done');
  expect((await bench.job(ids[2] ?? '')).result).toBe('task 3');
  expect(seen.map((job) => job.jobs.map(({ id }) => id))).toEqual([ids]);
});

test('it runs around an isolated handler, in the process of the node', async () => {
  const module = new URL('../../support/isolated/misbehave.ts', import.meta.url);
  await bench.worker([implement(misbehave, isolated(module))], { around });
  const { id } = await bench.producer.enqueue(misbehave, { how: 'return' });
  await bench.dispatch();
  await ended(id, 'done');
  expect((await bench.job(id)).result).toMatchObject({ job: id });
  expect(seen).toMatchObject([{ id, payload: { how: 'return' } }]);
});

test('its error is that of the attempt', async () => {
  const failing: Around = async (_job, next) => {
    await next();
    throw new Error('no database');
  };
  await bench.worker([implement(task, () => {})], { around: failing });
  const { id } = await bench.producer.enqueue(task, { n: 1 });
  await bench.dispatch();
  await ended(id, 'delayed');
  expect((await bench.job(id)).errors).toMatchObject([{ message: 'no database' }]);
});

test('a payload that does not fit ends its job before it', async () => {
  await bench.worker([implement(task, () => {})], { around });
  const { id } = await bench.producer.enqueueByName('task', { n: 'seven' });
  await bench.dispatch();
  await ended(id, 'dead');
  expect(seen).toEqual([]);
});

test('createQueue and drain take it, too', async () => {
  const handler = implement(task, () => scope.getStore());
  const { id } = await bench.producer.enqueue(task, { n: 1 });
  const database = { url: bench.test.url };
  const { jobs } = await drain({ database, tasks: [handler], around, timeoutMs: 60_000 });
  expect(jobs).toMatchObject([{ id, outcome: 'done', result: 'task 1' }]);
  const queue = createQueue({ connectionString: bench.test.url, tasks: [handler], around });
  try {
    await queue.start();
    const second = await queue.enqueue(task, { n: 2 });
    await ended(second.id, 'done');
    expect((await bench.job(second.id)).result).toBe('task 1');
  } finally {
    await queue.stop();
  }
});

test('it must be a function', async () => {
  await expect(bench.worker([implement(task, () => {})], { around: [] as never })).rejects.toThrow(
    'around must be a function',
  );
});
