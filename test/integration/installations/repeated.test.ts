// Enqueues through a router whose first try loses its answer, while the key moves before the second.
import { setTimeout as delay } from 'node:timers/promises';
import { defineTask } from '@pgqueue/core';
import type { Enqueued } from '@pgqueue/core';
import type { Router } from '@pgqueue/router';
import { createRouter, homeOf } from '@pgqueue/router';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { nth, useSeveral, waitingIn } from './support.ts';

const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const { several, router } = useSeveral(3);
const key = Array.from({ length: 99 }, (_, n) => `k${n}`).find((one) => homeOf(one, [1, 2, 3]) === 1) ?? '';

/**
 * Enqueues to the old home, which executes the first try and loses its answer. The second try waits until `meanwhile` is
 * over: it moves the key by another router, and waits until this one has heard of that.
 */
async function enqueueTwice(
  enqueue: (router: Router) => Promise<readonly Enqueued[]>,
  meanwhile: (moveTo: (home: string) => Promise<void>) => Promise<void>,
): Promise<readonly Enqueued[]> {
  const proxy = await startCutProxy(nth(several.installations, 0).connectionString);
  const failed = Promise.withResolvers<undefined>();
  const other = createRouter({
    installations: several.installations.map((one) =>
      one.number === 1 ? { ...one, connectionString: proxy.url } : one,
    ),
    pollMs: 100,
    observe: (event) => {
      if (event.type !== 'database.error') return;
      proxy.hold('to-server');
      failed.resolve(undefined);
    },
  });
  try {
    await other.check();
    await other.producer.enqueue(task, { n: 0 });
    proxy.cutReplyOf('at_home');
    const enqueueing = enqueue(other);
    await Promise.race([failed.promise, enqueueing]);
    expect(proxy.cuts()).toBe(1);
    await meanwhile(async (to) => {
      await router.operator.keys.move(key, { to });
      await expect.poll(() => other.homeOf(key).name).toBe(to);
      await delay(300); // it has heard that the move is over, too
    });
    proxy.hold(undefined);
    return await enqueueing;
  } finally {
    await other.close();
    await proxy.close();
  }
}

const single = async ({ producer }: Router): Promise<readonly Enqueued[]> => [
  await producer.enqueue(task, { n: 1 }, { key }),
];
const batch = async ({ producer }: Router): Promise<readonly Enqueued[]> =>
  producer.enqueueMany([1, 2].map((n) => task.job({ n }, { key })));

/** Jobs of the key in all installations. */
async function jobsOfKey(): Promise<number> {
  const found = several.databases.map((database) =>
    database.query('select from pgqueue.queue where key = $1', [key]),
  );
  return (await Promise.all(found)).flat().length;
}

test.each([
  ['a job', single, 1],
  ['a batch', batch, 2],
])('%s that went along with its key is found in the new home', async (_, enqueue, jobs) => {
  const enqueued = await enqueueTwice(enqueue, (moveTo) => moveTo('two'));
  expect(enqueued.map(({ outcome }) => outcome)).toEqual(Array.from({ length: jobs }, () => 'repeated'));
  expect(await jobsOfKey()).toBe(jobs);
  expect((await waitingIn(several))[1]).toBeGreaterThanOrEqual(jobs);
});

test.each(['one', 'three'])(
  'a job that ended elsewhere is found, when its key has come to %s',
  async (to) => {
    const [enqueued] = await enqueueTwice(single, async (moveTo) => {
      await moveTo('two');
      const [job] = await nth(several.databases, 1).query<{ readonly id: string }>(
        'select id from pgqueue.queue where key = $1',
        [key],
      );
      await router.operator.jobs.cancel([job?.id ?? '']);
      await moveTo(to);
    });
    expect(enqueued?.outcome).toBe('repeated');
    expect(await jobsOfKey()).toBe(0);
  },
);
