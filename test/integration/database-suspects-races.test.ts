import type { ClaimedJob } from '@pgqueue/core';
import { resetNode } from '@pgqueue/postgres';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Ground, Member } from './database-support.ts';
import { openGround } from './database-support.ts';
import { crashed, makesRoom, ready } from './suspects-support.ts';

/** Claims of suspects beside other claims; and the life of one that is poison. */
let ground: Ground;
beforeAll(async () => {
  ground = await openGround();
});
afterAll(() => ground.close());
beforeEach(() => ground.reset());
afterEach(() => ground.sound());

const idsOf = (jobs: readonly ClaimedJob[]): readonly string[] => jobs.map(({ id }) => id);
async function done(jobs: readonly ClaimedJob[]): Promise<void> {
  expect((await ground.settle(jobs, 'done')).size).toBe(jobs.length);
}

describe('interleavings', () => {
  const claimOf = ({ id, incarnation }: Member): string =>
    `select id from pgqueue.claim('${id}', '${incarnation}', 10)`;

  test('two nodes share out two suspects, and neither waits for the other', async () => {
    const [one, two] = await crashed(ground, 2);
    const [a, b] = [await ground.node('a'), await ground.node('b')];
    const [first, second] = [await ground.session(), await ground.session()];
    await first.sql('begin');
    expect(await first.sql(claimOf(a))).toEqual([{ id: one }]);
    expect(await second.sql(claimOf(b))).toEqual([{ id: two }]);
    await first.sql('commit');
    await Promise.all([first.end(), second.end()]);
  });

  test('of two busy nodes that look at the same moment one makes room, and the other claims what else there is', async () => {
    const [a, b] = [await ground.node('a'), await ground.node('b')];
    for (const node of [a, b]) await ground.running(node);
    const [suspect] = await crashed(ground, 2);
    const other = await ready(ground);
    const [first, second] = [await ground.session(), await ground.session()];
    await first.sql('begin');
    expect(await first.sql(claimOf(a))).toEqual([]);
    expect(await second.sql(claimOf(b))).toEqual([{ id: other }]);
    await first.sql('commit');
    expect(await makesRoom(ground, a)).toMatchObject({ alone: suspect });
    expect(await second.sql(claimOf(b))).toEqual([]);
    expect(await makesRoom(ground, b)).toBeUndefined();
    await Promise.all([first.end(), second.end()]);
  });

  test('of suspects in their last life two nodes that look at the same moment take one: the other node is for others', async () => {
    const [one] = await crashed(ground, 2);
    await ground.sql('update pgqueue.queue set max_crashes = 2');
    const other = await ready(ground);
    const [a, b] = [await ground.node('a'), await ground.node('b')];
    const [first, second] = [await ground.session(), await ground.session()];
    await first.sql('begin');
    expect(await first.sql(claimOf(a))).toEqual([{ id: one }]);
    expect(await second.sql(claimOf(b))).toEqual([{ id: other }]);
    await first.sql('commit');
    await Promise.all([first.end(), second.end()]);
  });

  test('a claim of the same node that comes during the claim of a suspect waits, and gets nothing', async () => {
    const [suspect] = await crashed(ground, 1);
    await ready(ground);
    const node = await ground.node();
    const [first, second] = [await ground.session(), await ground.session()];
    await first.sql('begin');
    expect(await first.sql(claimOf(node))).toEqual([{ id: suspect }]);
    const { answer } = await ground.waiting(second, claimOf(node));
    await first.sql('commit');
    expect(await answer).toEqual([]);
    await Promise.all([first.end(), second.end()]);
  });

  test('a suspect is not claimed beside jobs whose claim is still under way', async () => {
    const node = await ground.node();
    const fresh = await ready(ground);
    const [first, second] = [await ground.session(), await ground.session()];
    await first.sql('begin');
    expect(await first.sql(claimOf(node))).toEqual([{ id: fresh }]);
    const [suspect] = await crashed(ground, 1);
    expect(await second.sql(claimOf(node))).toEqual([]);
    await first.sql('commit');
    expect(await second.sql(claimOf(node))).toEqual([]);
    expect(await makesRoom(ground, node)).toMatchObject({ alone: suspect });
    await Promise.all([first.end(), second.end()]);
  });
});

describe('poison', () => {
  test('is dead after three crashes; its neighbours are charged with the one that they shared', async () => {
    const node = await ground.node();
    const ids: string[] = [];
    for (let n = 0; n < 8; n += 1) ids.push(await ready(ground));
    const poison = ids[3];
    let life: Member = node;
    let crashes = 0;
    for (let round = 0; round < 30 && crashes < 3; round += 1) {
      const claimed = await ground.claim(life);
      if (idsOf(claimed).includes(poison ?? '')) {
        crashes += 1;
        await resetNode(ground.database, life.id); // it took the node with it, which is started again
        life = await ground.node();
      } else {
        await done(claimed);
      }
    }
    expect(await ground.job(poison ?? '')).toMatchObject({
      status: 'dead',
      reason: 'crash_limit',
      crashes: 3,
    });
    for (let rest = await ground.claim(life); rest.length > 0; rest = await ground.claim(life))
      await done(rest);
    for (const id of ids.filter((one) => one !== poison)) {
      expect(await ground.job(id)).toMatchObject({ status: 'done', crashes: 1 });
    }
  });
});
