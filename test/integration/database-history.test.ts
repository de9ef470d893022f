import { erase, maintainHistory } from '@pgqueue/postgres';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Ground } from './database-support.ts';
import { openGround } from './database-support.ts';

let ground: Ground;
beforeAll(async () => {
  ground = await openGround();
});
afterAll(() => ground.close());
beforeEach(async () => {
  await ground.reset();
  await maintainHistory(ground.database);
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

test('today and three days ahead have partitions; a settled job lands in its own', async () => {
  await maintainHistory(ground.database); // the server may have been made ready yesterday
  expect(await partitions()).toEqual(expect.arrayContaining(['history_default', ...[0, 1, 2, 3].map(day)]));
  const lease = await ground.running(await ground.node());
  await ground.settle([lease], 'done');
  expect(await ground.one('select tableoid::regclass::text from pgqueue.history')).toBe(`pgqueue.${day(0)}`);
  expect(await erase(ground.database, [lease.id])).toEqual(new Set([lease.id]));
});

test('rows of a day without a partition wait in the default one, and move when it is made', async () => {
  await ground.sql(`drop table pgqueue.${day(0)}`);
  await ended('default', 0);
  expect(await maintainHistory(ground.database)).toMatchObject({ created: 1 });
  expect(await ground.one('select tableoid::regclass::text from pgqueue.history')).toBe(`pgqueue.${day(0)}`);
});

test('partitions older than the longest retention are dropped, and no row before', async () => {
  for (const offset of [-9, -8, -7]) await makePartition(offset);
  await ended('default', 9);
  await ended('default', 7);
  expect(await maintainHistory(ground.database)).toEqual({ created: 0, dropped: 2, deleted: 0 });
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
  expect(await maintainHistory(ground.database)).toEqual({ created: 0, dropped: 0, deleted: 5 });
  expect(await left()).toEqual(['default', 'default', 'long', 'long', 'long', 'long', 'short']);
  await ground.sql(`drop table pgqueue.${day(-20)}, pgqueue.${day(-9)}`);
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
  expect(await session.sql('select created from pgqueue.maintain_history()')).toEqual([{ created: 1 }]);
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
  expect(await maintainHistory(ground.database)).toEqual({ created: 0, dropped: 0, deleted: 0 });
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
  expect(await maintainHistory(ground.database)).toEqual({ created: 0, dropped: 0, deleted: 1 });
  const lease = await ground.running(await ground.node());
  expect((await ground.settle([lease], 'done')).size).toBe(1);
  await reader.sql('commit');
  await reader.end();
  expect(await maintainHistory(ground.database)).toEqual({ created: 1, dropped: 1, deleted: 0 });
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
