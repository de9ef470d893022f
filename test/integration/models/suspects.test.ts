import type { ClaimedJob } from '@pgqueue/core/internal';
import { createOperator } from '@pgqueue/postgres';
import { loseNodes, reasonText, reap, release, resetNode } from '@pgqueue/postgres/internal';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { openGround } from '../sql/support.ts';
import { age, crashed, ready } from './suspects-support.ts';

/** A job that was lost with its node is a suspect: a node begins with one, and its death is blamed on it. */
const ground = opened(openGround);
beforeEach(() => ground.reset());
afterEach(() => ground.sound());

const idsOf = (jobs: readonly ClaimedJob[]): readonly string[] => jobs.map(({ id }) => id);
const lastLife = (id: unknown): Promise<unknown> =>
  ground.sql('update pgqueue.queue set max_crashes = crashes + 1 where id = $1', [id]);
const isolate = (node: string): Promise<unknown> =>
  ground.sql(`update pgqueue.node set tasks = jsonb_set(tasks, '{hello,isolated}', 'true') where id = $1`, [
    node,
  ]);
async function done(jobs: readonly ClaimedJob[]): Promise<void> {
  expect((await ground.settle(jobs, 'done')).size).toBe(jobs.length);
}

describe('a suspect', () => {
  test('begins beside others, one at a time; the next one when it has ended', async () => {
    const [first, second] = await crashed(ground, 2);
    const others = [await ready(ground), await ready(ground)];
    const node = await ground.node();
    const claimed = await ground.claim(node);
    expect(idsOf(claimed)).toEqual([first, ...others]);
    expect(claimed[0]?.crashes).toBe(1);
    const later = await ready(ground);
    expect(idsOf(await ground.claim(node))).toEqual([later]);
    expect(await ground.job(String(second))).toMatchObject({ status: 'ready', suspect: true });
    await done(claimed.slice(0, 1));
    expect(idsOf(await ground.claim(node))).toEqual([second]);
  });

  test('takes one of the places that are asked for', async () => {
    const [suspect] = await crashed(ground, 1);
    const other = await ready(ground);
    const node = await ground.node();
    expect(await ground.claim(node, 0)).toEqual([]);
    expect(idsOf(await ground.claim(node, 1))).toEqual([suspect]);
    expect(idsOf(await ground.claim(node, 1))).toEqual([other]);
  });

  test('is joined after 1 s by another one, and then by as many as have run for that long', async () => {
    const ids = await crashed(ground, 9);
    const node = await ground.node();
    const begun: unknown[] = [];
    for (const more of [1, 1, 2, 4]) {
      for (let n = 0; n < more; n += 1) {
        const claimed = idsOf(await ground.claim(node));
        expect(claimed).toEqual([ids[begun.length]]);
        begun.push(...claimed);
      }
      expect(await ground.claim(node)).toEqual([]);
      for (const id of begun) await age(ground, id, '2 s');
    }
    expect(begun).toEqual(ids.slice(0, 8));
  });

  test('in its last life is the only suspect of its node for as long as it runs; ordinary jobs run beside it', async () => {
    const [last, mild, again] = await crashed(ground, 3);
    await lastLife(last);
    await lastLife(again);
    const node = await ground.node();
    const other = await ready(ground);
    const claimed = await ground.claim(node);
    expect(idsOf(claimed)).toEqual([last, other]);
    await age(ground, last, '10 h');
    expect(await ground.claim(node)).toEqual([]);
    await done(claimed);
    expect(idsOf(await ground.claim(node))).toEqual([mild]);
    await age(ground, mild, '10 h');
    expect(await ground.claim(node)).toEqual([]);
    expect(idsOf(await ground.claim(await ground.node('other')))).toEqual([again]);
  });

  test('stays one when it is tried again, was snoozed or given back', async () => {
    const [suspect] = await crashed(ground, 1);
    const node = await ground.node();
    for (const outcome of ['retry', 'snooze', 'snooze'] as const) {
      const claimed = await ground.claim(node);
      expect(idsOf(claimed)).toEqual([suspect]);
      await ground.settle(claimed, outcome, { delayMs: 0 });
      await ground.sql('update pgqueue.queue set run_after = null');
      await ground.dispatch([String(suspect)]);
    }
    await release(ground.database, await ground.claim(node));
    expect(await ground.job(String(suspect))).toMatchObject({ status: 'ready', crashes: 1, suspect: true });
  });

  test('is like any other where its task has a process of its own', async () => {
    const suspects = await crashed(ground, 2);
    const other = await ready(ground);
    const node = await ground.node();
    await isolate(node.id);
    expect(idsOf(await ground.claim(node))).toEqual([...suspects, other]);
  });

  test('that nobody may run any more is passed over', async () => {
    const [gone, elsewhere, suspect] = await crashed(ground, 3);
    await ground.sql(`update pgqueue.queue set expires_at = clock_timestamp() where id = $1`, [gone]);
    await ground.sql(`update pgqueue.work_queue set pool = 'elsewhere' where id = $1`, [elsewhere]);
    const node = await ground.node();
    expect(idsOf(await ground.claim(node, 1))).toEqual([suspect]);
  });

  test('that waits takes no place of others in the eyes of a scheduler', async () => {
    await crashed(ground, 2);
    const state = (await ground.one(`select pgqueue.tick_state(false, 0, null)`)) as {
      readonly items: readonly { readonly node: string | null; readonly positions: readonly number[] }[];
      readonly lostNodes: boolean;
    };
    expect(state.lostNodes).toBe(false);
    expect(state.items.map((item) => [item.node, item.positions.length])).toEqual([['', 2]]);
  });

  test('says what it waits for, when it is explained', async () => {
    const [suspect] = await crashed(ground, 1);
    await ground.node();
    const operator = createOperator({ pool: ground.database.pool });
    const texts = async (): Promise<readonly string[]> =>
      (await operator.explain(String(suspect))).reasons.map((reason) => reasonText(reason, String));
    expect(await texts()).toEqual([
      'scheduled: it was lost with its node before, and nodes begin such jobs one by one: the next node of pool default with room takes it',
    ]);
    await lastLife(suspect);
    expect(await texts()).toEqual([
      'scheduled: it was lost with its node before, and its next crash would be its last: it waits for a node of pool default that runs no other such job; start another worker',
    ]);
    await operator.close();
  });
});

describe('the death of a node', () => {
  const crashesOf = async (ids: readonly unknown[]): Promise<readonly unknown[]> =>
    Promise.all(ids.map(async (id) => (await ground.job(String(id)))['crashes']));
  const suspected = (): Promise<unknown> =>
    ground.one('select count(*)::integer from pgqueue.work_queue where suspect and lock_key is null');

  test('without a suspect is charged to all that it held', async () => {
    const ids = await crashed(ground, 3);
    expect(await crashesOf(ids)).toEqual([1, 1, 1]);
    expect(await suspected()).toBe(3);
  });

  test('is charged to its suspect alone; its neighbours are ready again, uncharged, and suspects from then on', async () => {
    const [suspect] = await crashed(ground, 1);
    const others = [await ready(ground), await ready(ground)];
    const node = await ground.node();
    expect(await ground.claim(node)).toHaveLength(3);
    await resetNode(ground.database, node.id);
    expect(await crashesOf([suspect, ...others])).toEqual([2, 0, 0]);
    expect(await suspected()).toBe(3);
    expect(await ground.job(String(others[0]))).toMatchObject({ status: 'ready', errors: null });
  });

  test('is charged to all of its suspects where it has several, and so to none in its last life but alone', async () => {
    const [first, second] = await crashed(ground, 2);
    const node = await ground.node();
    expect(idsOf(await ground.claim(node))).toEqual([first]);
    await age(ground, first, '2 s');
    expect(idsOf(await ground.claim(node))).toEqual([second]);
    await resetNode(ground.database, node.id);
    expect(await crashesOf([first, second])).toEqual([2, 2]);
    const again = await ground.node();
    expect(idsOf(await ground.claim(again))).toEqual([first]);
    await age(ground, first, '10 h');
    expect(await ground.claim(again)).toEqual([]);
    await resetNode(ground.database, again.id);
    expect(await ground.job(String(first))).toMatchObject({ status: 'dead', reason: 'crash_limit' });
    expect(await crashesOf([second])).toEqual([2]);
  });

  test('by its silence is charged like one by a reset', async () => {
    const [suspect] = await crashed(ground, 1);
    const other = await ready(ground);
    const node = await ground.node();
    expect(await ground.claim(node)).toHaveLength(2);
    await ground.sql(`update pgqueue.node set heartbeat = clock_timestamp() - interval '1 h'`);
    await ground.sql(`update pgqueue.reached set since = '-infinity'`);
    await loseNodes(ground.database, ground.leader());
    expect(await crashesOf([suspect, other])).toEqual([2, 0]);
  });

  test('is not blamed on what runs in a process of its own', async () => {
    const [isolated] = await crashed(ground, 1);
    const other = await ready(ground);
    const node = await ground.node();
    await isolate(node.id);
    expect(await ground.claim(node)).toHaveLength(2);
    await resetNode(ground.database, node.id);
    expect(await crashesOf([isolated, other])).toEqual([2, 1]);
  });

  test('ends a neighbour as cancelled that was to be: it is charged with nothing', async () => {
    await crashed(ground, 1);
    const other = await ready(ground);
    const node = await ground.node();
    expect(await ground.claim(node)).toHaveLength(2);
    await ground.sql('select pgqueue.cancel(array[$1::uuid])', [other]);
    await resetNode(ground.database, node.id);
    expect(await ground.job(other)).toMatchObject({ status: 'cancelled', crashes: 0 });
  });

  test('has nothing to do with a lease that ran out: it is charged to its own job', async () => {
    const [suspect] = await crashed(ground, 1);
    const other = await ready(ground);
    const node = await ground.node();
    expect(await ground.claim(node)).toHaveLength(2);
    await ground.sql(`update pgqueue.work_queue set lock_timeout = clock_timestamp() where id = $1`, [other]);
    expect(await reap(ground.database)).toBe(1);
    expect(await crashesOf([suspect, other])).toEqual([1, 1]);
    expect(await ground.job(String(suspect))).toMatchObject({ status: 'running' });
  });
});
