// Enqueues that are repeated under an id of the caller's, when the home of what was enqueued under it has changed.
import { randomUUID } from 'node:crypto';
import { defineTask, flow, signal } from '@pgqueue/core';
import type { Enqueued, JobOptions } from '@pgqueue/core';
import type { FlowRun } from '@pgqueue/producer';
import type { Router } from '@pgqueue/router';
import { createRouter, homeOf } from '@pgqueue/router';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { nth, useSeveral, waitingIn } from './support.ts';

const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const order = flow('order').step('go', signal(z.null()));
const { several, router } = useSeveral(3);
const keys = Array.from({ length: 99 }, (_, n) => `k${n}`);
const keyOf = (home: number): string => keys.find((key) => homeOf(key, [1, 2, 3]) === home) ?? '';

/** Runs work with a router of installations that differ from those of the tests. */
async function withOther<Result>(
  change: (number: number) => object,
  work: (other: Router) => Promise<Result>,
): Promise<Result> {
  const other = createRouter({
    installations: several.installations.map((one) => ({ ...one, ...change(one.number) })),
  });
  try {
    return await work(other);
  } finally {
    await other.close();
  }
}

test('a flow whose key has moved is found in the old home, and awaited and signalled there', async () => {
  const [key, id] = [keyOf(1), randomUUID()];
  const first = await router.producer.start(order, { id: id.toUpperCase(), key });
  await router.operator.keys.move(key, { to: 'two' });
  const again = await router.producer.start(order, { id, key });
  expect([first, again].map((run) => [run.id, run.outcome])).toEqual([
    [id, 'started'],
    [id, 'repeated'],
  ]);
  expect(await router.producer.signal(id, 'go', null)).toBe('signalled');
  await expect(again.ended({ timeout: 0 })).rejects.toMatchObject({ code: 'result_timeout' });
  // an id of a flow is none of a job
  expect(await router.producer.enqueue(task, { n: 1 }, { id, key })).toMatchObject({ outcome: 'enqueued' });
});

test('what has ended is found when the list of installations grows, whatever its home was drawn from', async () => {
  const places = [
    ...keys.slice(0, 9).map((key) => ({ key })),
    ...keys.slice(0, 9).map((uniqueKey) => ({ uniqueKey })),
    ...keys.slice(0, 9).map(() => ({})),
  ].map((options): JobOptions => ({ ...options, id: randomUUID() }));
  const flows = keys.slice(0, 9).map((key) => ({ key, id: randomUUID() }));
  const all = async ({ producer }: Router): Promise<readonly (Enqueued | FlowRun)[]> => [
    ...(await Promise.all(places.map((options, n) => producer.enqueue(task, { n }, options)))),
    ...(await Promise.all(flows.map((options) => producer.start(order, options)))),
  ];
  const growing = (number: number): object => (number === 3 ? { state: 'draining' } : {});
  await withOther(growing, async (before) => {
    expect(new Set((await all(before)).map(({ outcome }) => outcome))).toEqual(
      new Set(['enqueued', 'started']),
    );
    await before.operator.jobs.cancel(places.map(({ id = '' }) => id));
  });
  expect(new Set((await all(router)).map(({ outcome }) => outcome))).toEqual(new Set(['repeated']));
  const batch = await router.producer.enqueueMany(places.map((options, n) => task.job({ n }, options)));
  expect(batch).toEqual(places.map(({ id }) => ({ id, outcome: 'repeated' })));
  expect(await waitingIn(several)).toEqual([0, 0, 0]);
});

test('an installation that is silent keeps the first enqueue waiting for a moment, and no other', async () => {
  const proxy = await startCutProxy(nth(several.installations, 2).connectionString);
  try {
    const behind = (number: number): object => (number === 3 ? { connectionString: proxy.url } : {});
    await withOther(behind, async (other) => {
      await other.check();
      proxy.hold('to-server');
      const tookMs: number[] = [];
      for (let n = 0; n < 10; n += 1) {
        const beganAt = performance.now();
        const enqueued = await other.producer.enqueue(task, { n }, { id: randomUUID(), key: keyOf(1) });
        tookMs.push(performance.now() - beganAt);
        expect(enqueued.outcome).toBe('enqueued');
      }
      expect(tookMs.toSorted((a, b) => a - b)[5]).toBeLessThan(2_000); // each by itself would take 2 s
    });
  } finally {
    await proxy.close();
  }
});

test('a router that hears of a move while it asks the others enqueues where it did not ask', async () => {
  const [key, id] = [keyOf(1), randomUUID()];
  await router.producer.enqueue(task, { n: 1 }, { id, key });
  await router.operator.jobs.cancel([id]);
  await router.operator.keys.move(key, { to: 'two' });
  const proxy = await startCutProxy(nth(several.installations, 2).connectionString);
  try {
    proxy.hold('to-server');
    const behind = (number: number): object => (number === 3 ? { connectionString: proxy.url } : {});
    await withOther(behind, async (other) => {
      expect(await other.producer.enqueue(task, { n: 1 }, { id, key })).toEqual({ id, outcome: 'repeated' });
      await expect.poll(() => other.homeOf(key).name).toBe('two');
    });
  } finally {
    await proxy.close();
  }
});
