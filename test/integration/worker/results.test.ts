// Results that a worker checks against the schema of their task before the job is done.
import { defineTask, implement, implementBatch, isolated } from '@pgqueue/core';
import { createQueue } from 'pgqueue';
import type { Queue } from 'pgqueue';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';

const own = useDatabase();
const payload = z.object({ n: z.int() });
const result = z.object({ twice: z.int() });
const retry = { maxTries: 1 };
const double = defineTask({ name: 'double', payload, result, retry });
const written = defineTask({ name: 'written', payload, result, retry });
const bundled = defineTask({ name: 'bundled', payload, result, retry });
const apart = defineTask({ name: 'apart', payload, result, retry });
const child = `export const handler = ({ n }, ctx) => n < 0 ? { twice: 'no' }
  : n === 0 ? ctx.transaction(async () => ({ twice: 0 })) : { twice: n * 2 }`;
let queue: Queue;
beforeAll(async () => {
  queue = createQueue({
    connectionString: own.url,
    concurrency: 20,
    tasks: [
      implement(double, ({ n }) => ({ twice: n * 2 })),
      implement(written, ({ n }, ctx) => ctx.transaction(() => Promise.resolve({ twice: n * 2 }))),
      implementBatch(bundled, (jobs, ctx) =>
        ctx.transaction(() => Promise.resolve(jobs.map((job) => ({ twice: job.payload.n * 2 })))),
      ),
      implement(apart, isolated(new URL(`data:text/javascript,${encodeURIComponent(child)}`))),
    ],
  });
  await queue.start();
});
afterAll(() => queue.stop());

test.each([
  ['a handler', double],
  ['its transaction', written],
  ['a bundle', bundled],
  ['a process of its own', apart],
])('the result comes from %s', async (_what, task) => {
  const enqueued = await queue.enqueueMany([1, 2, 3, 0].map((n) => task.job({ n })));
  const results = await Promise.all(enqueued.map((one) => queue.result(one, { timeout: '2m' })));
  expect(results.map(({ twice }) => twice)).toEqual([2, 4, 6, 0]);
});

test.each([
  ['a handler', double],
  ['its transaction', written],
  ['a bundle', bundled],
])('one that does not fit fails the attempt: %s', async (_what, task) => {
  const enqueued = await queue.enqueue(task, { n: Number.MAX_SAFE_INTEGER });
  await expect(queue.result(enqueued, { timeout: '2m' })).rejects.toMatchObject({
    code: 'job_dead',
    data: {
      reason: 'max_tries',
      error: {
        name: 'ResultError',
        message: expect.stringMatching(/^the result does not fit the schema of its task: twice: /) as unknown,
      },
    },
  });
});

test('one that does not fit fails the attempt of a process', async () => {
  const enqueued = await queue.enqueue(apart, { n: -1 });
  await expect(queue.result(enqueued, { timeout: '2m' })).rejects.toMatchObject({
    data: { error: { message: expect.stringMatching(/twice: /) as unknown } },
  });
});
