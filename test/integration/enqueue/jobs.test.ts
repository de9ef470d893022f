import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { defineTask } from '@pgqueue/core';
import type { Executor } from '@pgqueue/postgres';
import { migrate } from '@pgqueue/postgres';
import { fromPg } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';
import { lacks } from '../../support/tools.ts';

const count = defineTask({
  name: 'count',
  payload: z.object({ n: z.number() }),
  key: ({ n }) => `k${n % 3}`,
});
const texts = defineTask({ name: 'texts', payload: z.object({ text: z.string() }) });
const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

const own = useDatabase();
const { database, reset, sql } = own;

const producer = opened(() => createProducer({ pool: database.pool }));
beforeEach(reset);

const waiting = async (): Promise<number> =>
  (await sql('select count(*)::integer as n from pgqueue.queue'))[0].n;

describe('one job', () => {
  test('takes every default of the table where nothing is said', async () => {
    const { id, outcome } = await producer.enqueueByName('hello');
    expect(outcome).toBe('enqueued');
    await sql(`insert into pgqueue.queue (task, payload) values ('hello', '{}')`);
    const rows = await sql(
      'select to_jsonb(q) - array[$1, $2, $3] as row from pgqueue.queue q order by seq',
      ['id', 'seq', 'created'],
    );
    expect(rows[0].row).toEqual(rows[1].row);
    expect(rows[0].row).toMatchObject({ queue: 'default', key: '', payload: {}, run_after: null });
    expect(await sql('select id from pgqueue.queue order by seq limit 1')).toEqual([{ id }]);
  });

  const options = {
    id: '0b0e4f2a-8f62-7cc3-9d3c-3c1f0a4a7d11',
    queue: 'mail',
    key: 'tenant-7',
    priority: -2_147_483_647,
    attributes: { region: 'eu', vip: true, n: 1.5, none: null },
    runAfter: new Date(Date.now() + 3_600_000),
    expiresAt: new Date(Date.now() + 7_200_000),
    timeout: '90s',
    retry: { maxTries: 7, maxCrashes: 2, backoff: 'linear', base: '5s', max: '1m', jitter: 0, factor: 3 },
    trace: { traceparent, tracestate: 'vendor=1' },
    payloadVersion: 4,
  } as const;

  test.each([
    ['inserted', {}],
    ['with an unique key', { uniqueKey: 'u 1' }],
  ])('every option lands in its column: %s', async (_name, unique) => {
    const { id } = await producer.enqueueByName('hello', { a: [1, 'ü'] }, { ...options, ...unique });
    const [row] = await sql(
      'select *, extract(epoch from timeout)::float8 as timeout_s from pgqueue.queue where id = $1',
      [id],
    );
    expect(row).toMatchObject({
      id: options.id,
      queue: 'mail',
      task: 'hello',
      key: 'tenant-7',
      priority: -2_147_483_647,
      attributes: options.attributes,
      run_after: options.runAfter,
      expires_at: options.expiresAt,
      timeout_s: 90,
      max_tries: 7,
      max_crashes: 2,
      retry: { kind: 'linear', baseMs: 5_000, maxMs: 60_000, jitter: 0, factor: 3 },
      trace: options.trace,
      payload: { a: [1, 'ü'] },
      payload_version: 4,
      unique_key: 'uniqueKey' in unique ? 'u 1' : null,
    });
  });

  test.each([
    ['inserted', {}],
    ['with a unique key', { uniqueKey: 'u' }],
  ])('a time in the past or no delay is no time: pending at once (%s)', async (_name, unique) => {
    await producer.enqueueByName('past', {}, { runAfter: new Date(0), ...unique });
    await producer.enqueueByName('now', {}, { delay: 0, ...unique });
    await producer.enqueueByName('later', {}, { delay: '0.5h', ...unique });
    expect(
      await sql(
        `select task, round(extract(epoch from run_after - created) / 60)::integer as minutes from pgqueue.queue order by seq`,
      ),
    ).toEqual([
      { task: 'past', minutes: null },
      { task: 'now', minutes: null },
      { task: 'later', minutes: 30 },
    ]);
  });

  test('an id is enqueued once, even after its job has ended', async () => {
    const id = '0b0e4f2a-8f62-7cc3-9d3c-3c1f0a4a7d12';
    const outcome = async (uniqueKey?: string): Promise<string> =>
      (await producer.enqueue(count, { n: 1 }, { id, ...(uniqueKey === undefined ? {} : { uniqueKey }) }))
        .outcome;
    expect(await outcome()).toBe('enqueued');
    expect(await outcome()).toBe('repeated');
    expect(await outcome('u')).toBe('repeated');
    await sql('select pgqueue.cancel(array[$1::uuid])', [id]);
    expect(await waiting()).toBe(0);
    expect(await outcome()).toBe('repeated');
    expect(await outcome('u')).toBe('repeated');
    const many = [count.job({ n: 2 }), count.job({ n: 1 }, { id })];
    expect((await producer.enqueueMany(many)).map((answer) => answer.outcome)).toEqual([
      'enqueued',
      'repeated',
    ]);
  });

  test.each(['repeatable read', 'serializable'])(
    'with an id of its own it is refused in a transaction that is %s, whose snapshot may hide its end',
    async (level) => {
      const id = '0b0e4f2a-8f62-7cc3-9d3c-3c1f0a4a7d13';
      const client = await database.pool.connect();
      try {
        await client.query(`begin isolation level ${level}`);
        await client.query('select count(*) from pgqueue.queue');
        await producer.enqueue(count, { n: 1 }, { id });
        await sql('select pgqueue.cancel(array[$1::uuid])', [id]);
        await producer.with(client).enqueue(count, { n: 2 });
        await expect(producer.with(client).enqueue(count, { n: 1 }, { id })).rejects.toMatchObject({
          code: 'configuration',
          message: `an enqueue with an id of its own needs a transaction that is read committed, and this one is ${level}: begin it with "begin isolation level read committed", or enqueue outside of it`,
        });
      } finally {
        await client.query('rollback');
        client.release();
      }
      expect(await waiting()).toBe(0);
    },
  );

  test('a payload that grows beyond the limit in PostgreSQL is the caller’s error', async () => {
    const payload = Array.from({ length: 2_000 }, () => 1e300);
    await expect(producer.enqueueByName('numbers', payload)).rejects.toMatchObject({ code: 'invalid_job' });
    expect(await waiting()).toBe(0);
  });
});

describe('many jobs', () => {
  /** Runs statements, and counts them. */
  function counting(): { readonly executor: Executor; readonly texts: string[] } {
    const texts: string[] = [];
    const real = fromPg(database.pool);
    return {
      texts,
      executor: {
        query: (text, values) => {
          texts.push(text);
          return real.query(text, values);
        },
      },
    };
  }

  test('5,000 in one statement, in order', async () => {
    await producer.enqueueByName('verified');
    const { executor, texts } = counting();
    const jobs = Array.from({ length: 5_000 }, (_, n) => count.job({ n }));
    const enqueued = await producer.with(executor).enqueueMany(jobs);
    expect(texts).toHaveLength(1);
    const rows = await sql(`select id, key, payload from pgqueue.queue where task = 'count' order by seq`);
    expect(rows).toHaveLength(5_000);
    expect(rows.every(({ payload, key }, n) => payload.n === n && key === `k${n % 3}`)).toBe(true);
    expect(enqueued.map(({ id }) => id)).toEqual(rows.map(({ id }) => id));
  });

  test.each([
    ['no line ends', ['', 'a,b', '{"c"}', String.raw`d\n\"`, "e'"]],
    ['line ends', ['', 'a\nb', '\n', String.raw`c\n`, '"d"']],
    ['the same', ['a\nb', 'a\nb']],
  ])('whatever their keys and payloads are: %s', async (_name, given) => {
    const jobs = given.map((text) => texts.job({ text }, { key: text, attributes: { text } }));
    await producer.enqueueMany(jobs);
    const rows = await sql('select key, payload, attributes from pgqueue.queue order by seq');
    expect(rows.map(({ key }) => key)).toEqual(given);
    expect(rows.map(({ payload }) => payload.text)).toEqual(given);
    expect(rows.map(({ attributes }) => attributes.text)).toEqual(given);
  });

  test('both kinds in one statement, answers in input order; one that fails takes all with it', async () => {
    await producer.enqueueByName('verified');
    const { executor, texts } = counting();
    const jobs = [
      count.job({ n: 0 }, { uniqueKey: 'a' }),
      count.job({ n: 1 }),
      count.job({ n: 2 }, { uniqueKey: { key: 'a', onConflict: 'replace' } }),
      count.job({ n: 3 }),
      count.job({ n: 4 }, { uniqueKey: 'b' }),
    ];
    const enqueued = await producer.with(executor).enqueueMany(jobs);
    expect(texts).toHaveLength(1);
    expect(enqueued.map(({ outcome }) => outcome)).toEqual([
      'enqueued',
      'enqueued',
      'replaced',
      'enqueued',
      'enqueued',
    ]);
    const rows = await sql(
      `select id, (payload ->> 'n')::integer as n from pgqueue.queue where task = 'count'`,
    );
    const of = new Map(rows.map(({ n, id }) => [n, id]));
    expect(enqueued.map(({ id }) => id)).toEqual([2, 1, 2, 3, 4].map((n) => of.get(n)));

    await reset();
    const numbers = Array.from({ length: 2_000 }, () => 1e300);
    const tooBig = {
      ...count.job({ n: 5 }, { uniqueKey: 'c' }),
      payload: numbers,
      check: () => Promise.resolve([]),
    };
    await expect(producer.enqueueMany([...jobs, tooBig])).rejects.toMatchObject({ code: 'invalid_job' });
    expect(await waiting()).toBe(0);
  });

  test('none is no statement', async () => {
    const { executor, texts } = counting();
    expect(await producer.with(executor).enqueueMany([])).toEqual([]);
    expect(texts).toEqual([]);
  });
});

test('the rights of a producer are enough for all of it, and for nothing else', async () => {
  const role = `login_${own.test.name}`;
  await migrate({ connectionString: own.url, roles: true });
  await sql(`create role ${role} login password 'x' in role pgqueue_producer`);
  const url = new URL(own.url);
  url.username = role;
  url.password = 'x';
  const limited = createProducer({ connectionString: url.href });
  try {
    await limited.enqueue(count, { n: 1 });
    const id = '0b0e4f2a-8f62-7cc3-9d3c-3c1f0a4a7d13';
    const jobs = [
      count.job({ n: 2 }, { id, delay: '1s', expiresAt: new Date('2100-01-01'), timeout: '1s', priority: 1 }),
      count.job(
        { n: 3 },
        { attributes: { a: 1 }, retry: { maxTries: 1, maxCrashes: 1 }, trace: { traceparent } },
      ),
      count.job({ n: 4 }, { uniqueKey: 'u', queue: 'q', key: 'k' }),
    ];
    expect((await limited.enqueueMany(jobs)).map(({ outcome }) => outcome)).toEqual(
      Array.from({ length: 3 }, () => 'enqueued'),
    );
    expect((await limited.enqueueMany(jobs)).map(({ outcome }) => outcome)).toEqual([
      'repeated',
      'enqueued',
      'kept',
    ]);
  } finally {
    await limited.close();
    await sql(`drop role ${role}`);
  }
});

test.skipIf(lacks('psql'))('psql needs only a task and a payload', async () => {
  const statement = `insert into pgqueue.queue(task,payload) values('hello','{}')`;
  const { stdout } = await promisify(execFile)('psql', [own.url, '-X', '-c', statement]);
  expect(stdout.trim()).toBe('INSERT 0 1');
  const [row] = await sql('select status, id, priority from pgqueue.job');
  expect(row).toMatchObject({ status: 'pending', priority: 0 });
  expect(row.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
});
