import { once } from 'node:events';
import { defineTask, implement } from '@pgqueue/core';
import type { TaskHandler } from '@pgqueue/core';
import { createPuller } from '@pgqueue/worker';
import { createScheduler } from '@pgqueue/scheduler';
import type { Scheduler } from '@pgqueue/scheduler';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened } from '../../support/database.ts';
import type { TestWorker } from '../../support/worker-bench.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
const proxy = opened(() => startCutProxy(bench.test.url), { each: true });
let scheduler: Scheduler;
beforeEach(async () => {
  scheduler = createScheduler({ connectionString: bench.test.url });
  await scheduler.start();
});
afterEach(async () => {
  mend();
  await scheduler.stop();
  await bench.clear();
});

/** Resets all connections together with their held data, and lets new data pass. */
function mend(): void {
  proxy.reset();
  proxy.hold(undefined);
}

const hour = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });
const second = defineTask({ name: 'task', payload: z.object({}), timeout: '5s' });

interface Lived {
  readonly at: number;
  readonly what: string;
}

/**
 * Returns a handler whose first run waits for its signal, as a handler should, and a record of events, timed
 * by one clock.
 */
function recording(task: typeof hour): { readonly handler: TaskHandler; readonly lived: readonly Lived[] } {
  const lived: Lived[] = [];
  const live = (what: string): void => void lived.push({ what, at: performance.now() });
  const handler = implement(task, async (_payload, { signal }) => {
    const isFirst = lived.length === 0;
    live('run');
    if (!isFirst) return;
    if (!signal.aborted) await once(signal, 'abort');
    live((signal.reason as { readonly code: string }).code);
    throw signal.reason;
  });
  return { handler, lived };
}

const through = (lostAfterMs: number): object => ({
  connectionString: proxy.url,
  heartbeatMs: lostAfterMs / 5,
  lostAfterMs,
  node: 'cut-off',
});
const elsewhere = { node: 'elsewhere' };

async function cutOff(worker: TestWorker, task: typeof hour, handler: TaskHandler): Promise<string> {
  const { id } = await bench.producer.enqueue(task, {});
  await until('it to run', () => worker.of('job.started').length === 1);
  // immediately, before its lease can end
  proxy.hold('to-server');
  await bench.worker([handler], elsewhere);
  return id;
}

test('a node that can not say that it lives aborts what it runs before others have it; when it is back, it changes nothing', async () => {
  const { handler, lived } = recording(hour);
  const worker = await bench.worker([handler], through(5_000));
  const id = await cutOff(worker, hour, handler);
  const before = worker.of('node.registered').length;
  await until('it to be done elsewhere', async () => (await bench.job(id)).status === 'done');
  expect(lived.map(({ what }) => what)).toEqual(['run', 'node_silent', 'run']);
  expect(worker.of('node.fenced').at(-1)).toMatchObject({ node: 'cut-off', jobs: 1 });
  mend();
  await until('it to be back', () => worker.of('node.registered').length > before);
  expect(await bench.job(id)).toMatchObject({ node: 'elsewhere', crashes: 1, tries: 0 });
});

test('a job is aborted before its own lease ends, though nobody can be asked', async () => {
  const { handler, lived } = recording(second);
  const worker = await bench.worker([handler], through(60_000));
  const id = await cutOff(worker, second, handler);
  await until('it to be done elsewhere', async () => (await bench.job(id)).status === 'done');
  expect(lived.map(({ what }) => what)).toEqual(['run', 'timeout', 'run']);
  expect(await bench.job(id)).toMatchObject({ node: 'elsewhere', crashes: 1 });
});

test.each([
  ['the fence', hour, 5_000, 'node_silent'],
  ['a lease that is about to end', second, 60_000, 'timeout'],
] as const)('the signal of a pulled job is aborted, too: by %s', async (_by, task, lostAfterMs, reason) => {
  const puller = createPuller({ ...through(lostAfterMs), tasks: ['task'], listen: false });
  const { id } = await bench.producer.enqueue(task, {}, { timeout: task === hour ? '1h' : '5s' });
  const [job] = await puller.claim({ waitMs: 30_000 });
  const signal = job?.signal as AbortSignal;
  proxy.hold('to-server');
  if (!signal.aborted) await once(signal, 'abort');
  const abortedMs = Date.now();
  expect(signal.reason).toMatchObject({ code: reason });
  await until('it to be taken back', async () => (await bench.job(id)).status !== 'running');
  const [taken] = (await bench.job(id)).errors;
  expect(taken).toMatchObject({ node: 'cut-off' });
  // one machine, one clock
  expect(Date.parse(taken?.at ?? '')).toBeGreaterThanOrEqual(abortedMs);
  mend();
  await puller.close();
});
