import { fromPg, settle, settleAndHint, settleWithin } from '@pgqueue/postgres/internal';
import { createWorker } from '@pgqueue/worker';
import { defineTask, implement } from '@pgqueue/core';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openBench, until } from '../scheduler/support.ts';

const bench = opened(openBench);
let listener: Client;
const heard: string[] = [];

beforeAll(async () => {
  listener = new Client({ connectionString: bench.test.url });
  await listener.connect();
  await listener.query('listen "pgqueue:done"');
  listener.on('notification', ({ channel }) => heard.push(channel));
});
afterEach(async () => {
  heard.length = 0;
  await bench.clear();
});
afterAll(() => listener.end());

/** Leases of jobs, by a node of its own. */
async function leased(count: number): Promise<readonly { readonly id: string; readonly token: string }[]> {
  const node = await bench.node({ slots: count });
  await bench.enqueue({ count });
  const scheduler = await bench.scheduler();
  const leases = await until('leases', async () => {
    const found = await node.claim(count);
    return found.length === count && found;
  });
  await scheduler.stop();
  return leases;
}

const done = ({ id, token }: { readonly id: string; readonly token: string }) =>
  ({ id, token, outcome: 'done', delayMs: null, data: null }) as const;

test('a settlement carries its hint, one for all that end together; a stale one carries none', async () => {
  const [first, second] = await leased(2);
  if (first === undefined || second === undefined) throw new Error('there are two leases');
  const settled = await settleAndHint(bench.database, [done(first), done(second)]);
  expect(settled.hinted).toBe(true);
  expect([...settled.verdicts.values()]).toEqual(['done', 'done']);
  await until('the hint', () => heard.length > 0);
  const again = await settleAndHint(bench.database, [done(first)]);
  expect(again).toEqual({ verdicts: new Map(), hinted: false });
  await listener.query('select 1'); // a hint of that commit would have come before this answer
  expect(heard).toEqual(['pgqueue:done']);
});

test('while one such commit is under way, another one goes without, and waits for nothing', async () => {
  const [first, second] = await leased(2);
  if (first === undefined || second === undefined) throw new Error('there are two leases');
  const other = new Client({ connectionString: bench.test.url });
  await other.connect();
  try {
    await other.query('begin');
    await other.query(`select pg_try_advisory_xact_lock(hashtextextended('pgqueue:done', 0))`);
    const settled = await settleAndHint(bench.database, [done(first)]);
    expect(settled).toEqual({ verdicts: new Map([[first.id, 'done']]), hinted: false });
    await other.query('commit');
    expect((await settleAndHint(bench.database, [done(second)])).hinted).toBe(true);
  } finally {
    await other.end();
  }
  await until('the hint', () => heard.length > 0);
  expect(heard).toEqual(['pgqueue:done']);
});

test('what a job waited in its node is no part of its run', async () => {
  const leases = await leased(3);
  const started = async (table: string): Promise<readonly number[]> => {
    const rows = await bench.database.query<{ readonly at: number }>(
      `select extract(epoch from started)::float8 * 1000 as at from pgqueue.${table} where id = any ($1) order by id`,
      [leases.map(({ id }) => id)],
    );
    return rows.map(({ at }) => at);
  };
  const claimed = await started('work_queue');
  const [one, two, three] = leases.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(done);
  if (one === undefined || two === undefined || three === undefined)
    throw new Error('there are three leases');
  await settle(bench.database, [
    { ...one, waitedMs: 0.5 },
    { ...two, waitedMs: 3_600_000 },
    { ...three, waitedMs: Number.NaN },
  ]);
  const [first = 0, second = 0, third = 0] = await started('history');
  expect(first - (claimed[0] ?? 0)).toBeCloseTo(0.5, 1);
  const [ended] = await bench.database.query<{ readonly at: number }>(
    `select extract(epoch from finished)::float8 * 1000 as at from pgqueue.history where id = $1`,
    [two.id],
  );
  // however long it says that it waited
  expect(second).toBe(ended?.at);
  expect(third).toBe(claimed[2]);
});

test('a transaction that has settled its job and falls silent is ended by the server: the job is not locked for ever', async () => {
  const [lease] = await leased(1);
  if (lease === undefined) throw new Error('there is a lease');
  const client = new Client({ connectionString: bench.test.url });
  const ended = Promise.withResolvers<Error>();
  client.on('error', ended.resolve);
  await client.connect();
  await client.query('begin');
  const target = { ...fromPg(client), schema: 'pgqueue' };
  const verdicts = await settleWithin(target, [done(lease)], 300);
  expect(verdicts.get(lease.id)).toBe('done');
  expect((await ended.promise).message).toContain('idle-in-transaction timeout');
  await until('the job to be free', async () => {
    const rows = await bench.database.query(
      'select from pgqueue.work_queue where id = $1 and lock_token = $2 for update skip locked',
      [lease.id, lease.token],
    );
    return rows.length === 1;
  });
  // whoever has set less, keeps it; and it holds for that transaction alone
  const other = new Client({ connectionString: bench.test.url });
  await other.connect();
  try {
    const shown = async (): Promise<unknown> =>
      (await other.query('show idle_in_transaction_session_timeout')).rows[0]
        ?.idle_in_transaction_session_timeout;
    await other.query(`set idle_in_transaction_session_timeout = '20s'`);
    await other.query('begin');
    await settleWithin({ ...fromPg(other), schema: 'pgqueue' }, [done(lease)], 60_000);
    expect(await shown()).toBe('20s');
    await other.query('rollback');
    await other.query('begin');
    await settleWithin({ ...fromPg(other), schema: 'pgqueue' }, [done(lease)], 5_000);
    expect(await shown()).toBe('5s');
    await other.query('commit');
    expect(await shown()).toBe('20s');
  } finally {
    await other.end();
  }
});

test('a node that begins says that its slots are free: what waits for them does not wait for the next poll', async () => {
  const task = implement(defineTask({ name: 't', payload: z.object({}) }), () => {});
  const worker = createWorker({ connectionString: bench.test.url, tasks: [task], node: 'new' });
  try {
    await worker.start();
    await until('the hint', () => heard.length > 0);
    expect(heard).toEqual(['pgqueue:done']);
  } finally {
    await worker.stop();
  }
});

test.each(['transaction', 'settleIn'] as const)(
  'a job that its handler ends by ctx.%s wakes the schedulers as others do, after the commit and before it returns',
  async (how) => {
    const returns = Promise.withResolvers<void>();
    const own = new Client({ connectionString: bench.test.url });
    await own.connect();
    const task = defineTask({ name: 't', payload: z.object({}) });
    const worker = createWorker({
      connectionString: bench.test.url,
      node: 'commits',
      tasks: [
        implement(task, async (_payload, ctx) => {
          heard.length = 0;
          if (how === 'transaction') await ctx.transaction((client) => client.query('select 1'));
          else {
            await ctx.settleIn(async (settle) => {
              await own.query('begin');
              await settle(fromPg(own));
              await own.query('commit');
            });
          }
          await returns.promise; // no slot is freed meanwhile
        }),
      ],
    });
    try {
      await worker.start();
      await until('the hint that its slots are free', () => heard.length > 0);
      await bench.enqueue({ count: 1 });
      const committed: unknown[] = [];
      listener.once('notification', () => {
        void listener
          .query('select outcome from pgqueue.history')
          .then(({ rows }) => committed.push(...rows));
      });
      await bench.scheduler();
      await until('the hint of its end', () => heard.length > 0 && committed.length > 0);
      expect([heard, committed, worker.running]).toEqual([['pgqueue:done'], [{ outcome: 'done' }], 1]);
    } finally {
      returns.resolve();
      await worker.stop();
      await own.end();
    }
  },
);
