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
/** Accepts the note that a worker stores in place of a result. */
const any = z.object({ twice: z.int().optional() });
const retry = { maxTries: 1 };
const double = defineTask({ name: 'double', payload, result, retry });
const written = defineTask({ name: 'written', payload, result, retry });
const bundled = defineTask({ name: 'bundled', payload, result, retry });
const apart = defineTask({ name: 'apart', payload, result: any, retry });
/** Returns, by negative numbers, results that do not fit, and those of `unheld`, which JSON cannot hold. */
const child = `
  import { fanOut } from '${import.meta.resolve('@pgqueue/core')}';
  export const handler = async ({ n }, ctx) => {
    if (n === -1) return { twice: 'no' };
    if (n === -2) return { twice: 2n };
    if (n === -3) return ctx.transaction(async () => ({ twice: 2n }));
    if (n === -4) return ctx.settleIn((settle) => settle({ query: () => process.exit(1) }, { twice: 2n }));
    if (n === -5) return fanOut([], { twice: 2n });
    return n === 0 ? ctx.transaction(async () => ({ twice: 0 })) : { twice: n * 2 };
  };`;
const unheld = { returned: -2, 'of ctx.transaction': -3, 'of ctx.settleIn': -4, 'of fanOut': -5 };
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

test.each(Object.entries(unheld))(
  'one that JSON cannot hold fails the attempt of a process: %s',
  async (_way, n) => {
    const enqueued = await queue.enqueue(apart, { n });
    await expect(queue.result(enqueued, { timeout: '2m' })).rejects.toMatchObject({
      data: {
        error: {
          name: 'ResultError',
          message: expect.stringMatching(
            /schema of its task: .*can't be stored as JSON: .*BigInt/,
          ) as unknown,
        },
      },
    });
  },
);
