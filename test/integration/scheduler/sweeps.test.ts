import { setTimeout as sleep } from 'node:timers/promises';
import { createOperator } from '@pgqueue/postgres';
import { dueSchedules } from '@pgqueue/postgres/internal';
import { createScheduler } from '@pgqueue/scheduler';
import { afterEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { countCalls, openBench, until } from './support.ts';

const bench = opened(openBench);
afterEach(() => bench.clear());

test('a delayed job is dispatched at its time, not before', async () => {
  await bench.node();
  const scheduler = await bench.scheduler();
  await until('it leads', () => scheduler.leads);
  await bench.enqueue({ count: 3, runAfter: `clock_timestamp() + interval '700 ms'` });
  await bench.hint();
  let early = 0;
  const lateMs = await until('the jobs are dispatched', async () => {
    const [row] = await bench.database.query<{ items: number; pending: number }>(
      `select (select count(*) from pgqueue.work_queue)::integer as items,
              (select count(*) from pgqueue.queue where run_after is null)::integer as pending`,
      [],
    );
    early += row?.pending === 0 ? row.items : 0;
    if (row?.items !== 3) return undefined;
    const [late] = await bench.database.query<{ ms: number }>(
      `select extract(epoch from clock_timestamp() - min(created))::float8 * 1000 as ms from pgqueue.queue`,
      [],
    );
    return late?.ms;
  });
  expect(early).toBe(0);
  expect(lateMs).toBeGreaterThanOrEqual(700);
});

test('a job that was not started by its expiry ends as expired', async () => {
  const scheduler = await bench.scheduler();
  await until('it leads', () => scheduler.leads);
  await bench.enqueue({ count: 2, expiresAt: `clock_timestamp() + interval '300 ms'` });
  await bench.hint();
  await until('both expired', async () => (await bench.count('history', `outcome = 'expired'`)) === 2);
  expect(await bench.count('queue')).toBe(0);
});

test('the jobs of a lost node, and expired leases, are taken back', async () => {
  const lost = await bench.node({ id: 'lost', slots: 3 });
  await bench.enqueue({ count: 3 });
  const scheduler = await bench.scheduler();
  await until('three items', async () => (await bench.items()).length === 3);
  expect(await lost.claim(3)).toHaveLength(3);
  await bench.database.query(`update pgqueue.node set heartbeat_ms = 100, lost_after_ms = 300`, []);
  await bench.hint();
  const event = await until('the node is lost', () =>
    scheduler.events.find(({ type }) => type === 'node.lost'),
  );
  expect(event).toMatchObject({ node: 'lost', jobs: 3 });
  const other = await bench.node({ id: 'other', slots: 3 });
  expect(await other.claim(3)).toHaveLength(1); // one at a time: another one when it has run for 30 s
  await until('all of them', async () => {
    await bench.database.query(
      `update pgqueue.work_queue set started = started - interval '31 s' where lock_key = 'other'`,
      [],
    );
    await other.claim(3);
    return (await bench.count('work_queue', `lock_key = 'other'`)) === 3;
  });
  expect(await bench.count('queue', 'crashes = 1')).toBe(3);

  await bench.database.query(`update pgqueue.work_queue set lock_timeout = clock_timestamp()`, []);
  await bench.hint();
  await until(
    'the leases are reaped',
    async () => (await bench.count('work_queue', 'lock_key is null')) === 3,
  );
});

const setSchedule = async (name: string, cron: string, nextSlot = 'null'): Promise<void> => {
  await bench.database.query(
    `insert into pgqueue.schedule (name, cron, timezone, task, payload, next_slot)
     values ($1, $2, 'Europe/Berlin', 't', '{"from": "cron"}', ${nextSlot})`,
    [name, cron],
  );
};

test('as long as nodes live, nobody looks through all work items for what lost ones hold', async () => {
  const calls = await countCalls(bench.database, ['lose_nodes']);
  await bench.node({ id: 'alive', lostAfterMs: 1_000 });
  const scheduler = await bench.scheduler();
  await until('it leads', () => scheduler.leads);
  // five times as long as its row would do without
  const endsAt = performance.now() + 5_000;
  let missed = 0;
  for (let beatAt = performance.now(); beatAt < endsAt;) {
    await bench.database.query(`update pgqueue.node set heartbeat = clock_timestamp()`, []);
    await sleep(50);
    const now = performance.now();
    missed += Math.floor((now - beatAt) / 500); // the machine stalled
    beatAt = now;
  }
  await scheduler.stop(); // its connections report what they called
  const [looks] = await calls();
  // once when it began to lead, and where a beat was late
  expect(looks).toBeLessThanOrEqual(2 + missed);
});

test('each slot of a schedule becomes one job, whoever leads', async () => {
  const schedulers = await Promise.all([bench.scheduler(), bench.scheduler()]);
  await setSchedule('each-second', '* * * * * *');
  await bench.hint();
  await until('two slots', async () => (await bench.count('queue')) >= 2);
  const leader = schedulers.find(({ leads }) => leads);
  await leader?.stop();
  await until('two more', async () => (await bench.count('queue')) >= 4);
  const [row] = await bench.database.query<{ jobs: number; slots: number }>(
    `select count(*)::integer as jobs, extract(epoch from (select last_slot from pgqueue.schedule) - date_trunc('second', min(created)))::integer + 1 as slots
     from pgqueue.queue`,
    [],
  );
  // a machine that stalls makes up for the latest slot only: none comes twice
  expect(row?.jobs).toBeLessThanOrEqual(row?.slots ?? 0);
  expect(row?.jobs).toBeGreaterThanOrEqual(4);
});

test('a slot that was enqueued is not enqueued again, whoever asks', async () => {
  await setSchedule('hourly', '0 * * * *', `date_trunc('hour', clock_timestamp())`);
  const scheduler = await bench.scheduler();
  await until('it fired', () => scheduler.events.some(({ type }) => type === 'schedule.fired'));
  await bench.database.query(`update pgqueue.schedule set next_slot = last_slot`, []);
  await bench.hint();
  await until(
    'it is planned anew',
    async () => (await bench.count('schedule', 'next_slot > last_slot')) === 1,
  );
  expect(await bench.count('queue')).toBe(1);
});

test('after a downtime only the latest missed slot is made up for', async () => {
  await setSchedule('hourly', '0 * * * *', `date_trunc('hour', clock_timestamp()) - interval '30 hours'`);
  const [before] = await bench.database.query<{ hour: string }>(
    `select date_trunc('hour', clock_timestamp())::text as hour`,
    [],
  );
  const scheduler = await bench.scheduler();
  await until('it fired', () => scheduler.events.some(({ type }) => type === 'schedule.fired'));
  const [slot] = await bench.database.query<{ latest: boolean; jobs: number; planned: boolean }>(
    `select last_slot between $1::timestamptz and clock_timestamp() as latest, (select count(*) from pgqueue.queue)::integer as jobs,
            next_slot = last_slot + interval '1 hour' as planned
     from pgqueue.schedule`,
    [before?.hour],
  );
  expect(slot).toEqual({ latest: true, jobs: 1, planned: true });
});

test('of the slots that passed since a schedule was set, its first leader makes up for the latest', async () => {
  const operator = createOperator({ connectionString: bench.test.url });
  const set = (name: string, cron = '0 0 1 1 *'): Promise<unknown> =>
    operator.schedules.set({ name, cron, task: name });
  try {
    for (const name of ['set once', 'set twice', 'changed', 'resumed', 'paused']) await set(name);
    for (const name of ['resumed', 'paused']) await operator.schedules.pause(name);
    await bench.database.query(
      `update pgqueue.schedule set since = clock_timestamp() - interval '2 years'`,
      [],
    );
    await set('set twice');
    await set('changed', '0 0 2 1 *');
    await operator.schedules.resume('resumed');
  } finally {
    await operator.close();
  }
  await bench.scheduler();
  await until(
    'four are planned',
    async () => (await bench.count('schedule', 'next_slot > clock_timestamp()')) === 4,
  );
  const jobs = await bench.database.query(
    `select task, to_char(clock_timestamp() at time zone 'UTC', 'YYYY-01-01"T00:00:00Z"') = attributes ->> 'slot' as is_latest
     from pgqueue.queue order by task`,
    [],
  );
  expect(jobs).toEqual(['set once', 'set twice'].map((task) => ({ task, is_latest: true })));
});

test('a job tells its schedule and its slot, unless it has attributes of these names', async () => {
  const before = `clock_timestamp() - interval '2 hours'`;
  await setSchedule('plain', '0 * * * *', before);
  await setSchedule('own', '0 * * * *', before);
  await bench.database.query(
    `update pgqueue.schedule set options = '{"attributes": {"slot": 7, "size": 1}}' where name = 'own'`,
    [],
  );
  await bench.scheduler();
  await until('both fired', async () => (await bench.count('queue')) === 2);
  const jobs = await bench.database.query<{ attributes: unknown; slot: string }>(
    `select q.attributes, to_char(s.last_slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as slot
     from pgqueue.queue q join pgqueue.schedule s on s.name = q.attributes ->> 'schedule' order by s.name desc`,
    [],
  );
  const [plain] = jobs;
  expect(plain?.slot).toMatch(/^20\d\d-\d\d-\d\dT\d\d:\d\d:00Z$/);
  expect(jobs.map(({ attributes }) => attributes)).toEqual([
    { schedule: 'plain', slot: plain?.slot },
    { schedule: 'own', slot: 7, size: 1 },
  ]);
});

test('a schedule that can not be read is reported, and does not stop the others', async () => {
  await setSchedule('broken', 'every now and then', `clock_timestamp() - interval '1 s'`);
  await setSchedule('fine', '* * * * * *');
  const scheduler = await bench.scheduler();
  await until('the other fires', () =>
    scheduler.events.some((event) => event.type === 'schedule.fired' && event.schedule === 'fine'),
  );
  const failed = scheduler.events.filter(({ type }) => type === 'schedule.failed');
  expect(failed).toEqual([expect.objectContaining({ schedule: 'broken' })]);
});

test('a schedule that a transaction has locked has its slot later, and holds up no other', async () => {
  await setSchedule('locked', '* * * * * *', `clock_timestamp() - interval '1 s'`);
  const fired = await bench.database.transaction(async (client) => {
    await client.query(`select from pgqueue.schedule where name = 'locked' for update`);
    await setSchedule('fine', '* * * * * *');
    const scheduler = await bench.scheduler();
    const names = (): readonly string[] =>
      scheduler.events.flatMap((event) => (event.type === 'schedule.fired' ? [event.schedule] : []));
    await until('the other fires twice', () => names().length >= 2);
    expect(names()).not.toContain('locked');
    return names;
  });
  await until('it fires', () => fired().includes('locked'));
});

const manyDue = (count: number): Promise<unknown> =>
  bench.database.query(
    `insert into pgqueue.schedule (name, cron, timezone, task, next_slot)
     select 'many-' || i, '0 * * * *', 'UTC', 't', date_trunc('hour', clock_timestamp()) from generate_series(1, $1) i`,
    [count],
  );

test('of more schedules than one sweep reads, the longest overdue come first, whatever their names', async () => {
  await manyDue(1_000);
  await setSchedule(
    'the-last-by-name',
    '0 * * * *',
    `date_trunc('hour', clock_timestamp()) - interval '1 hour'`,
  );
  const due = await dueSchedules(bench.database);
  expect([due.length, due[0]?.name]).toEqual([1_000, 'the-last-by-name']);
});

test('a scheduler that stops leaves the rest of its due schedules to the next one', async () => {
  await manyDue(200);
  const types: string[] = [];
  const stopped = Promise.withResolvers<void>();
  const scheduler = createScheduler({
    connectionString: bench.test.url,
    observe: ({ type }) => {
      types.push(type);
      if (type === 'schedule.fired') stopped.resolve(scheduler.stop());
    },
  });
  await scheduler.start();
  await stopped.promise;
  const fired = types.filter((type) => type === 'schedule.fired').length;
  expect(fired).toBeLessThan(200);
  expect(await bench.count('queue')).toBe(fired);
  expect(types).not.toContain('schedule.failed');
});

test('a schedule that fails keeps its slot: it is tried again later, or as soon as it is set; then setting it changes nothing', async () => {
  const newYear = '0 0 1 1 *';
  const bad = async (name: string): Promise<void> => {
    await setSchedule(name, newYear, `date_trunc('year', clock_timestamp(), 'Europe/Berlin')`);
    await bench.database.query(
      `update pgqueue.schedule set options = '{"priority": "high"}' where name = $1`,
      [name],
    );
  };
  await bad('waits');
  await bad('is set');
  const scheduler = await bench.scheduler();
  const count = (type: string): number => scheduler.events.filter((event) => event.type === type).length;
  await until(
    'both have failed',
    async () => (await bench.count('schedule', 'retry_after is not null')) === 2,
  );
  expect(await bench.count('schedule', 'next_slot <= clock_timestamp()')).toBe(2);

  const operator = createOperator({ connectionString: bench.test.url });
  const set = (): Promise<unknown> =>
    operator.schedules.set({ name: 'is set', cron: newYear, timezone: 'Europe/Berlin', task: 't' });
  try {
    await set();
    expect(await bench.count('schedule', `name = 'is set' and retry_after is null`)).toBe(1);
    await until('it fires', () => count('schedule.fired') === 1);
    expect(await bench.count('schedule', `name = 'is set' and last_slot is not null`)).toBe(1);
    await bench.database.query(
      `update pgqueue.schedule set options = '{}', retry_after = clock_timestamp() where name = 'waits'`,
      [],
    );
    await until('the other fires', () => count('schedule.fired') === 2);
    expect(await bench.count('schedule', 'retry_after is null')).toBe(2);

    const [before] = await operator.schedules.list();
    await set();
    expect((await operator.schedules.list())[0]).toMatchObject({ nextSlot: before?.nextSlot });
  } finally {
    await operator.close();
  }
});

test('a slot that its queue does not take is left out and told; the next one comes at its time', async () => {
  await bench.database.query(
    `insert into pgqueue.queue_config (queue, key_pending) values ('default', 1)`,
    [],
  );
  try {
    await bench.enqueue({ count: 1 });
    await setSchedule('each-second', '* * * * * *', `clock_timestamp() - interval '1 s'`);
    const scheduler = await bench.scheduler();
    const slots = (): readonly number[] =>
      scheduler.events.flatMap((event) => (event.type === 'schedule.skipped' ? [event.slotMs] : []));
    const [first, second] = await until('two slots are left out', () =>
      slots().length >= 2 ? slots() : undefined,
    );
    expect((second ?? 0) - (first ?? 0)).toBeGreaterThanOrEqual(1_000);
    expect(await bench.count('queue')).toBe(1);
    expect(await bench.count('schedule', 'last_slot is not null')).toBe(0);
    await bench.database.query('delete from pgqueue.queue', []);
    await until('it fires', async () => (await bench.count('schedule', 'last_slot is not null')) === 1);
    expect(scheduler.events.filter(({ type }) => type === 'schedule.failed')).toEqual([]);
  } finally {
    await bench.database.query('delete from pgqueue.queue_config', []);
  }
});
