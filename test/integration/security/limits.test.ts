// Limits that hold whoever writes: sizes in plain SQL, and how many jobs of one key may wait.
import { createProducer } from '@pgqueue/producer';
import { beforeEach, describe, expect, test } from 'vitest';
import { parseCli } from '../../support/cli.ts';
import { opened, useDatabase } from '../../support/database.ts';

const own = useDatabase();
const { database, operator, sql, insert, run, reset } = own;
const producer = opened(() => createProducer({ connectionString: own.url }));

beforeEach(async () => {
  await reset();
  await sql('drop trigger if exists queue_key_pending on pgqueue.queue');
});

describe('sizes, in plain SQL', () => {
  const json = (bytes: number): string => JSON.stringify({ a: 'x'.repeat(bytes) });

  test.each([
    ['queue', 'payload', 393_216],
    ['queue', 'attributes', 16_384],
    ['queue', 'trace', 4_096],
    ['schedule', 'payload', 393_216],
    ['schedule', 'options', 65_536],
  ])('%s.%s', async (table, column, bytes) => {
    const needed: Readonly<Record<string, readonly [string, string]>> = {
      queue: ['task', `'t'`],
      schedule: ['name, cron, task', `gen_random_uuid()::text, '* * * * *', 't'`],
    };
    const [names, values] = needed[table] ?? ['', ''];
    const text = `insert into pgqueue.${table} (${names}, ${column}) values (${values}, $1::text::jsonb)`;
    await sql(text, [json(bytes - 100)]);
    await expect(sql(text, [json(bytes)])).rejects.toMatchObject({ code: '23514' });
  });

  test('the most attributes that the packages take fit', async () => {
    const attributes: Record<string, number> = {};
    for (let n = 0; JSON.stringify(attributes).length < 4_085; n += 1) attributes[n.toString(36)] = n % 10;
    expect((await producer.enqueueByName('t', {}, { attributes })).outcome).toBe('enqueued');
  });

  test('what a node says of itself, and of a failure', async () => {
    const register = 'select * from pgqueue.register_node($1, $2::text::jsonb, p_software => $3)';
    await sql(register, ['a', '{}', 'x'.repeat(1_000)]);
    await expect(sql(register, ['b', '{}', 'x'.repeat(1_001)])).rejects.toMatchObject({ code: '23514' });
    await expect(sql(register, ['b', json(262_144), ''])).rejects.toMatchObject({ code: '23514' });
    const tasks = (count: number): string =>
      JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, n) => [n, { min: 1, max: 1 }])));
    await sql(register, ['b', tasks(1_000), '']);
    await expect(sql(register, ['b', tasks(1_001), ''])).rejects.toThrow(/at most 1,000 tasks: give each/);
    const id = await insert({ task: 'hello' });
    const token = await run('c', [id]);
    await sql('select pgqueue.nack($1, $2, $3)', [id, token, 'x'.repeat(1_000_000)]);
    const [{ length }] = await sql(
      `select length(errors -> 0 ->> 'message') from pgqueue.queue where id = $1`,
      [id],
    );
    expect(length).toBe(2_000);
    const other = await insert({ task: 'hello' });
    const held = await run('d', [other]);
    await sql('select pgqueue.give_up($1, $2, $3)', [other, held, 'x'.repeat(1_000_000)]);
    const [dead] = await sql(
      `select reason, length(errors -> 0 ->> 'message') as length from pgqueue.dead_letter`,
    );
    expect(dead).toEqual({ reason: 'gave_up', length: 2_000 });
  });

  test('partitions are made for a month ahead at most', async () => {
    await sql('select pgqueue.maintain_history(2147483647)');
    const [{ count }] = await sql(
      `select count(*)::integer from pg_inherits where inhparent = 'pgqueue.history'::regclass`,
    );
    expect(count).toBeLessThanOrEqual(34);
  });
});

describe('pending jobs of one key', () => {
  const triggers = async (): Promise<number> =>
    (await sql(`select count(*)::integer from pg_trigger where tgname = 'queue_key_pending'`))[0].count;
  const enqueue = (key: string, options: object = {}): Promise<string> =>
    producer.enqueueByName('t', {}, { key, ...options }).then(({ outcome }) => outcome);
  const refused = {
    code: 'too_many_pending',
    message: expect.stringMatching(
      /queue "default" takes 3 jobs.*"a": enqueue later, .*queues set QUEUE --key-pending N/,
    ),
  };

  test('cost nothing where no queue limits them', async () => {
    expect(await triggers()).toBe(0);
    await operator.queues.set('default', { keyPending: 3 });
    expect(await triggers()).toBe(1);
    await operator.queues.set('other', { keyPending: 1 });
    await operator.queues.set('default', { keyPending: null });
    expect(await triggers()).toBe(1);
    await sql(`delete from pgqueue.queue_config where queue = 'other'`);
    expect(await triggers()).toBe(0);
  });

  test('beyond the limit an enqueue is refused, with all of its batch; other keys and queues go on', async () => {
    await operator.queues.set('default', { keyPending: 3 });
    for (let n = 0; n < 3; n += 1) expect(await enqueue('a')).toBe('enqueued');
    await expect(enqueue('a')).rejects.toMatchObject(refused);
    await expect(enqueue('a', { uniqueKey: 'u' })).rejects.toMatchObject(refused);
    await expect(sql(`insert into pgqueue.queue (task, key) values ('t', 'a')`)).rejects.toMatchObject({
      code: 'PQ003',
    });
    expect(await enqueue('b')).toBe('enqueued');
    expect(await enqueue('a', { queue: 'other' })).toBe('enqueued');
    const jobs = ['c', 'a', 'c'].map((key) => ({
      task: 't',
      payload: {},
      payloadVersion: 1,
      options: { key },
      check: () => Promise.resolve([]),
    }));
    await expect(producer.enqueueMany(jobs)).rejects.toMatchObject(refused);
    expect(await sql(`select from pgqueue.queue where key = 'c'`)).toEqual([]);
    const [listed] = await operator.queues.list();
    expect(listed).toMatchObject({ queue: 'default', keyPending: 3 });
  });

  test('running jobs count, delayed ones do not; when one ends there is room', async () => {
    await operator.queues.set('default', { keyPending: 3 });
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) ids.push(await insert({ task: 'hello', key: 'a' }));
    const token = await run('node', ids);
    await expect(enqueue('a')).rejects.toMatchObject(refused);
    expect(await enqueue('a', { delay: '1h' })).toBe('enqueued');
    await sql('select pgqueue.ack($1, $2)', [ids[0], token]);
    expect(await enqueue('a')).toBe('enqueued');
    await expect(enqueue('a')).rejects.toMatchObject(refused);
  });

  test('an enqueue that is repeated, or keeps what is there, is none more', async () => {
    await operator.queues.set('default', { keyPending: 1 });
    const id = '00000000-0000-7000-8000-000000000009';
    expect(await enqueue('a', { id, uniqueKey: 'u' })).toBe('enqueued');
    expect(await enqueue('a', { id, uniqueKey: 'u' })).toBe('repeated');
    expect(await enqueue('a', { uniqueKey: 'u' })).toBe('kept');
    expect(await enqueue('a', { uniqueKey: { key: 'u', onConflict: 'replace' } })).toBe('replaced');
  });

  test('a setting that would wait for a long transaction is refused, and can be tried again', async () => {
    const client = await database.pool.connect();
    await client.query('begin');
    await client.query(`insert into pgqueue.queue (task) values ('t')`);
    await expect(operator.queues.set('default', { keyPending: 3 })).rejects.toMatchObject({ code: '55P03' });
    await client.query('commit');
    client.release();
    await operator.queues.set('default', { keyPending: 3 });
    expect(await triggers()).toBe(1);
  });

  test('on the command line, and what it refuses', async () => {
    const set = (...args: readonly string[]): ReturnType<typeof parseCli> =>
      parseCli(['queues', 'set', 'default', ...args, '--database-url', own.url]);
    expect((await set('--key-pending', '2')).code).toBe(0);
    expect((await operator.queues.list())[0]?.keyPending).toBe(2);
    expect((await set('--no-key-pending')).code).toBe(0);
    expect(await triggers()).toBe(0);
    expect((await set('--key-pending', '0')).code).toBe(2);
    expect((await set('--key-pending', '100001')).code).toBe(78);
    await expect(operator.queues.set('default', { keyPending: 100_001 })).rejects.toMatchObject({
      code: 'configuration',
    });
  });
});

test('a user without any right holds up a replacement by a lock that everyone may take, and no other enqueue', async () => {
  const stranger = await database.pool.connect();
  try {
    await stranger.query('begin');
    await stranger.query('set local role pg_signal_backend');
    await stranger.query(
      `select pg_advisory_xact_lock(hashtextextended('pgqueue:unique', n)) from generate_series(0, 1023) n`,
    );
    await producer.enqueueByName('t', {});
    const replacing = producer.enqueueByName('t', {}, { uniqueKey: { key: 'a', onConflict: 'replace' } });
    await expect
      .poll(() =>
        sql(
          `select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`,
        ),
      )
      .toHaveLength(1);
    await stranger.query('rollback');
    expect((await replacing).outcome).toBe('enqueued');
  } finally {
    stranger.release(true);
  }
});
