// Moves of all keys to where they belong: for an installation that is new, and for one that is to be empty.
import { defineTask } from '@pgqueue/core';
import type { Router } from '@pgqueue/router';
import { createRouter, homeOf } from '@pgqueue/router';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { nth, useSeveral, waitingIn } from './support.ts';

const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const { several, router } = useSeveral(3);
const keys = Array.from({ length: 30 }, (_, n) => `k${n}`);
const jobs = keys.flatMap((key, n) => [task.job({ n }, { key }), task.job({ n: n + 100 }, { key })]);

/** Runs something with a router of the same installations, in which one is draining. */
async function without(number: number, work: (other: Router) => Promise<void>): Promise<void> {
  const installations = several.installations.map((one) =>
    one.number === number ? { ...one, state: 'draining' as const } : one,
  );
  const other = createRouter({ installations });
  try {
    await work(other);
  } finally {
    await other.close();
  }
}

const byHome = (numbers: readonly number[]): readonly number[] =>
  [1, 2, 3].map((number) => 2 * keys.filter((key) => homeOf(key, numbers) === number).length);

test('a new installation gets its part of the keys, and the others keep theirs', async () => {
  await without(3, async (other) => {
    await other.producer.enqueueMany(jobs);
    expect(await waitingIn(several)).toEqual(byHome([1, 2]));
    expect((await other.operator.keys.planRebalance()).moves).toEqual([]);
    const plan = await other.operator.keys.planRebalance({ add: 'three' });
    const theirs = keys.filter((key) => homeOf(key, [1, 2, 3]) === 3);
    expect(plan.moves.map(({ key }) => key).toSorted()).toEqual(theirs.toSorted());
    expect(plan).toMatchObject({ jobs: 2 * theirs.length });
    const { moved, failed } = await other.operator.keys.rebalance({ add: 3 });
    expect(failed).toEqual([]);
    expect(moved.map(({ key, to, jobs: came }) => `${key} ${to} ${came}`).toSorted()).toEqual(
      theirs.map((key) => `${key} three 2`).toSorted(),
    );
    expect(await waitingIn(several)).toEqual(byHome([1, 2, 3]));
  });
  for (const key of keys) expect(router.homeOf(key).number).toBe(homeOf(key, [1, 2, 3]));
  expect((await router.operator.keys.planRebalance()).moves).toEqual([]);
  // what was enqueued by the old list in between comes over, too
  await without(3, async (other) => {
    await other
      .at('one')
      .enqueue(task, { n: 7 }, { key: keys.find((key) => homeOf(key, [1, 2, 3]) === 3) ?? '' });
  });
  expect(await router.operator.keys.rebalance()).toMatchObject({
    moved: [{ from: 'one', to: 'three', jobs: 1 }],
  });
});

test('an installation is drained, also of keys that a route sends there; what can not move keeps no other one', async () => {
  await router.producer.enqueueMany(jobs);
  const [routed = '', empty = ''] = keys.filter((key) => homeOf(key, [1, 2, 3]) === 1);
  await router.operator.keys.move(routed, { to: 'two' });
  await router.producer.enqueue(task, { n: 1 }, {});
  await router.operator.keys.move(`${empty} without jobs`, {
    to: homeOf(`${empty} without jobs`, [1, 2, 3]) === 2 ? 'one' : 'two',
  });
  const stuck = keys.find((key) => homeOf(key, [1, 2, 3]) === 2) ?? '';
  const stop = new AbortController();
  stop.abort();
  const elsewhere = homeOf(stuck, [1, 3]) === 1 ? 'three' : 'one';
  await expect(router.operator.keys.move(stuck, { to: elsewhere, signal: stop.signal })).rejects.toThrow(
    /aborted/,
  );
  const { moved, failed } = await router.operator.keys.rebalance({ drain: 'two' });
  expect([...new Set(moved.map(({ from }) => from))]).toEqual(['two']);
  // its route names another home by now: that is where it goes
  expect(failed).toEqual([]);
  expect(moved.find(({ key }) => key === stuck)).toMatchObject({ to: elsewhere });
  const left = await nth(several.databases, 1).query(`select from pgqueue.queue where key <> ''`, []);
  expect(left).toEqual([]);
  await without(2, async (other) => {
    expect((await other.operator.keys.planRebalance()).moves).toEqual([]);
    const homes = await Promise.all(
      [...keys, `${empty} without jobs`].map(async (key) => {
        const job = await other.producer.enqueue(task, { n: 0 }, { key });
        return other.operator.jobs.get(job.id).then(() => other.homeOf(key).number);
      }),
    );
    expect(homes).not.toContain(2);
  });
});

test('one must stay active, and all must answer before anything moves', async () => {
  await without(1, async (other) => {
    await expect(other.operator.keys.rebalance({ drain: 9 })).rejects.toThrow(/there are one, two, three/);
  });
  const two = several.installations.slice(0, 2);
  const lone = createRouter({
    installations: two.map((one) => (one.number === 2 ? { ...one, state: 'draining' } : one)),
  });
  await expect(lone.operator.keys.planRebalance({ drain: 'one' })).rejects.toMatchObject({
    code: 'configuration',
  });
  await lone.close();
  const down = createRouter({
    installations: several.installations.map((one) =>
      one.number === 2 ? { ...one, connectionString: 'postgres://postgres@127.0.0.1:1/none' } : one,
    ),
  });
  await expect(down.operator.keys.rebalance({ drain: 'one' })).rejects.toMatchObject({
    code: 'installation',
  });
  await down.close();
});
