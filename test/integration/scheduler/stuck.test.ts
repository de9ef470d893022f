import { circuitBreaker, fairShare, ordered, policy, ranked } from '@pgqueue/core';
import { settle } from '@pgqueue/postgres/internal';
import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { interruptedPool, openBench, ticks, until } from './support.ts';

const bench = opened(openBench);
afterEach(() => bench.clear());

const urgentFirst = ranked({
  name: 'urgent-first',
  rank: ({ priority }) => priority,
  outranks: (job, other) => job.priority < other.priority,
});

/** Someone else's transaction, open for as long as `during` runs. */
async function whileLocked(sql: string, values: unknown[], during: () => Promise<unknown>): Promise<void> {
  const application = new pg.Client({ connectionString: bench.test.url });
  await application.connect();
  try {
    await application.query('begin');
    await application.query(sql, values);
    await during();
  } finally {
    await application.end();
  }
}

test('jobs that an application has locked do not keep others from going', async () => {
  await bench.enqueue({ count: 10 });
  await whileLocked('select from pgqueue.queue for update', [], async () => {
    await bench.enqueue({ count: 40 });
    await bench.node({ slots: 10 });
    await bench.scheduler({ horizonMs: 0 });
    const items = await until('all slots have work', async () => {
      const found = await bench.items();
      return found.length >= 10 ? found : undefined;
    });
    expect(items.map(({ seq }) => seq - (items[0]?.seq ?? 0))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});

test('a work item that someone has locked, and that is to be recalled, does not keep everything from going', async () => {
  await bench.node({ slots: 4 });
  await bench.enqueue({ count: 1, key: 'slow', priority: 5 });
  await bench.scheduler({ policy: policy({ order: urgentFirst, recall: true }), horizonMs: 0 });
  const [item] = await until('it is scheduled', async () => {
    const items = await bench.items();
    return items.length === 1 ? items : undefined;
  });
  await whileLocked('select * from pgqueue.cancel($1::uuid[])', [[item?.id]], async () => {
    await bench.enqueue({ count: 2, key: 'urgent', priority: -1 });
    await bench.hint();
    await until('the urgent jobs are scheduled', async () => (await bench.count('work_queue')) === 3);
    expect((await bench.items()).map(({ key }) => key)).toEqual(['slow', 'urgent', 'urgent']);
  });
});

test('an ordered key whose job goes back to wait while a new leader asks what it was stays held', async () => {
  const node = await bench.node();
  await bench.enqueue({ count: 3, key: 'a' });
  const inOrder = policy({ gates: [ordered()], order: fairShare() });
  const first = await bench.scheduler({ policy: inOrder });
  await until('one job is scheduled', async () => (await bench.count('work_queue')) === 1);
  const [running] = await node.claim(1);
  if (running === undefined) throw new Error('nothing was claimed');
  await first.stop();

  let settled = false;
  const pool = interruptedPool(bench, 'item_facts', async () => {
    if (settled) return;
    settled = true;
    await settle(bench.database, [
      { ...running, outcome: 'retry', delayMs: 3_600_000, data: { message: 'x' } } as never,
    ]);
  });
  const second = await bench.scheduler({ pool, listen: false, policy: inOrder });
  try {
    await until('it has ticked', () => settled && ticks(second).length >= 5);
    expect(await bench.items()).toEqual([]);
  } finally {
    await second.stop();
    await pool.end();
  }
});

test('jobs behind many that no node can run are found, however different the attributes of those are', async () => {
  await bench.database.query(
    `insert into pgqueue.queue (task, attributes) select 'unknown', jsonb_build_object('order', n) from generate_series(1, 40000) n`,
    [],
  );
  await bench.enqueue({ count: 3 });
  await bench.node();
  await bench.scheduler();
  await until('they are scheduled', async () => (await bench.count('work_queue')) === 3);
  expect((await bench.items()).map(({ task }) => task)).toEqual(['t', 't', 't']);
});

test('a bundle that is due goes, however many others wait for more jobs', async () => {
  await bench.database.query(
    `insert into pgqueue.queue (task, key) select 't', 'k' || l from generate_series(1, 500) l, generate_series(1, 30)`,
    [],
  );
  await bench.database.query(
    `insert into pgqueue.queue (task, key, created) select 't', 'zz', now() - interval '2 hours' from generate_series(1, 30)`,
    [],
  );
  await bench.node({ tasks: { t: { min: 1, max: 1, batch: true } } });
  await bench.scheduler({
    policy: policy({ coalesce: [{ when: () => true, max: 1_000, ageMs: 3_600_000 }], order: fairShare() }),
  });
  await until('it is scheduled', async () => (await bench.count('work_queue')) > 0);
  expect((await bench.items())[0]?.key).toBe('zz');
});

test('a job that becomes due behind thousands of held queues is found soon, whose jobs all have the empty key', async () => {
  await bench.database.query(
    `insert into pgqueue.queue_config (queue, concurrency) select 'q' || n, 0 from generate_series(1, 4000) n`,
    [],
  );
  await bench.database.query(
    `insert into pgqueue.queue (task, queue) select 't', 'q' || n from generate_series(1, 4000) n`,
    [],
  );
  await bench.enqueue({ count: 1, queue: 'zz', runAfter: `now() + interval '6 seconds'` });
  await bench.node();
  await bench.scheduler();
  const waiting = `queue = 'zz' and run_after is null`;
  await until('it is due', async () => (await bench.count('queue', waiting)) === 1);
  await until('it is scheduled', async () => (await bench.count('work_queue')) === 1);
  expect(await bench.count('queue')).toBe(4_001);
});

test('a backlog of settlements is read at once, page by page', async () => {
  const breaker = circuitBreaker({
    name: 'b',
    by: ({ queue }) => queue,
    errorRate: 0.5,
    minimum: 10,
    windowMs: 1_000,
    openMs: 1_000,
  });
  await bench.scheduler({ policy: policy({ gates: [breaker], order: fairShare() }) });
  await until('it is fed', async () => (await bench.count('scheduler_lease', 'feed')) === 1);
  await bench.database.query(
    `insert into pgqueue.settlement (at, positions, verdicts, busy_ms)
     select now(), array[-n], array['done'], array[1] from generate_series(1, 20000) n`,
    [],
  );
  await until('all are read', async () => (await bench.count('settlement')) === 0);
  expect(await bench.count('work_queue')).toBe(0);
});
