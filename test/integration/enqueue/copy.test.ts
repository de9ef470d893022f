import { defineTask } from '@pgqueue/core';
import type { JobOptions } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import pg from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';

/** With so many, a batch goes by COPY. */
const many = 500;
const hello = defineTask({
  name: 'hello',
  payload: z.object({ n: z.number(), text: z.string().default('') }),
});

const own = useDatabase();
const { database, reset, sql } = own;

const producer = opened(() => createProducer({ connectionString: own.url }), { each: true });
beforeEach(reset);

const jobs = (count: number, options: JobOptions = {}, text = '') =>
  Array.from({ length: count }, (_, n) => hello.job({ n, text }, options));
const waiting = async (): Promise<number> =>
  (await sql('select count(*)::integer as n from pgqueue.queue'))[0].n;

/** A pool that notes what goes by COPY; `fail`: those whose answers get lost, by their numbers. */
function copyingPool(fail: readonly number[] = []): {
  readonly pool: pg.Pool;
  readonly copies: () => number;
} {
  const pool = new pg.Pool({ connectionString: own.url, max: 3 });
  let copies = 0;
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: readonly unknown[]) => unknown;
    Reflect.set(client, 'query', (...args: readonly unknown[]) => {
      const [stream] = args;
      if (!isCopy(stream)) return query(...args);
      copies += 1;
      if (fail.includes(copies)) {
        // it is committed by then
        stream.handleReadyForQuery = () => stream.destroy(new Error('Connection terminated unexpectedly'));
      }
      return query(...args);
    });
  });
  return { pool, copies: () => copies };
}

interface Copy {
  handleReadyForQuery: () => void;
  readonly destroy: (error: Error) => void;
}

function isCopy(given: unknown): given is Copy {
  return typeof given === 'object' && given !== null && 'handleReadyForQuery' in given && 'destroy' in given;
}

test('many jobs go by COPY, in their order; fewer, and those in a transaction, do not', async () => {
  const { pool, copies } = copyingPool();
  const counting = createProducer({ pool });
  await counting.enqueueMany(jobs(many - 1));
  expect(copies()).toBe(0);
  await reset();
  const enqueued = await counting.enqueueMany(jobs(3 * many));
  expect(copies()).toBe(1);
  const rows = await sql(`select id, (payload ->> 'n')::integer as n from pgqueue.queue order by seq`);
  expect(rows).toEqual(enqueued.map(({ id }, n) => ({ id, n })));
  expect(new Set(enqueued.map(({ outcome }) => outcome))).toEqual(new Set(['enqueued']));
  const client = await pool.connect();
  await client.query('begin');
  await counting.with(client).enqueueMany(jobs(many));
  await client.query('rollback');
  client.release();
  expect([copies(), await waiting()]).toEqual([1, 3 * many]);
  await counting.close();
  await pool.end();
});

describe('a row is the same by COPY and by INSERT', () => {
  const later = new Date(Date.now() + 3_600_000);
  test.each<[string, JobOptions, string]>([
    ['with defaults', {}, ''],
    [
      'with texts that COPY takes for its own',
      { key: '\\N', queue: 'q\\t' },
      'a\tb\nc\rd\\e"f\\.\u2028😀\\N',
    ],
    [
      'with every option',
      {
        queue: 'q',
        key: "k'é{},",
        priority: -5,
        attributes: { 'a\\b': 'x\ty', n: 1, none: null },
        timeout: '90s',
        expiresAt: later,
        retry: { maxTries: 3, maxCrashes: 2, backoff: 'fixed', base: '2s' },
        trace: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
      },
      'x',
    ],
  ])('%s', async (_name, options, text) => {
    const columns = `queue, key, task, priority, payload, attributes, timeout, expires_at, max_tries, max_crashes, retry, trace,
      payload_version, run_after, unique_key, tries, crashes, errors, moved`;
    const read = () => sql(`select ${columns} from pgqueue.queue order by seq`);
    await producer.enqueueMany(jobs(2, options, text));
    const [inserted] = await read();
    await reset();
    await producer.enqueueMany(jobs(many, options, text));
    const copied = await read();
    expect([copied.length, copied[0]]).toEqual([many, inserted]);
  });
});

test.each<[string, JobOptions]>([
  ['a delay', { delay: '1h' }],
  ['a time', { runAfter: new Date(Date.now() + 3_600_000) }],
  ['a unique key', { uniqueKey: 'u' }],
  ['an id of the caller', { id: '01a203b1-783f-78a4-a6fc-f195a0c7873d' }],
])('jobs with %s are not copied', async (_name, options) => {
  const { pool, copies } = copyingPool();
  const counting = createProducer({ pool });
  await counting.enqueueMany([...jobs(many), ...jobs(1, options)]);
  expect([copies(), await waiting()]).toEqual([0, many + 1]);
  await counting.close();
  await pool.end();
});

test('a lost answer is looked up: nothing is enqueued twice', async () => {
  const { pool, copies } = copyingPool([1]);
  const losing = createProducer({ pool });
  const enqueued = await losing.enqueueMany(jobs(many));
  expect([copies(), await waiting()]).toEqual([1, many]);
  expect(new Set(enqueued.map(({ outcome }) => outcome))).toEqual(new Set(['repeated']));
  await losing.close();
  await pool.end();
});

test('all or none: what the table refuses is told as of a smaller batch', async () => {
  const numbers = Array.from({ length: 2_000 }, () => 1e300);
  const heavy = producer.enqueueMany([
    ...jobs(many),
    { ...hello.job({ n: 1 }), payload: { n: 1, numbers }, check: () => Promise.resolve([]) },
  ]);
  await expect(heavy).rejects.toMatchObject({
    code: 'invalid_job',
    message: expect.stringContaining('393216 bytes as PostgreSQL writes it'),
  });
  await createOperator({ pool: database.pool }).queues.set('q', { keyPending: 100 });
  const crowded = producer.enqueueMany(jobs(many, { queue: 'q' }));
  await expect(crowded).rejects.toMatchObject({ code: 'too_many_pending' });
  expect(await waiting()).toBe(0);
  await createOperator({ pool: database.pool }).queues.set('q', { keyPending: null });
  await producer.enqueueMany(jobs(many, { queue: 'q' }));
  expect(await waiting()).toBe(many);
});
