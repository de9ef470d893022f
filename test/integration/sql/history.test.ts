import { erase, maintainHistory, trimHistory } from '@pgqueue/postgres/internal';
import fc from 'fast-check';
import { beforeEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { Ground } from './support.ts';
import { maintained, openGround, until } from './support.ts';

const ground = opened(openGround);
beforeEach(async () => {
  await ground.reset();
  await ground.sql('delete from pgqueue.history_trim'); // rows of past days come anew
  await maintained(inPool);
});

const partitions = async (): Promise<readonly string[]> =>
  (
    await ground.sql(
      `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'pgqueue.history'::regclass order by 1`,
    )
  ).map(({ name }) => String(name).replace('pgqueue.', ''));
const day = (offset: number): string => {
  const date = new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
  return `history_${date.replaceAll('-', '')}`;
};
const ended = (queue: string, daysAgo: number): Promise<unknown> =>
  ground.one(
    `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version, attributes, payload)
     values (gen_random_uuid(), $1, 'hello', '', 0, 'done', 0, 0, now(), now() - $2 * interval '1 day', 1, '{}', '{}') returning id`,
    [queue, daysAgo],
  );
const left = async (): Promise<readonly unknown[]> =>
  (await ground.sql('select queue from pgqueue.history order by queue, finished')).map(({ queue }) => queue);
const makePartition = (offset: number): Promise<unknown> =>
  ground.sql(`create table pgqueue.${day(offset)} partition of pgqueue.history for values
    from ('${new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10)} 00:00:00+00')
    to ('${new Date(Date.now() + (offset + 1) * 86_400_000).toISOString().slice(0, 10)} 00:00:00+00')`);

const inPool = () => maintainHistory(ground.database);
/** As {@link maintained}, by a session of its own or with other arguments. */
const maintainedBy = (sql: Ground['sql'], parameters = ''): Promise<unknown> =>
  maintained(async () => {
    const rows = await sql(`select created, dropped, outcome from pgqueue.maintain_history(${parameters})`);
    return rows[0] as unknown as Awaited<ReturnType<typeof inPool>>;
  });

test('today and three days ahead have partitions; a settled job lands in its own', async () => {
  await maintained(inPool); // the server may have been made ready yesterday
  expect(await partitions()).toEqual(expect.arrayContaining(['history_default', ...[0, 1, 2, 3].map(day)]));
  const lease = await ground.running(await ground.node());
  await ground.settle([lease], 'done');
  expect(await ground.one('select tableoid::regclass::text from pgqueue.history')).toBe(`pgqueue.${day(0)}`);
  expect(await erase(ground.database, [lease.id])).toEqual(new Set([lease.id]));
});

test('rows of a day without a partition wait in the default one, and move when it is made', async () => {
  await ground.sql(`drop table pgqueue.${day(0)}`);
  await ended('default', 0);
  expect(await maintained(inPool)).toMatchObject({ created: 1 });
  expect(await ground.one('select tableoid::regclass::text from pgqueue.history')).toBe(`pgqueue.${day(0)}`);
});

test('a settlement under way while partitions are made is waited for, and its row moves as well', async () => {
  const lease = await ground.running(await ground.node());
  await ground.sql(`drop table ${[0, 1, 2, 3].map((ahead) => `pgqueue.${day(ahead)}`).join(', ')}`);
  const [settler, maintainer] = [await ground.session(), await ground.session()];
  await settler.sql('begin');
  await settler.sql(`select pgqueue.ack('${lease.id}', '${lease.token}')`);
  const answer = maintainedBy(maintainer.sql);
  await until('it to wait', () =>
    ground.one(`select pid from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'`, [
      maintainer.pid,
    ]),
  );
  await settler.sql('commit');
  expect(await answer).toEqual({ created: 4, dropped: 0, outcome: 'done' });
  expect(await ground.one('select tableoid::regclass::text from pgqueue.history')).toBe(`pgqueue.${day(0)}`);
  await Promise.all([settler.end(), maintainer.end()]);
});

test('partitions older than the longest retention are dropped, and no row before', async () => {
  for (const offset of [-9, -8, -7]) await makePartition(offset);
  await ended('default', 9);
  await ended('default', 7);
  expect(await maintained(inPool)).toEqual({ created: 0, dropped: 2, outcome: 'done' });
  expect(await left()).toHaveLength(1);
  await ground.sql(`drop table pgqueue.${day(-7)}`);
});

test('each queue keeps its own: shorter ones lose rows, and a longer one holds the partitions', async () => {
  await ground.sql(
    `insert into pgqueue.queue_config (queue, retention) values ('short', '1 day'), ('long', '30 days')`,
  );
  for (const offset of [-20, -9]) await makePartition(offset);
  for (const queue of ['short', 'long', 'default'])
    for (const daysAgo of [0, 2, 9, 20]) await ended(queue, daysAgo);
  expect(await maintained(inPool)).toEqual({ created: 0, dropped: 0, outcome: 'done' });
  expect(await trimHistory(ground.database)).toEqual({ deleted: 5, outcome: 'done' });
  expect(await left()).toEqual(['default', 'default', 'long', 'long', 'long', 'long', 'short']);
  await ground.sql(`drop table pgqueue.${day(-20)}, pgqueue.${day(-9)}`);
});

test('the longest retention is ten years: a longer one would begin before all time', async () => {
  const keep = (retention: string): Promise<unknown> =>
    ground.sql(`insert into pgqueue.queue_config (queue, retention) values ('long', $1)`, [retention]);
  for (const retention of ['3651 days', '10000 years', '-1 day'])
    await expect(keep(retention)).rejects.toMatchObject({ constraint: 'queue_config_retention_check' });
  await keep('3650 days');
  expect(await maintained(inPool)).toMatchObject({ outcome: 'done' });
  expect(await trimHistory(ground.database)).toMatchObject({ outcome: 'done' });
});

test('each row is looked at once, until a retention changes', async () => {
  const trim = () => trimHistory(ground.database);
  const keep = (queue: string, retention: string): Promise<unknown> =>
    ground.sql(
      `insert into pgqueue.queue_config (queue, retention) values ($1, $2)
       on conflict (queue) do update set retention = excluded.retention`,
      [queue, retention],
    );
  await keep('short', '2 days');
  await keep('long', '30 days');
  for (const queue of ['short', 'long', 'default'])
    for (const daysAgo of [1, 3, 5]) await ended(queue, daysAgo);
  expect(await trim()).toEqual({ deleted: 2, outcome: 'done' });
  const kept = async (): Promise<unknown> => ground.one('select kept_at::text from pgqueue.history_trim');
  const first = await kept();
  expect(await trim()).toEqual({ deleted: 0, outcome: 'done' });
  expect(await kept()).not.toBe(first);
  await keep('short', '12 hours');
  await keep('default', '4 days');
  expect(await trim()).toEqual({ deleted: 2, outcome: 'done' });
  expect(await left()).toEqual(['default', 'default', 'long', 'long', 'long']);
});

test('what is left is what each queue keeps, whatever retentions and rows there are', async () => {
  const queues = ['a', 'b', 'c'];
  const hours = fc.integer({ min: 1, max: 20 * 24 });
  const property = fc.asyncProperty(
    fc.array(fc.record({ queue: fc.constantFrom(...queues, 'default'), hours }), { maxLength: 30 }),
    fc.array(fc.record({ queue: fc.constantFrom(...queues), hours }), { minLength: 1, maxLength: 4 }),
    async (rows, retentions) => {
      for (const table of ['history', 'queue_config', 'history_trim'])
        await ground.sql(`delete from pgqueue.${table}`);
      for (const row of rows) await ended(row.queue, (row.hours + 0.5) / 24);
      const kept = new Map<string, number>();
      let model = rows;
      for (const { queue, hours: keeps } of retentions) {
        kept.set(queue, keeps);
        model = model.filter((row) => row.hours < (kept.get(row.queue) ?? 7 * 24));
        await ground.sql(
          `insert into pgqueue.queue_config (queue, retention) values ($1, $2 * interval '1 hour')
           on conflict (queue) do update set retention = excluded.retention`,
          [queue, keeps],
        );
        expect(await trimHistory(ground.database)).toMatchObject({ outcome: 'done' });
      }
      const stand = await ground.sql(
        `select queue || ' ' || round(extract(epoch from now() - finished) / 3600 - 0.5) as row from pgqueue.history order by 1`,
      );
      expect(stand.map(({ row }) => row)).toEqual(model.map((row) => `${row.queue} ${row.hours}`).toSorted());
    },
  );
  await fc.assert(property, { numRuns: 15 });
});

test('with no time left it says that there is more, and the next call goes on behind it', async () => {
  await ground.sql(
    `insert into pgqueue.queue_config (queue, retention) values ('short', '1 day'), ('long', '30 days')`,
  );
  // a hundred rows of the long one, an hour apart, before and between those of the short one
  for (let n = 0; n < 100; n += 1) await ended(n % 50 === 49 ? 'short' : 'long', 20 - n / 24);
  const outcomes: unknown[] = [];
  let deleted = 0;
  for (let calls = 0; calls < 1_000 && outcomes.at(-1) !== 'done'; calls += 1) {
    const [row] = await ground.sql('select deleted::integer, outcome from pgqueue.trim_history(1)');
    deleted += Number(row?.['deleted']);
    outcomes.push(row?.['outcome']);
  }
  expect(deleted).toBe(2);
  expect(outcomes.at(-1)).toBe('done');
  expect(outcomes[0]).toBe('more');
});

test('a row that is locked is left for the next call', async () => {
  await ground.sql(
    `insert into pgqueue.queue_config (queue, retention) values ('short', '1 day'), ('long', '30 days')`,
  );
  await ended('short', 2);
  const session = await ground.session();
  await session.sql('begin');
  await session.sql('select from pgqueue.history for update');
  expect(await trimHistory(ground.database)).toEqual({ deleted: 0, outcome: 'more' });
  await session.sql('commit');
  await session.end();
  expect(await trimHistory(ground.database)).toEqual({ deleted: 1, outcome: 'done' });
});

test('rows of past days in the default partition go when they are older than any queue keeps', async () => {
  await ended('default', 3);
  await ended('default', 9);
  await maintained(inPool);
  expect(await trimHistory(ground.database)).toEqual({ deleted: 1, outcome: 'done' });
  expect(await left()).toHaveLength(1);
});

test('a default partition that is large is not read whole beside settlements', async () => {
  await ground.sql(`drop table pgqueue.${day(0)}`);
  await ended('default', 0);
  const of = (bytes: number): Promise<unknown> => maintainedBy(ground.sql, `p_default_bytes => ${bytes}`);
  expect(await of(0)).toMatchObject({ created: 0, outcome: 'large' });
  expect(await of(1_000_000)).toMatchObject({ created: 1, outcome: 'done' });
});

test('a publication of all tables takes every deletion', async () => {
  await ground.sql('create publication everything for all tables');
  try {
    await ground.sql(
      `insert into pgqueue.queue_config (queue, retention) values ('short', '1 day'), ('long', '30 days')`,
    );
    await ground.sql(`drop table pgqueue.${day(0)}`);
    await ended('short', 0);
    await ended('short', 2);
    await ended('default', 40);
    expect(await maintained(inPool)).toMatchObject({ created: 1, outcome: 'done' });
    expect(await trimHistory(ground.database)).toEqual({ deleted: 2, outcome: 'done' });
    const [{ id }] = (await ground.sql('select id from pgqueue.history')) as [{ id: string }];
    expect(await erase(ground.database, [id])).toEqual(new Set([id]));
  } finally {
    await ground.sql('drop publication everything');
  }
});

test('a partition of today that was detached by hand is attached again, with its rows and those that came meanwhile', async () => {
  await ended('default', 0);
  await ground.sql(`alter table pgqueue.history detach partition pgqueue.${day(0)}`);
  await ended('default', 0);
  expect(await maintained(inPool)).toMatchObject({ created: 1, outcome: 'done' });
  expect(await ground.sql('select distinct tableoid::regclass::text as name from pgqueue.history')).toEqual([
    { name: `pgqueue.${day(0)}` },
  ]);
  expect(await left()).toEqual(['default', 'default']);
});

test('history and its partitions have a replica identity, however they are published', async () => {
  const without = await ground.sql(
    `select c.relname from pg_class c
     where (c.oid = 'pgqueue.history'::regclass or c.oid in (select inhrelid from pg_inherits where inhparent = 'pgqueue.history'::regclass))
       and c.relreplident <> 'f'`,
  );
  expect(without).toEqual([]);
});

test('a statement_timeout of the role bounds what is deleted, and nothing else', async () => {
  await ground.sql(
    `insert into pgqueue.queue_config (queue, retention) values ('short', '1 day'), ('long', '30 days')`,
  );
  await ground.sql(`drop table pgqueue.${day(3)}`);
  await ground.sql(
    `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version, attributes, payload)
     select gen_random_uuid(), 'short', 'hello', '', 0, 'done', 0, 0, now(), now() - interval '20 days' + n * interval '1 second', 1, '{}', '{}'
     from generate_series(1, 100000) n`,
  );
  const session = await ground.session();
  await session.sql(`set statement_timeout = '2s'`);
  expect(await maintainedBy(session.sql)).toMatchObject({ created: 1, outcome: 'done' });
  let outcome: unknown = 'more';
  for (let calls = 0; calls < 1_000 && outcome === 'more'; calls += 1)
    outcome = (await session.sql('select outcome from pgqueue.trim_history(3600000)'))[0]?.['outcome'];
  await session.end();
  expect(outcome).toBe('done');
  expect(await left()).toEqual([]);
});

test('retention 0 keeps nothing of jobs that end, however they end', async () => {
  await ground.sql(`insert into pgqueue.queue_config (queue, retention) values ('none', '0')`);
  const node = await ground.node();
  await ground.settle([await ground.running(node, { queue: 'none' })], 'done');
  await ground.settle([await ground.running(node, { queue: 'none' })], 'cancelled');
  const waiting = await ground.insert({ queue: 'none' });
  await ground.sql('select * from pgqueue.cancel(array[$1::uuid])', [waiting]);
  await ground
    .running(node, { queue: 'none' })
    .then(({ id }) => ground.sql('select * from pgqueue.cancel(array[$1::uuid])', [id]));
  await ground.sql(`select * from pgqueue.reset_node('node')`);
  await ground.insert({ queue: 'none', expires_at: new Date(0) });
  expect(await ground.one(`select pgqueue.expire('leader', $1, 10)`, [ground.leader().epoch])).toBe(1);
  expect(await left()).toEqual([]);
  expect(await ground.one('select count(*)::integer from pgqueue.queue')).toBe(0);
});

test.each([
  ['with history a settlement that is repeated is known', '7 days', ['repeated']],
  ['with retention 0 there is no trace of it', '0', []],
])('%s', async (_name, retention, known) => {
  await ground.sql(`insert into pgqueue.queue_config (queue, retention) values ('kept', $1)`, [retention]);
  const lease = await ground.running(await ground.node(), { queue: 'kept' });
  expect([...(await ground.settle([lease], 'done')).values()]).toEqual(['done']);
  const again = await ground.settle([lease], 'done', { repeat: true });
  expect([...again.values()]).toEqual(known);
});

test('the bounds are days in UTC, whatever the session takes for a date', async () => {
  await ground.sql(`drop table pgqueue.${day(2)}`);
  const session = await ground.session();
  await session.sql(`set timezone = 'Asia/Kolkata'`);
  await session.sql(`set datestyle = 'SQL, DMY'`);
  expect(await maintainedBy(session.sql)).toMatchObject({ created: 1 });
  await session.end();
  const date = new Date(Date.now() + 2 * 86_400_000).toISOString().slice(0, 10);
  const bound = await ground.one(`select pg_get_expr(relpartbound, oid) from pg_class where relname = $1`, [
    day(2),
  ]);
  const [from] = String(bound).match(/'[^']+'/) ?? [];
  expect(await ground.one(`select ${from}::timestamptz = $1::timestamptz`, [`${date} 00:00:00+00`])).toBe(
    true,
  );
});

test('two at once: one works, and the other does not wait', async () => {
  await ground.sql(`drop table pgqueue.${day(3)}`);
  const session = await ground.session();
  await session.sql('begin');
  await session.sql('select pgqueue.maintain_history()');
  expect(await maintainHistory(ground.database)).toEqual({ created: 0, dropped: 0, outcome: 'locked' });
  expect(await trimHistory(ground.database)).toEqual({ deleted: 0, outcome: 'locked' });
  await session.sql('commit');
  await session.end();
  expect(await partitions()).toContain(day(3));
});

test('a long reader of history stops neither the settlements nor what can be done beside it', async () => {
  await makePartition(-9);
  await ground.sql(`drop table pgqueue.${day(3)}`);
  const reader = await ground.session();
  await reader.sql('begin');
  await reader.sql('select count(*) from pgqueue.history');
  await ground.sql(`insert into pgqueue.queue_config (queue, retention) values ('short', '1 day')`);
  await ended('short', 2);
  expect(await maintainHistory(ground.database)).toEqual({ created: 0, dropped: 0, outcome: 'waits' });
  expect(await trimHistory(ground.database)).toEqual({ deleted: 1, outcome: 'done' });
  const lease = await ground.running(await ground.node());
  expect((await ground.settle([lease], 'done')).size).toBe(1);
  await reader.sql('commit');
  await reader.end();
  expect(await maintained(inPool)).toEqual({ created: 1, dropped: 1, outcome: 'done' });
});

test('queue_status counts each state once, and rates what ended', async () => {
  const node = await ground.node();
  await ground.settle([await ground.running(node)], 'done');
  await ground.settle([await ground.running(node)], 'dead');
  await ground.insert({ run_after: new Date(Date.now() + 60_000) });
  await ground.insert();
  await ground.running(node);
  await ground.dispatch([await ground.insert()]);
  const [status] = await ground.sql('select * from pgqueue.queue_status');
  expect(status).toMatchObject({
    queue: 'default',
    paused: false,
    delayed: '1',
    pending: '1',
    ready: '1',
    running: '1',
    dead: '1',
    done_5m: '1',
    dead_5m: '1',
    retry_rate: 0.5,
  });
  expect(Number(status?.['oldest_s'])).toBeGreaterThan(0);
  expect(await ground.one('select pgqueue.queue_length()')).toBe('4');
  expect(await ground.sql('select task from pgqueue.peek()')).toHaveLength(3);
});
