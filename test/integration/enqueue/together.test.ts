import { defineTask, flow } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import pg from 'pg';
import { beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';

const hello = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const two = flow('two')
  .step('first', hello.job({ n: 1 }))
  .step('second', hello.job({ n: 2 }), { needs: ['first'] });

const own = useDatabase();
const { reset, sql } = own;

const producer = opened(() => createProducer({ connectionString: own.url }), { each: true });
beforeEach(reset);

/** Number of transactions that the rows of a table are of. */
const transactions = async (table: string): Promise<number> =>
  Number((await sql(`select count(distinct xmin::text) as n from pgqueue.${table}`))[0].n);

/** A transaction that has enqueued a job and started a flow with the unique key `held`, until it is rolled back. */
async function holdKeys(): Promise<{ readonly end: () => Promise<void> }> {
  const client = new pg.Client(own.url);
  await client.connect();
  await client.query('begin');
  await producer.with(client).enqueue(hello, { n: 0 }, { uniqueKey: 'held' });
  await producer.with(client).start(two, { uniqueKey: 'held' });
  return {
    end: async () => {
      await client.query('rollback');
      await client.end();
    },
  };
}

test('jobs that are enqueued at the same time are written together, in the order of the calls', async () => {
  const numbers = Array.from({ length: 60 }, (_, n) => n);
  const enqueued = await Promise.all(numbers.map((n) => producer.enqueue(hello, { n })));
  const rows = await sql(`select id, (payload -> 'n')::integer as n from pgqueue.queue order by seq`);
  expect(rows.map(({ n }) => n)).toEqual(numbers);
  expect(rows.map(({ id }) => id)).toEqual(enqueued.map(({ id }) => id));
  expect(enqueued.every(({ outcome }) => outcome === 'enqueued')).toBe(true);
  expect(await transactions('queue')).toBeLessThan(10);
});

test('flows that are started at the same time are written together, each with its own steps', async () => {
  const started = await Promise.all(Array.from({ length: 30 }, () => producer.start(two)));
  expect(new Set(started.map(({ id }) => id)).size).toBe(30);
  expect(started.every(({ outcome }) => outcome === 'started')).toBe(true);
  const steps = await sql(
    'select flow, array_agg(name order by step) as names from pgqueue.flow_step group by flow',
  );
  expect(new Set(steps.map(({ flow: id }) => id))).toEqual(new Set(started.map(({ id }) => id)));
  expect(steps.every(({ names }) => String(names) === 'first,second')).toBe(true);
  expect(await sql('select from pgqueue.queue')).toHaveLength(30);
  expect(await transactions('flow')).toBeLessThan(10);
});

test('a job or a flow that is refused fails alone', async () => {
  const operator = createOperator({ connectionString: own.url });
  await operator.queues.set('default', { keyPending: 1 });
  await operator.close();
  await producer.enqueue(hello, { n: 0 }, { key: 'full' });
  const keys = ['a', 'full', 'b', 'full', 'c'];
  const jobs = await Promise.allSettled(keys.map((key) => producer.enqueue(hello, { n: 1 }, { key })));
  const flows = await Promise.allSettled(
    keys.map((key) => producer.start(two, { key: `${key}${key === 'full' ? '' : '2'}` })),
  );
  const refused = { status: 'rejected', reason: { code: 'too_many_pending' } };
  for (const outcomes of [jobs, flows]) {
    expect(outcomes.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'rejected',
      'fulfilled',
    ]);
    expect(outcomes[1]).toMatchObject(refused);
  }
  const written = await sql('select key from pgqueue.queue order by key');
  expect(written.map(({ key }) => key)).toEqual(['a', 'a2', 'b', 'b2', 'c', 'c2', 'full']);
});

test('what waits for the transaction of somebody else holds up no other', async () => {
  const held = await holdKeys();
  const waiting = [
    producer.enqueue(hello, { n: 1 }, { uniqueKey: 'held' }),
    producer.start(two, { uniqueKey: 'held' }),
  ];
  const enqueued = await Promise.all([1, 2, 3].map((n) => producer.enqueue(hello, { n })));
  const started = await Promise.all([1, 2, 3].map(() => producer.start(two)));
  expect([...enqueued, ...started]).toHaveLength(6);
  await held.end();
  expect((await Promise.all(waiting)).map(({ outcome }) => outcome)).toEqual(['enqueued', 'started']);
});
