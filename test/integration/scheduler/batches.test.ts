import { randomUUID } from 'node:crypto';
import type { ClaimedRow } from '@pgqueue/postgres/internal';
import { breaches, claimRows, registerNode, settleRows, tellRuns } from '@pgqueue/postgres/internal';
import { afterEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { Bench } from './support.ts';
import { interruptedPool, openBench, ticks, until } from './support.ts';

const bench = opened(openBench);
afterEach(async () => {
  const broken = await breaches(bench.database);
  if (broken.length > 0) throw new Error(`broken: ${JSON.stringify(broken)}`);
  await bench.clear();
});

interface Quick {
  readonly claim: (max: number, ahead?: number) => Promise<readonly ClaimedRow[]>;
  readonly done: (rows: readonly ClaimedRow[]) => Promise<void>;
}

/** A node that has told that each run of its task takes 1 ms. */
async function quick({ slots = 4 }: { readonly slots?: number } = {}): Promise<Quick> {
  const member = { node: `node-${randomUUID()}`, incarnation: randomUUID() };
  const tasks = { t: { min: 1, max: 2, timeoutMs: null } };
  const times = { heartbeatMs: 30_000, lostAfterMs: 60_000 };
  await registerNode(bench.database, {
    ...member,
    ...times,
    tasks,
    slots,
    pool: 'default',
    software: 'test',
    seen: null,
  });
  await tellRuns(bench.database, member, { t: 1 });
  return {
    claim: async (max, ahead = 0) => {
      const input = { ...member, max, ahead, token: randomUUID(), from: 0, reap: false };
      return (await claimRows(bench.database, input)).rows;
    },
    done: async (rows) => {
      for (const { position, jobs } of rows) {
        const token = jobs[0]?.token ?? '';
        if (jobs.length > 1) {
          const row = { position, token, busyMs: jobs.map(() => 1), data: jobs.map(() => null) };
          const accepted = await settleRows(bench.database, [row]);
          if (accepted.size === 0) throw new Error('a batch that is held could not be settled');
        } else await bench.database.query('select pgqueue.ack($1, $2)', [jobs[0]?.id, token]);
      }
      await bench.database.query(`select pg_notify('pgqueue:done', '')`, []);
    },
  };
}

const sizes = async (): Promise<readonly number[]> => {
  const rows = await bench.database.query<{ size: number }>(
    'select coalesce(cardinality(jobs), 1) as size from pgqueue.work_queue order by position',
    [],
  );
  return rows.map(({ size }) => size);
};
const total = async (): Promise<number> => (await sizes()).reduce((sum, size) => sum + size, 0);
/** Waits until the scheduler has looked twice since. */
async function settled(scheduler: Awaited<ReturnType<Bench['scheduler']>>): Promise<void> {
  const before = ticks(scheduler).length;
  await until('two ticks', async () => {
    await bench.hint();
    return ticks(scheduler).length > before + 2;
  });
}

/** Claims and settles until the scheduler, which makes work items for as long as slots will need, has made a batch of so many jobs. */
async function flows(node: Quick, size = 3, queue = 'default'): Promise<void> {
  await until('batches', async () => {
    if ((await bench.count('queue')) < 300) await bench.enqueue({ count: 300, queue });
    await node.done(await node.claim(4, 4));
    return (await sizes()).some((found) => found >= size);
  });
}

test('short jobs go in batches as soon as slots are seen to take many, 25 at most where each takes 1 ms, each key in its order', async () => {
  const node = await quick({ slots: 4 });
  await bench.scheduler();
  await flows(node);
  expect(Math.max(...(await sizes()))).toBeLessThanOrEqual(25);
  const order = await bench.database.query<{ ok: boolean }>(
    `select bool_and(seq > before) as ok from (
       select q.seq, lag(q.seq) over (partition by q.key order by w.position, u.n) as before
       from pgqueue.work_queue w cross join lateral unnest(coalesce(w.jobs, array[w.id])) with ordinality as u (id, n)
       join pgqueue.queue q on q.id = u.id) o`,
    [],
  );
  expect(order).toEqual([{ ok: true }]);
});

test.each([
  ['a limit of a queue', `insert into pgqueue.queue_config (queue, concurrency) values ('default', 5)`],
  ['a limit of each key', `insert into pgqueue.queue_config (queue, key_concurrency) values ('default', 5)`],
  [
    'a limit of one for each key',
    `insert into pgqueue.queue_config (queue, key_concurrency) values ('default', 1)`,
  ],
])('%s holds with quick jobs, while batches are claimed and settled', async (what, config) => {
  const max = what === 'a limit of one for each key' ? 1 : 5;
  const node = await quick({ slots: 8 });
  await bench.database.query(config, []);
  await bench.enqueue({ count: 40, key: 'k' });
  await bench.scheduler({ pollMs: { min: 10, max: 20 } });
  const seen: number[] = [];
  await until('all to be done', async () => {
    seen.push(await total());
    await node.done(await node.claim(2, 1));
    return (await bench.count('history')) === 40;
  });
  expect(Math.max(...seen)).toBeLessThanOrEqual(max);
  expect(Math.max(...seen)).toBeGreaterThan(0);
});

test('a new leader knows the batches of the old one, ready and leased, and keeps to the limit', async () => {
  const node = await quick({ slots: 4 });
  const first = await bench.scheduler();
  await flows(node);
  const held = await node.claim(4);
  await first.stop();
  const count = await total();
  expect(count).toBeGreaterThan((await sizes()).length);
  await bench.database.query(`insert into pgqueue.queue_config (queue, concurrency) values ('default', $1)`, [
    count,
  ]);
  const second = await bench.scheduler();
  await settled(second);
  expect(await total()).toBe(count);
  await node.done(held);
  await settled(second);
  expect(await total()).toBeLessThanOrEqual(count);
});

test('batches that are taken apart whenever their facts are read stop no tick', async () => {
  await bench.node({ slots: 50 });
  await bench.enqueue({ count: 40 });
  await bench.database.query(
    `insert into pgqueue.work_queue (jobs, version, pool, task)
     select array_agg(id), 1, 'default', 't' from (select id, row_number() over (order by seq) / 4 as row from pgqueue.queue) q group by row`,
    [],
  );
  let apart = 0;
  const pool = interruptedPool(bench, 'item_facts', async () => {
    apart += 1;
    await bench.database.query(
      `select pgqueue.take_apart(array(select position from pgqueue.work_queue where jobs is not null order by position limit 1))`,
      [],
    );
  });
  const scheduler = await bench.scheduler({ pool });
  await until('a tick', () => ticks(scheduler).length > 0);
  await bench.enqueue({ count: 1 });
  await bench.hint();
  await until('the job', async () => (await bench.items()).length === 41);
  expect(apart).toBeGreaterThan(1);
  expect(scheduler.events.filter(({ type }) => type === 'database.error')).toEqual([]);
  await scheduler.stop();
  await pool.end();
});
