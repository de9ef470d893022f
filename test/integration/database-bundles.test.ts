import { randomUUID } from 'node:crypto';
import type { ClaimedJob } from '@pgqueue/core';
import { reap, registerNode, release } from '@pgqueue/postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { dispatchBundles, overlaps, recordLeases } from './bundles-support.ts';
import type { Ground, Member } from './database-support.ts';
import { openGround } from './database-support.ts';

let ground: Ground;
beforeAll(async () => {
  ground = await openGround();
  await ground.sql(recordLeases);
});
beforeEach(async () => {
  await ground.reset();
  await ground.sql('truncate bundle_lease');
});
afterAll(() => ground.close());

/** A node that takes bundles of the task `hello` whole. */
async function taker(id: string, batch = true): Promise<Member> {
  const incarnation = randomUUID();
  const tasks = { hello: { min: 1, max: 1, timeoutMs: 60_000, batch } };
  const self = { node: id, incarnation, tasks, pool: 'default', slots: 10, software: 'test', seen: null };
  await registerNode(ground.database, { ...self, heartbeatMs: 5_000, lostAfterMs: 60_000 });
  return { id, incarnation };
}

async function jobs(count: number, columns: Readonly<Record<string, unknown>> = {}) {
  const ids: string[] = [];
  while (ids.length < count) ids.push(await ground.insert(columns));
  return ids;
}

/** While a transaction of another session holds this job's work item locked. */
async function whileLocked(id: string | undefined, work: () => Promise<void>): Promise<void> {
  const session = await ground.session();
  try {
    await session.sql('begin');
    await session.sql('select from pgqueue.work_queue where id = $1 for update', [id]);
    await work();
    await session.sql('commit');
  } finally {
    await session.end();
  }
}

const idsOf = (claimed: readonly ClaimedJob[]): readonly string[] => claimed.map(({ id }) => id);

describe('a bundle', () => {
  test('takes one place of a claim, is leased together in its order, and says its name', async () => {
    const [a, b, ...rest] = await jobs(8);
    const ids = [a, b, ...rest] as string[];
    await dispatchBundles(ground.database, [ids.slice(0, 1), ids.slice(1, 6), ids.slice(6, 7), ids.slice(7)]);
    const node = await taker('node');
    const claimed = await ground.claim(node, 3);
    expect(idsOf(claimed)).toEqual(ids.slice(0, 7));
    expect(claimed.map(({ bundle }) => bundle)).toEqual([null, b, b, b, b, b, null]);
    expect(idsOf(await ground.claim(node, 3))).toEqual(ids.slice(7));
    await ground.sound();
  });

  test('has the shortest of the leases of its jobs; others keep theirs', async () => {
    const ids = await jobs(2);
    ids.push(...(await jobs(1, { timeout: '20 seconds' })), ...(await jobs(1, { timeout: '1 hour' })));
    const [alone] = await jobs(1, { timeout: '1 hour' });
    await dispatchBundles(ground.database, [ids, [String(alone)]]);
    const claimed = await ground.claim(await taker('node'), 2);
    expect(claimed.map(({ leaseMs }) => leaseMs)).toEqual([20_000, 20_000, 20_000, 20_000, 3_600_000]);
  });

  test('comes job by job to a node that does not take it whole, each when the one before has ended', async () => {
    const ids = await jobs(3);
    await dispatchBundles(ground.database, [ids]);
    const [one, other] = [await taker('one', false), await taker('other')];
    for (const id of ids) {
      const claimed = await ground.claim(one, 10);
      expect(claimed).toMatchObject([{ id, bundle: ids[0] }]);
      expect(await ground.claim(one, 10)).toEqual([]);
      expect(await ground.claim(other, 10)).toEqual([]);
      await ground.settle(claimed, 'done');
    }
  });

  test('that was given back is claimed together again, whatever the claimer has room for; one whose leases ran out, one by one', async () => {
    const ids = await jobs(5);
    await dispatchBundles(ground.database, [ids]);
    const [one, other] = [await taker('one'), await taker('other')];
    const claimed = await ground.claim(one, 1);
    expect(await release(ground.database, claimed)).toEqual(new Set(ids));
    expect(idsOf(await ground.claim(one, 1))).toEqual(ids);
    await ground.sql(`update pgqueue.work_queue set lock_timeout = clock_timestamp() - interval '1 ms'`);
    for (const id of ids) {
      const stolen = await ground.claim(other, 10);
      expect(stolen.map((job) => ({ id: job.id, crashes: job.crashes }))).toEqual([{ id, crashes: 1 }]);
      await ground.settle(stolen, 'done');
    }
    await ground.sound();
  });

  test('goes on without jobs that were cancelled, removed, expired, or have no row any more', async () => {
    const ids = await jobs(4);
    const [late] = await jobs(1, { expires_at: new Date(Date.now() + 3_600_000) });
    const [rest] = await jobs(1);
    const all = [ids[0], late, ids[1], ids[2], ids[3], rest].map(String);
    await dispatchBundles(ground.database, [all]);
    await ground.sql('delete from pgqueue.work_queue where id = $1', [ids[0]]);
    await ground.sql(
      `update pgqueue.queue set expires_at = clock_timestamp() - interval '1 ms' where id = $1`,
      [late],
    );
    await ground.sql('delete from pgqueue.queue where id = $1', [ids[1]]);
    await ground.sql('select pgqueue.cancel(array[$1::uuid])', [ids[2]]);
    const node = await taker('node');
    expect(idsOf(await ground.claim(node, 1))).toEqual([ids[3], rest]);
    expect(await ground.claim(node, 1)).toEqual([]);
  });

  test('of which nothing can run takes no place from what can', async () => {
    const ids = await jobs(3, { expires_at: new Date(Date.now() + 3_600_000) });
    const [alone] = await jobs(1);
    await dispatchBundles(ground.database, [ids, [String(alone)]]);
    await ground.sql(
      `update pgqueue.queue set expires_at = clock_timestamp() - interval '1 ms' where expires_at is not null`,
    );
    expect(idsOf(await ground.claim(await taker('node'), 1))).toEqual([alone]);
  });
});

test('a job that failed with others, and would be dead the next time, goes alone, and buries nobody', async () => {
  const ids = await jobs(4);
  const fresh = await jobs(1);
  await dispatchBundles(ground.database, [[...ids, ...fresh]]);
  await ground.sql('update pgqueue.queue set tries = max_tries - 1 where id = $1', [ids[0]]);
  await ground.sql('update pgqueue.queue set crashes = max_crashes - 1 where id = $1', [ids[2]]);
  await ground.sql('update pgqueue.queue set max_tries = 1, max_crashes = 1 where id = $1', [fresh[0]]);
  const node = await taker('node');
  const seen: (readonly string[])[] = [];
  for (let claims = 0; claims < 4; claims += 1) {
    const claimed = await ground.claim(node, 10);
    seen.push(idsOf(claimed));
    await ground.settle(claimed, 'done');
  }
  expect(seen).toEqual([[ids[1], ids[3], fresh[0]], [ids[0]], [ids[2]], []]);
});

describe('the jobs of a bundle are never with two handlers', () => {
  test('a job that someone holds locked is passed over, and waits until the others have ended', async () => {
    const ids = await jobs(3);
    await dispatchBundles(ground.database, [ids]);
    const [one, other] = [await taker('one'), await taker('other')];
    let claimed: readonly ClaimedJob[] = [];
    await whileLocked(ids[1], async () => {
      claimed = await ground.claim(one, 10);
    });
    expect(idsOf(claimed)).toEqual([ids[0], ids[2]]);
    expect(await ground.claim(other, 10)).toEqual([]);
    await ground.settle(claimed.slice(0, 1), 'retry');
    expect(await ground.claim(other, 10)).toEqual([]);
    await ground.settle(claimed.slice(1), 'done');
    expect(idsOf(await ground.claim(other, 10))).toEqual([ids[1]]);
  });

  test('while its first job is being claimed, nobody begins with the second', async () => {
    const ids = await jobs(3);
    await dispatchBundles(ground.database, [ids]);
    const node = await taker('node');
    await whileLocked(ids[0], async () => {
      expect(await ground.claim(node, 10)).toEqual([]);
    });
    expect(idsOf(await ground.claim(node, 10))).toEqual(ids);
  });

  test('what is left of an older bundle of the same name goes first, by itself', async () => {
    const [a, b, c] = await jobs(3);
    await dispatchBundles(ground.database, [[a, b].map(String)]);
    const one = await taker('one', false);
    const first = await ground.claim(one, 10);
    expect(idsOf(first)).toEqual([a]);
    await ground.settle(first, 'snooze');
    await ground.sql('update pgqueue.queue set run_after = null');
    await dispatchBundles(ground.database, [[a, c].map(String)]);
    const whole = await taker('whole');
    const older = await ground.claim(whole, 10);
    expect(idsOf(older)).toEqual([b]);
    expect(await ground.claim(whole, 10)).toEqual([]);
    await ground.settle(older, 'done');
    expect(idsOf(await ground.claim(whole, 10))).toEqual([a, c]);
  });

  test('nodes that claim, settle, release and lose leases at once share no bundle, and lose no job', async () => {
    const bundles: string[][] = [];
    for (let n = 0; n < 40; n += 1) bundles.push(await jobs(1 + (n % 7), { max_crashes: 1_000 }));
    await dispatchBundles(ground.database, bundles);
    const members = await Promise.all([0, 1, 2, 3, 4, 5].map((n) => taker(`node ${n}`, n % 3 !== 0)));
    let done = 0;
    await Promise.all(
      members.map(async (node, n) => {
        for (let round = n; done < bundles.flat().length && round < 10_000; round += 1) {
          const claimed = await ground.claim(node, 1 + (round % 4));
          if (claimed.length === 0) await reap(ground.database);
          if (round % 5 === 1) await release(ground.database, claimed.slice(round % 3));
          else if (round % 5 === 2) {
            await ground.sql(
              `update pgqueue.work_queue set lock_timeout = clock_timestamp() where lock_token = $1 and position % 2 = $2`,
              [claimed[0]?.token ?? null, round % 2],
            );
            await reap(ground.database);
          }
          const settled = await ground.settle(claimed, 'done');
          done += settled.size;
        }
      }),
    );
    expect(await ground.sql(overlaps)).toEqual([]);
    expect(await ground.one(`select count(distinct id)::integer from pgqueue.history`)).toBe(
      bundles.flat().length,
    );
    expect(await ground.one(`select count(*)::integer from pgqueue.dead_letter`)).toBe(0);
    expect(await ground.one('select count(*)::integer from bundle_lease')).toBeGreaterThan(
      bundles.flat().length,
    );
    await ground.sound();
  });
});
