import { randomUUID } from 'node:crypto';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { claimRows, reap, registerNode, release, releaseRows, resetNode } from '@pgqueue/postgres/internal';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { dispatchBundles, overlaps, recordLeases } from './bundles-support.ts';
import type { Member } from './support.ts';
import { openGround } from './support.ts';

const ground = opened(openGround);
beforeAll(() => ground.sql(recordLeases));
beforeEach(async () => {
  await ground.reset();
  await ground.sql('truncate bundle_lease');
});

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

const idsOf = (claimed: readonly ClaimedJob[]): readonly string[] => claimed.map(({ id }) => id);

describe('a bundle', () => {
  test('takes one place of a claim, is leased together in its order, and says its name', async () => {
    const ids = await jobs(8);
    await dispatchBundles(ground.database, [ids.slice(0, 1), ids.slice(1, 6), ids.slice(6, 7), ids.slice(7)]);
    const node = await taker('node');
    const claimed = await ground.claim(node, 3);
    expect(idsOf(claimed)).toEqual(ids.slice(0, 7));
    const [, name] = claimed.map(({ bundle }) => bundle);
    expect(name).toEqual(expect.any(String));
    expect(claimed.map(({ bundle }) => bundle)).toEqual([null, name, name, name, name, name, null]);
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

  test('is only for nodes that take it', async () => {
    const ids = await jobs(3);
    const [alone] = await jobs(1);
    await dispatchBundles(ground.database, [ids, [String(alone)]]);
    expect(idsOf(await ground.claim(await taker('one', false), 10))).toEqual([alone]);
    expect(idsOf(await ground.claim(await taker('other'), 10))).toEqual(ids);
  });

  test('that was given back as it is goes as it is, from its old place; the lease of jobs by themselves, and they wait again', async () => {
    const ids = await jobs(4);
    await dispatchBundles(ground.database, [ids]);
    const { id, incarnation } = await taker('node');
    const rows = async () => {
      const common = { node: id, incarnation, max: 5, from: 0, reap: true, ahead: 5 };
      return (await claimRows(ground.database, { ...common, token: randomUUID() })).rows;
    };
    const [first] = await rows();
    expect(first?.jobs.map((job) => job.id)).toEqual(ids);
    const { position, token } = first?.jobs[0] ?? { position: 0, token: '' };
    expect(await releaseRows(ground.database, [{ position, token }])).toBe(1);
    const [again] = await rows();
    expect(again).toMatchObject({ position, size: 4 });
    const [one, ...others] = again?.jobs ?? [];
    expect(await release(ground.database, one === undefined ? [] : [one])).toEqual(new Set([one?.id]));
    expect(await ground.one(`select count(*)::integer from pgqueue.work_item`)).toBe(3);
    expect(await ground.one(`select status from pgqueue.job where id = $1`, [one?.id])).toBe('pending');
    expect((await ground.settle(others, 'done')).size).toBe(3);
    await ground.sound();
  });

  test('whose node is reset counts with all its jobs', async () => {
    await dispatchBundles(ground.database, [await jobs(3)]);
    await ground.claim(await taker('one'), 1);
    expect(await resetNode(ground.database, 'one')).toEqual({ ready: 3, dead: 0, cancelled: 0 });
    await ground.sound();
  });

  test('whose leases ran out is charged, and no part of it is claimed by itself', async () => {
    const ids = await jobs(3);
    await dispatchBundles(ground.database, [ids]);
    await ground.claim(await taker('one'), 1);
    await ground.sql(`update pgqueue.work_queue set lock_timeout = clock_timestamp() - interval '1 ms'`);
    expect(await ground.claim(await taker('other'), 10)).toEqual([]);
    expect(await ground.sql('select status, crashes from pgqueue.job')).toEqual(
      ids.map(() => ({ status: 'pending', crashes: 1 })),
    );
    await ground.sound();
  });

  test('goes on without jobs that were cancelled, have expired, or have no row any more', async () => {
    const ids = await jobs(4);
    const [late] = await jobs(1, { expires_at: new Date(Date.now() + 3_600_000) });
    const [rest] = await jobs(1);
    const all = [ids[0], late, ids[1], ids[2], ids[3], rest].map(String);
    await dispatchBundles(ground.database, [all]);
    await ground.sql(
      `update pgqueue.queue set expires_at = clock_timestamp() - interval '1 ms' where id = $1`,
      [late],
    );
    await ground.sql('delete from pgqueue.queue where id = $1', [ids[1]]);
    for (const id of [ids[0], ids[2]]) {
      const [row] = await ground.sql('select verdict from pgqueue.cancel(array[$1::uuid])', [id]);
      expect(row).toEqual({ verdict: 'cancelled' });
    }
    const node = await taker('node');
    const claimed = await ground.claim(node, 1);
    expect(idsOf(claimed)).toEqual([ids[3], rest]);
    expect(await ground.claim(node, 1)).toEqual([]);
    await ground.settle(claimed, 'done');
    await ground.sound();
  });

  test('of 1,000 jobs has a place for each of them before what was dispatched later', async () => {
    const ids = await jobs(1_000);
    const after = await jobs(3);
    await dispatchBundles(ground.database, [ids, ...after.map((id) => [id])]);
    const node = await taker('node');
    await ground.sql('select pgqueue.cancel(array[$1::uuid])', [ids[7]]);
    const claimed = await ground.claim(node, 4);
    expect(idsOf(claimed)).toEqual([...ids.filter((id) => id !== ids[7]), ...after]);
    expect((await ground.settle(claimed, 'done')).size).toBe(1_002);
    await ground.sound();
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

describe('the jobs of a bundle are never with two handlers', () => {
  test('nodes that claim, settle, release and lose leases at once share no bundle, and lose no job', async () => {
    const bundles: string[][] = [];
    for (let n = 0; n < 40; n += 1) bundles.push(await jobs(1 + (n % 7), { max_crashes: 1_000 }));
    let done = 0;
    const total = bundles.flat().length;
    const dispatching = (async () => {
      // as a leader that plans again what was given back
      for (;;) {
        await dispatchBundles(ground.database, bundles);
        if (done >= total) return;
      }
    })();
    const members = await Promise.all([0, 1, 2, 3, 4, 5].map((n) => taker(`node ${n}`, n % 3 !== 0)));
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
    await dispatching;
    expect(await ground.sql(overlaps)).toEqual([]);
    expect(await ground.one(`select count(distinct id)::integer from pgqueue.history`)).toBe(
      bundles.flat().length,
    );
    expect(await ground.one(`select count(*)::integer from pgqueue.dead_letter`)).toBe(0);
    expect(await ground.one('select count(distinct bundle)::integer from bundle_lease')).toBeGreaterThan(
      bundles.length,
    );
    await ground.sound();
  });
});
