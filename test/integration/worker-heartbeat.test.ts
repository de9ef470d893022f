import { defineTask, implement } from '@pgqueue/core';
import { createScheduler } from '@pgqueue/scheduler';
import type { Scheduler } from '@pgqueue/scheduler';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import type { TestWorker, WorkerBench } from '../support/worker-bench.ts';
import { openWorkerBench, until } from '../support/worker-bench.ts';

let bench: WorkerBench;
let scheduler: Scheduler;
beforeAll(async () => {
  bench = await openWorkerBench();
});
beforeEach(async () => {
  scheduler = createScheduler({ connectionString: bench.test.url });
  await scheduler.start();
});
afterEach(async () => {
  await scheduler.stop();
  await bench.clear();
});
afterAll(() => bench.close());

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });
const clocks = { node: 'a', heartbeatMs: 100, lostAfterMs: 1_000 };

/** Holds a job for three times as long as the node may be silent; it must have been alone with it. */
async function holdsOn(worker: TestWorker, letGo: () => void): Promise<void> {
  const { id } = await bench.producer.enqueue(task, {});
  await until('it to run', () => worker.of('job.started').length === 1);
  const began = performance.now();
  await until('three leases', () => performance.now() > began + 3 * clocks.lostAfterMs);
  letGo();
  await until('it to be done', async () => (await bench.job(id)).status === 'done');
  expect(await bench.job(id)).toMatchObject({ node: 'a', tries: 0, crashes: 0 });
  expect(worker.of('node.ended')).toEqual([]);
}

const beating = (): Promise<readonly Record<string, unknown>[]> =>
  bench.sql(
    `select pid from pg_stat_activity where datname = current_database() and application_name = 'pgqueue a heartbeat'`,
  );

test('heartbeats come from a thread, on a connection of its own; one that is killed is made anew', async () => {
  const gate = Promise.withResolvers<void>();
  const worker = await bench.worker([implement(task, () => gate.promise)], clocks);
  const [first] = await until('its connection', async () => {
    const rows = await beating();
    return rows.length === 1 && rows;
  });
  await bench.sql('select pg_terminate_backend($1)', [first?.['pid']]);
  await until('another one', async () => {
    const rows = await beating();
    return rows.length === 1 && rows[0]?.['pid'] !== first?.['pid'];
  });
  await holdsOn(worker, gate.resolve);
  expect(worker.of('node.thread_failed')).toEqual([]);
  await worker.stop();
  expect(await beating()).toEqual([]);
});

test('where the thread can not start, the node says so, and beats from its event loop', async () => {
  const gate = Promise.withResolvers<void>();
  const heartbeatThread = new URL('../support/actors/broken-thread.ts', import.meta.url);
  const worker = await bench.worker([implement(task, () => gate.promise)], { ...clocks, heartbeatThread });
  await until('it to say so', () => worker.of('node.thread_failed').length > 0);
  expect(worker.of('node.thread_failed')[0]).toMatchObject({
    node: 'a',
    error: { message: 'this thread does not start' },
  });
  await holdsOn(worker, gate.resolve);
  const tries = worker.of('node.thread_failed').map(({ retryMs }) => retryMs);
  expect(tries.at(-1)).toBeGreaterThan(2 * (tries[0] ?? Infinity));
  expect(await beating()).toEqual([]);
});
