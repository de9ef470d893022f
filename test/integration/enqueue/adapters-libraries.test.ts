import { defineTask } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import type { Enqueuer, Producer } from '@pgqueue/producer';
import '@pgqueue/testing/vitest';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { builders } from './adapters-builders.ts';
import type { Library } from './adapters-library.ts';
import { orms } from './adapters-orms.ts';

const invoice = defineTask({
  name: 'invoice',
  payload: z.object({ note: z.string() }),
  key: ({ note }) => note.slice(0, 20),
  attributes: { region: 'eu' },
});

const numbers = defineTask({ name: 'numbers', payload: z.array(z.number()) });

/** Texts that a driver, a template or a statement could misread. */
const nasty = [
  `it's "quoted" \\ back\\\\slash`,
  '$1 $2 ${x} $$ :name ? ?? ?| @> \\? \\$1 %s',
  '日本語 ñ é ẞ \u202e rtl',
  '🦆👩‍👩‍👧‍👦 emoji',
  '{"a":[1,NULL,"}"]},{NULL}',
  'line\nbreak\ttab\r',
  `'); drop table invoice; --`,
  '',
] as const;

/** Every library's adapter must pass this. */
describe.each([...builders, ...orms])('$name', ({ open }) => {
  const own = useDatabase();
  let client: pg.Client;
  let library: Library;
  let producer: Producer;

  beforeAll(async () => {
    client = new pg.Client({ connectionString: own.url });
    await client.connect();
    await client.query('create table invoice (id serial primary key, note text not null)');
    library = await open(own.url);
    producer = createProducer({ schema: 'pgqueue' });
  });
  afterAll(async () => {
    await producer.close();
    await library.close();
    await client.end();
  });
  beforeEach(async () => {
    await client.query('truncate invoice, pgqueue.queue');
  });

  const notes = async (sql: string): Promise<readonly string[]> =>
    (await client.query<{ note: string }>(sql)).rows.map(({ note }) => note);
  const invoices = (): Promise<readonly string[]> => notes('select note from invoice order by id');
  const jobs = (): Promise<readonly string[]> =>
    notes(`select payload ->> 'note' as note from pgqueue.queue order by seq`);

  test("toHaveEnqueued sees the jobs of the library's own open transaction, and only it does", async () => {
    await library.transaction(async ({ tx, executor }) => {
      await producer.with(executor).enqueue(invoice, { note: 'paid' });
      await expect(tx).toHaveEnqueued(
        invoice,
        { note: 'paid' },
        { key: 'paid', attributes: { region: 'eu' } },
      );
      await expect(tx).not.toHaveEnqueued(invoice, { note: 'other' });
      await expect(client).not.toHaveEnqueued(invoice);
    });
    await expect(client).toHaveEnqueued(invoice, { note: 'paid' });
  });

  test('commit delivers the write and the job, and not before', async () => {
    const enqueued = await library.transaction(async (tx) => {
      await tx.write('paid');
      const answer = await producer.with(tx.executor).enqueue(invoice, { note: 'paid' });
      expect(await jobs()).toEqual([]);
      return answer;
    });
    expect(enqueued.outcome).toBe('enqueued');
    const { rows } = await client.query('select id, key, attributes from pgqueue.queue');
    expect(rows).toEqual([{ id: enqueued.id, key: 'paid', attributes: { region: 'eu' } }]);
    expect(await invoices()).toEqual(['paid']);
    expect(await jobs()).toEqual(['paid']);
  });

  test('rollback leaves neither', async () => {
    const work = library.transaction(async (tx) => {
      await tx.write('unpaid');
      await producer.with(tx.executor).enqueue(invoice, { note: 'unpaid' });
      throw new Error('business says no');
    });
    await expect(work).rejects.toThrow('business says no');
    expect(await invoices()).toEqual([]);
    expect(await jobs()).toEqual([]);
  });

  test('many at once, in order, with and without a unique key, and every option', async () => {
    const runAfter = new Date(Date.now() + 3_600_000);
    const expiresAt = new Date(runAfter.getTime() + 1_000);
    const options = { runAfter, expiresAt, timeout: '1.5s', priority: -3, retry: { maxTries: 4 } } as const;
    const batch = [
      ...Array.from({ length: 50 }, (_, n) => invoice.job({ note: `n${n}` })),
      invoice.job({ note: 'all' }, options),
      invoice.job({ note: 'unique' }, { ...options, uniqueKey: `it's $1 ?` }),
      invoice.job({ note: 'kept' }, { uniqueKey: `it's $1 ?` }),
    ];
    const enqueued = await library.transaction(async (tx) => {
      await tx.write('many');
      return producer.with(tx.executor).enqueueMany(batch);
    });
    expect(enqueued.map(({ outcome }) => outcome)).toEqual([
      ...Array.from({ length: 52 }, () => 'enqueued'),
      'kept',
    ]);
    expect(enqueued[52]?.id).toBe(enqueued[51]?.id);
    expect(await jobs()).toEqual([...Array.from({ length: 50 }, (_, n) => `n${n}`), 'all', 'unique']);
    const { rows } = await client.query(
      `select distinct run_after, expires_at, extract(epoch from timeout)::float8 as timeout, priority, max_tries
         from pgqueue.queue where run_after is not null`,
    );
    expect(rows).toEqual([
      { run_after: runAfter, expires_at: expiresAt, timeout: 1.5, priority: -3, max_tries: 4 },
    ]);
  });

  test('an id of the caller makes it safe to repeat, in one batch and in the next transaction', async () => {
    const id = '0b0e4f2a-8f62-7cc3-9d3c-3c1f0a4a7d11';
    const once = (): Promise<readonly string[]> =>
      library.transaction(async (tx) => {
        const jobs = [
          invoice.job({ note: 'a' }, { id }),
          invoice.job({ note: 'b' }, { id: id.toUpperCase() }),
        ];
        const enqueued = await producer.with(tx.executor).enqueueMany(jobs);
        const single = await producer.with(tx.executor).enqueue(invoice, { note: 'c' }, { id });
        return [...enqueued, single].map(({ outcome }) => outcome);
      });
    expect(await once()).toEqual(['enqueued', 'repeated', 'repeated']);
    expect(await once()).toEqual(['repeated', 'repeated', 'repeated']);
    expect(await jobs()).toEqual(['a']);
  });

  test("the caller hears the producer's own errors, however the library wraps those of the database", async () => {
    await client.query(`insert into pgqueue.queue_config (queue, key_pending) values ('full', 1)`);
    const codeOf = (
      enqueue: (enqueuer: Enqueuer) => Promise<unknown>,
      before = 'select 1',
    ): Promise<unknown> =>
      library
        .transaction(async ({ executor }) => {
          await executor.query(before, []);
          await enqueue(producer.with(executor));
        })
        .then(
          () => 'enqueued',
          (error: unknown) => (error as { readonly code?: unknown }).code,
        );
    const huge = Array.from({ length: 2_000 }, () => 1e300);
    expect(await codeOf((to) => to.enqueue(numbers, huge))).toBe('invalid_job');
    const full = [1, 2].map((n) => numbers.job([n], { queue: 'full', key: 'a' }));
    expect(await codeOf((to) => to.enqueueMany(full))).toBe('too_many_pending');
    const replacing = { uniqueKey: { key: 'a', onConflict: 'replace' } } as const;
    const serializable = 'set transaction isolation level serializable';
    expect(await codeOf((to) => to.enqueue(numbers, [1], replacing), serializable)).toBe('configuration');
    expect(await jobs()).toEqual([]);
  });

  test('special characters survive, one at a time, many, and under a unique key', async () => {
    await library.transaction(async (tx) => {
      const enqueuer = producer.with(tx.executor);
      for (const note of nasty) await enqueuer.enqueue(invoice, { note }, { key: note });
      await enqueuer.enqueueMany(nasty.map((note) => invoice.job({ note }, { key: note })));
      await enqueuer.enqueueMany(
        nasty.map((note) => invoice.job({ note }, { key: note, uniqueKey: `u${note}` })),
      );
    });
    expect([...(await jobs())].sort()).toEqual([...nasty, ...nasty, ...nasty].sort());
    const { rows } = await client.query(
      `select count(*)::integer as wrong from pgqueue.queue
         where key <> payload ->> 'note' or unique_key <> 'u' || key`,
    );
    expect(rows).toEqual([{ wrong: 0 }]);
  });
});
