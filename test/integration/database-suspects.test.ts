import type { ClaimedJob } from '@pgqueue/core';
import { resetNode } from '@pgqueue/postgres';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Ground, Member } from './database-support.ts';
import { openGround } from './database-support.ts';
import { crashed, makesRoom, ready } from './suspects-support.ts';

/** A job that was lost with its node is a suspect: it begins on a node that holds nothing else. */
let ground: Ground;
beforeAll(async () => {
  ground = await openGround();
});
afterAll(() => ground.close());
beforeEach(() => ground.reset());
afterEach(() => ground.sound());

const idsOf = (jobs: readonly ClaimedJob[]): readonly string[] => jobs.map(({ id }) => id);
const age = (id: string, by: string): Promise<unknown> =>
  ground.sql(`update pgqueue.work_queue set started = started - $2::interval where id = $1`, [id, by]);
/** As if its time to become empty had gone by. */
const lapse = (node: Member, by: string): Promise<unknown> =>
  ground.sql(`update pgqueue.node set alone_until = alone_until - $2::interval where id = $1`, [node.id, by]);
async function done(jobs: readonly ClaimedJob[]): Promise<void> {
  expect((await ground.settle(jobs, 'done')).size).toBe(jobs.length);
}

describe('a suspect', () => {
  test('goes to an empty node at once, alone; the next one after it', async () => {
    const [first, second] = await crashed(ground, 2);
    const other = await ready(ground);
    const node = await ground.node();
    const alone = await ground.claim(node);
    expect(idsOf(alone)).toEqual([first]);
    expect(alone[0]?.crashes).toBe(1);
    expect(await ground.claim(node)).toEqual([]);
    expect(await ground.job(String(second))).toMatchObject({ status: 'ready', suspect: true });
    await done(alone);
    const next = await ground.claim(node);
    expect(idsOf(next)).toEqual([second]);
    await done(next);
    expect(idsOf(await ground.claim(node))).toEqual([other]);
  });

  test('does not stand in the way of others on a node that is not empty, once another makes room', async () => {
    const [one, two] = [await ground.node('one'), await ground.node('two')];
    const held = [await ground.running(one), await ground.running(two)];
    const [suspect] = await crashed(ground, 1);
    const other = await ready(ground);
    expect(await ground.claim(one)).toEqual([]); // makes room
    expect(await makesRoom(ground, one)).toEqual({ alone: suspect, alone_ms: 10_000 });
    expect(idsOf(await ground.claim(two))).toEqual([other]);
    expect(await makesRoom(ground, two)).toBeUndefined();
    expect(await ground.claim(one)).toEqual([]);
    await ground.settle(held, 'done');
    expect(idsOf(await ground.claim(one))).toEqual([suspect]);
  });

  test('is left to whichever node is empty first', async () => {
    const [one, two] = [await ground.node('one'), await ground.node('two')];
    await ground.running(one);
    const [suspect] = await crashed(ground, 1);
    expect(await ground.claim(one)).toEqual([]);
    expect(idsOf(await ground.claim(two))).toEqual([suspect]);
    const other = await ready(ground);
    expect(idsOf(await ground.claim(one))).toEqual([other]); // there is nothing to make room for any more
  });

  test('costs a node that does not become empty half of its time; another tries meanwhile', async () => {
    const [one, two] = [await ground.node('one'), await ground.node('two')];
    await ground.running(one);
    await ground.running(two);
    const [suspect] = await crashed(ground, 1);
    expect(await ground.claim(one)).toEqual([]);
    await lapse(one, '11 s');
    const other = await ready(ground);
    expect(idsOf(await ground.claim(one))).toEqual([other]);
    expect(await ground.claim(two)).toEqual([]);
    expect(await makesRoom(ground, two)).toEqual({ alone: suspect, alone_ms: 20_000 });
    await lapse(one, '10 s');
    expect(await ground.claim(one)).toEqual([]); // nothing is ready, and it is two's turn
    expect(await makesRoom(ground, one)).toBeUndefined();
    await lapse(two, '21 s');
    expect(await ground.claim(one)).toEqual([]);
    expect(await makesRoom(ground, one)).toEqual({ alone: suspect, alone_ms: 40_000 });
  });

  test('is joined by others that were suspected after 0.7 s, by the rest after half a minute', async () => {
    const [first, second, third] = await crashed(ground, 3);
    const other = await ready(ground);
    const node = await ground.node();
    expect(idsOf(await ground.claim(node))).toEqual([first]);
    expect(await ground.claim(node)).toEqual([]);
    await age(String(first), '0.8 s');
    expect(idsOf(await ground.claim(node))).toEqual([second]);
    expect(idsOf(await ground.claim(node))).toEqual([third]);
    for (const id of [first, second]) await age(String(id), '31 s');
    expect(await ground.claim(node)).toEqual([]);
    await age(String(third), '31 s');
    expect(idsOf(await ground.claim(node))).toEqual([other]);
  });

  test('that had run for the shortest time goes first: poison strikes soon', async () => {
    const node = await ground.node('died');
    const ids = [await ready(ground), await ready(ground), await ready(ground)];
    for (const id of ids) expect(idsOf(await ground.claim(node, 1))).toEqual([id]);
    for (const [index, id] of ids.entries()) await age(id, `${[20, 10, 30][index]} min`);
    await resetNode(ground.database, node.id);
    const other = await ground.node();
    const order: string[] = [];
    for (let claims = 0; claims < 3; claims += 1) {
      const claimed = await ground.claim(other);
      order.push(...idsOf(claimed));
      await done(claimed);
    }
    expect(order).toEqual([ids[1], ids[0], ids[2]]);
  });

  test('whose next crash is its death has the node for itself to its end', async () => {
    const [last, mild, again] = await crashed(ground, 3);
    const lastLife = (id: unknown): Promise<unknown> =>
      ground.sql('update pgqueue.queue set max_crashes = 2 where id = $1', [id]);
    await lastLife(last);
    await lastLife(again);
    const node = await ground.node();
    const other = await ready(ground);
    const alone = await ground.claim(node);
    expect(idsOf(alone)).toEqual([last]);
    await age(String(last), '10 h');
    expect(await ground.claim(node)).toEqual([]);
    await done(alone);
    // nor does it join another suspect
    expect(idsOf(await ground.claim(node))).toEqual([mild]);
    await age(String(mild), '31 s');
    expect(await ground.claim(node)).toEqual([]);
    expect(await makesRoom(ground, node)).toMatchObject({ alone: again });
    expect(await ground.job(other)).toMatchObject({ status: 'ready' });
  });

  test('whose next crash is its death leaves half of the nodes to others, and a reserve takes it however many do that', async () => {
    const [first, second, third, mild] = await crashed(ground, 4);
    await ground.sql('update pgqueue.queue set max_crashes = 2 where id <> $1', [mild]);
    const nodes = [await ground.node('a'), await ground.node('b'), await ground.node('c')];
    const others = [await ready(ground), await ready(ground)];
    const [a, b, c] = nodes as [Member, Member, Member];
    expect(idsOf(await ground.claim(a))).toEqual([first]);
    expect(idsOf(await ground.claim(b))).toEqual([mild]);
    expect(idsOf(await ground.claim(c))).toEqual(others);
    const d = await ground.node('d');
    expect(idsOf(await ground.claim(d))).toEqual([second]);
    const reserve = await ground.node('reserve');
    await ground.sql(`update pgqueue.node set slots = 0 where id = 'reserve'`);
    expect(idsOf(await ground.claim(reserve))).toEqual([third]);
  });

  test('stays one when it is tried again, or was snoozed', async () => {
    const [suspect] = await crashed(ground, 1);
    const node = await ground.node();
    for (const outcome of ['retry', 'snooze', 'snooze'] as const) {
      const claimed = await ground.claim(node);
      expect(idsOf(claimed)).toEqual([suspect]);
      await ground.settle(claimed, outcome, { delayMs: 0 });
      await ground.sql('update pgqueue.queue set run_after = null');
      await ground.dispatch([String(suspect)]);
    }
    expect(await ground.job(String(suspect))).toMatchObject({ status: 'ready', crashes: 1, suspect: true });
    await ready(ground);
    expect(idsOf(await ground.claim(node))).toEqual([suspect]);
  });

  test('is like any other where its task has a process of its own', async () => {
    const [suspect] = await crashed(ground, 1);
    const other = await ready(ground);
    const node = await ground.node();
    await ground.sql(
      `update pgqueue.node set tasks = jsonb_set(tasks, '{hello,isolated}', 'true') where id = 'node'`,
    );
    expect(idsOf(await ground.claim(node))).toEqual([suspect, other]);
  });

  test('that nobody may run any more keeps no node from others', async () => {
    const [gone, elsewhere] = await crashed(ground, 2);
    await ground.sql(`update pgqueue.queue set expires_at = clock_timestamp() where id = $1`, [gone]);
    await ground.sql(`update pgqueue.work_queue set pool = 'elsewhere' where id = $1`, [elsewhere]);
    const node = await ground.node();
    const [one, two] = [await ready(ground), await ready(ground)];
    expect(idsOf(await ground.claim(node, 1))).toEqual([one]);
    expect(idsOf(await ground.claim(node))).toEqual([two]);
  });

  test('leaves its bundle; a bundle has one node at a time even so', async () => {
    const ids = [await ground.insert(), await ground.insert(), await ground.insert()];
    await ground.dispatch(ids);
    await ground.sql(`update pgqueue.work_queue set bundle = $1`, [ids[0]]);
    await ground.sql(`update pgqueue.work_queue set suspect = id = $1`, [ids[1]]);
    await ground.sql(`update pgqueue.queue set crashes = 1 where id = $1`, [ids[1]]);
    const [one, two] = [await ground.node('one'), await ground.node('two')];
    for (const { id } of [one, two]) {
      await ground.sql(
        `update pgqueue.node set tasks = jsonb_set(tasks, '{hello,batch}', 'true') where id = $1`,
        [id],
      );
    }
    const alone = await ground.claim(one);
    expect(idsOf(alone)).toEqual([ids[1]]);
    expect(await ground.claim(two)).toEqual([]);
    await done(alone);
    expect(idsOf(await ground.claim(two))).toEqual([ids[0], ids[2]]);
  });
});

describe('what a scheduler sees', () => {
  const state = async (): Promise<{
    readonly nodes: readonly { readonly id: string; readonly slots: number }[];
    readonly items: readonly { readonly node: string | null; readonly positions: readonly number[] }[];
    readonly lostNodes: boolean;
  }> => (await ground.one('select pgqueue.tick_state(false)')) as Awaited<ReturnType<typeof state>>;

  test('suspects that wait take no place; a node that runs one alone, or makes room, has none', async () => {
    await crashed(ground, 2);
    const node = await ground.node();
    const before = await state();
    expect(before).toMatchObject({ lostNodes: false, nodes: [{ id: 'node', slots: 10 }] });
    expect(before.items.map((item) => [item.node, item.positions.length])).toEqual([['', 2]]);
    const [alone] = await ground.claim(node);
    expect(await state()).toMatchObject({ nodes: [{ id: 'node', slots: 0 }] });
    await age(alone?.id ?? '', '31 s');
    expect(await state()).toMatchObject({ nodes: [{ id: 'node', slots: 10 }] });
  });
});
