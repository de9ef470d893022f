import type { ClaimedJob } from '@pgqueue/core';
import type { Operator } from '@pgqueue/postgres';
import { createOperator, reasonText, release } from '@pgqueue/postgres';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Ground, Member } from './database-support.ts';
import { openGround } from './database-support.ts';
import { crashed, makesRoom, ready } from './suspects-support.ts';

/** How long a suspect waits for a node that holds nothing else, and what is said of that. */
let ground: Ground;
let operator: Operator;
beforeAll(async () => {
  ground = await openGround();
  operator = createOperator({ pool: ground.database.pool });
});
afterAll(async () => {
  await operator.close();
  await ground.close();
});
beforeEach(() => ground.reset());
afterEach(() => ground.sound());

const idsOf = (jobs: readonly ClaimedJob[]): readonly string[] => jobs.map(({ id }) => id);
/** As if they had waited for so long. */
const waited = (ids: readonly unknown[], by: string): Promise<unknown> =>
  ground.sql(
    `update pgqueue.work_queue set waits_since = waits_since - $2::interval where id = any ($1::uuid[])`,
    [ids, by],
  );
const runs = (ids: readonly unknown[], by: string): Promise<unknown> =>
  ground.sql(`update pgqueue.work_queue set started = started - $2::interval where id = any ($1::uuid[])`, [
    ids,
    by,
  ]);
const lastLife = (id: unknown): Promise<unknown> =>
  ground.sql('update pgqueue.queue set max_crashes = crashes + 1 where id = $1', [id]);

/** A pool whose one node has long jobs, and never is empty. */
async function busy(): Promise<Member> {
  const node = await ground.node();
  await ground.running(node);
  return node;
}

describe('a suspect, where no node becomes empty', () => {
  test('waits for a minute; then it begins beside others, and for half a minute none follows it', async () => {
    const node = await busy();
    const [suspect] = await crashed(ground, 1);
    const other = await ready(ground);
    expect(await ground.claim(node)).toEqual([]);
    await waited([suspect], '59 s');
    expect(await ground.claim(node)).toEqual([]);
    await waited([suspect], '2 s');
    expect(idsOf(await ground.claim(node))).toEqual([suspect]);
    expect(await ground.claim(node)).toEqual([]);
    await runs([suspect], '31 s');
    expect(idsOf(await ground.claim(node))).toEqual([other]);
  });

  test('begins 0.7 s after another one, not beside it', async () => {
    const node = await busy();
    const [one, two] = await crashed(ground, 2);
    await waited([one, two], '61 s');
    expect(idsOf(await ground.claim(node))).toEqual([one]);
    expect(await ground.claim(node)).toEqual([]);
    await runs([one], '0.8 s');
    expect(idsOf(await ground.claim(node))).toEqual([two]);
  });

  test('waits on in its last life, and neither holds others up nor is joined by them', async () => {
    const node = await busy();
    const [last, mild] = await crashed(ground, 2);
    await lastLife(last);
    await waited([last, mild], '61 s');
    expect(idsOf(await ground.claim(node))).toEqual([mild]);
    await waited([last], '10 h');
    await runs([mild], '1 h');
    expect(await ground.claim(node)).toEqual([]);
    expect(await makesRoom(ground, node)).toMatchObject({ alone: last });
    const empty = await ground.node('empty');
    expect(idsOf(await ground.claim(empty))).toEqual([last]);
    const [late] = await crashed(ground, 1);
    await waited([late], '61 s');
    expect(await ground.claim(empty)).toEqual([]);
    expect(idsOf(await ground.claim(node))).toEqual([late]);
  });

  test('that had its node and was given back waits anew', async () => {
    const node = await busy();
    const [suspect] = await crashed(ground, 1);
    await waited([suspect], '10 min');
    const lease = await ground.claim(await ground.node('stops'));
    expect(idsOf(lease)).toEqual([suspect]);
    await release(ground.database, lease);
    expect(await ground.claim(node)).toEqual([]);
    await waited([suspect], '61 s');
    expect(idsOf(await ground.claim(node))).toEqual([suspect]);
  });

  test('counts from its dispatch where it was tried again; a clock that was set back costs it nothing', async () => {
    const node = await busy();
    const [again, future] = await crashed(ground, 2);
    await waited([future], '-10 min');
    await ground.sql(
      `update pgqueue.work_queue set waits_since = null, dispatched = now() - interval '61 s' where id = $1`,
      [again],
    );
    const first = await ground.claim(node);
    await runs(idsOf(first), '0.8 s');
    const second = await ground.claim(node);
    expect(new Set([...idsOf(first), ...idsOf(second)])).toEqual(new Set([again, future]));
  });
});

describe('what is said of it', () => {
  const said = async (id: unknown): Promise<readonly string[]> => {
    const { reasons } = await operator.explain(String(id));
    return reasons.map((reason) => reasonText(reason, (ms) => `${Math.round(ms / 1_000)} s`));
  };

  test('explain: what it waits for, for how long at most, and who makes room', async () => {
    const node = await busy();
    const [suspect] = await crashed(ground, 1);
    await waited([suspect], '20 s');
    expect(await said(suspect)).toEqual([
      'it was lost with its node once: it waits for a node of pool default that runs nothing else, for 40 s at most; so far 20 s',
    ]);
    await ground.claim(node);
    const [first] = await said(suspect);
    expect(first).toMatch(
      /for 40 s at most; so far 20 s; node claims nothing else for 10 s, and still runs 1 job$/,
    );
    await waited([suspect], '45 s');
    expect(await said(suspect)).toEqual([
      'it was lost with its node once: it has waited 65 s for a node that runs nothing else, and begins on the next one of pool default with a free slot',
    ]);
    expect(idsOf(await ground.claim(node))).toEqual([suspect]);
    expect(await said(suspect)).toEqual([expect.stringMatching(/^runs on node for 0 s/)]);
  });

  test('explain: in its last life it waits for as long as that takes; in a process of its own for nothing', async () => {
    const node = await busy();
    const [suspect] = await crashed(ground, 1);
    await lastLife(suspect);
    await waited([suspect], '90 s');
    expect(await said(suspect)).toEqual([
      'it was lost with its node once, and its next crash would be its last: it waits for a node of pool default that runs nothing else, however long that takes; so far 90 s',
    ]);
    await ground.sql(
      `update pgqueue.node set tasks = jsonb_set(tasks, '{hello,isolated}', 'true') where id = $1`,
      [node.id],
    );
    expect(await said(suspect)).toEqual([expect.stringMatching(/^scheduled: the next free node/)]);
    expect((await operator.status()).queues[0]?.held).toBeNull();
  });

  test('status: how many wait, and from ten seconds on a warning', async () => {
    await busy();
    const [last, mild] = await crashed(ground, 2);
    const before = await operator.status();
    expect(before.queues[0]?.held).toEqual({ suspect: 2 });
    expect(before.warnings.filter(({ kind }) => kind === 'suspects_wait')).toEqual([]);
    await lastLife(last);
    await waited([mild], '15 s');
    const { warnings } = await operator.status();
    expect(warnings.find(({ kind }) => kind === 'suspects_wait')?.message).toBe(
      '2 jobs of queue default, lost with their node before, wait for a node of pool default that runs nothing else, for 15 s so far, and for 45 s more at most, 1 of them for as long as that takes: the next crash would be the last',
    );
    await ground.sql(`update pgqueue.queue set max_crashes = 2`);
    const alone = (await operator.status()).warnings.find(({ kind }) => kind === 'suspects_wait');
    expect(alone).toMatchObject({ suspects: { jobs: 2, last: 2, leftMs: null } });
  });
});
