// The check of keys' homes, as one installation does it: which enqueues it refuses, and what it waits for.
import { defineTask, flow } from '@pgqueue/core';
import { setRoute } from '@pgqueue/postgres/internal';
import { createRoutedProducer } from '@pgqueue/producer/internal';
import { beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const task = defineTask({ name: 'hello', payload: z.unknown() });
const own = useDatabase({ each: true });
const known = new Map<string, number>();
const producer = opened(
  () => createRoutedProducer({ connectionString: own.url }, (key) => known.get(key) ?? 0),
  { each: true },
);
const count = async (): Promise<number> => (await own.database.query('select from pgqueue.queue', [])).length;
const settled = { key: 'acme', installation: 2, version: 5, movingFrom: null } as const;
const moved = { code: 'moved', data: { key: 'acme', installation: 2, version: 5 } };

beforeEach(async () => {
  known.clear();
  await own.operator.installation.init({ number: 1, name: 'one' });
});

test('refuses jobs and flows of a key that has moved, in each way to enqueue, and nothing of them stays', async () => {
  const { database } = own;
  await producer.enqueue(task, {}, { key: 'acme' });
  expect(await setRoute(database, settled)).toBe(true);
  const acme = { key: 'acme' };
  const id = '00000000-0000-7000-8000-000000000001';
  const many = Array.from({ length: 600 }, (_, n) => task.job({ n }, n === 300 ? acme : { key: `k${n}` }));
  const refused = [
    () => producer.enqueue(task, {}, acme),
    () => producer.enqueue(task, {}, { ...acme, delay: '1s' }),
    () => producer.enqueue(task, {}, { ...acme, uniqueKey: 'u' }),
    () => producer.enqueue(task, {}, { ...acme, id }),
    () =>
      producer.enqueueMany([task.job({}), task.job({}, { key: 'b', uniqueKey: 'u' }), task.job({}, acme)]),
    () => producer.enqueueMany(many),
    () => producer.start(flow('f').step('a', task.job({})), acme),
  ];
  for (const enqueue of refused) await expect(enqueue()).rejects.toMatchObject(moved);
  expect(await count()).toBe(1);
  for (const key of ['', 'b', 'acm']) await producer.enqueue(task, {}, { key });
  await producer.enqueueMany(Array.from({ length: 600 }, (_, n) => task.job({ n }, { key: `k${n}` })));
  await producer.start(flow('f').step('a', task.job({}, acme)), { key: 'b' });
  expect(await count()).toBe(605);
});

test('accepts what a router knows better, and a key that came back', async () => {
  const { database } = own;
  await setRoute(database, settled);
  known.set('acme', 5);
  await producer.enqueue(task, {}, { key: 'acme' });
  known.set('acme', 4);
  await expect(producer.enqueue(task, {}, { key: 'acme' })).rejects.toMatchObject(moved);
  await setRoute(database, { ...settled, installation: 1, version: 6 });
  await producer.enqueue(task, {}, { key: 'acme' });
  expect(await count()).toBe(2);
});

test('versions only grow', async () => {
  const { database } = own;
  expect(await setRoute(database, { ...settled, movingFrom: 1 })).toBe(true);
  expect(await setRoute(database, settled)).toBe(false);
  expect(await setRoute(database, { ...settled, installation: 3, version: 4 })).toBe(false);
  const [row] = await database.query(
    'select installation, version::integer, state, moving_from from pgqueue.route',
    [],
  );
  expect(row).toEqual({ installation: 2, version: 5, state: 'moving', moving_from: 1 });
});

test('tells which ids of an earlier try it knows: waiting, ended, or of a flow', async () => {
  const { database, operator } = own;
  const jobs = await producer.enqueueMany([task.job({}, { key: 'acme' }), task.job({}, { key: 'acme' })]);
  const run = await producer.start(flow('f').step('a', task.job({})), { key: 'acme' });
  const [first, second] = jobs.map(({ id }) => id);
  await operator.jobs.cancel([String(first)]);
  await setRoute(database, settled);
  const other = '00000000-0000-7000-8000-000000000001';
  const again = [first, second, other].map((id) => task.job({}, { key: 'acme', id: String(id) }));
  await expect(producer.enqueueMany(again)).rejects.toMatchObject({
    data: { known: [first, second], ids: [first, second, other] },
  });
  await expect(
    producer.start(flow('f').step('a', task.job({})), { key: 'acme', id: run.id }),
  ).rejects.toMatchObject({ data: { known: [run.id], ids: [run.id] } });
});

test('a route waits for enqueues of its key that are under way, and for no other', async () => {
  const { database } = own;
  const client = await database.pool.connect();
  try {
    await client.query('begin');
    await client.query(`select pgqueue.at_home(array['acme'], array[0])`);
    await setRoute(database, { ...settled, key: 'other' });
    let done = false;
    const setting = setRoute(database, settled).then((wrote) => {
      done = true;
      return wrote;
    });
    await until('the route waits for the lock', async () => {
      const waiting = await database.query(
        `select from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`,
        [],
      );
      return waiting.length === 1;
    });
    expect(done).toBe(false);
    await client.query(`insert into pgqueue.queue (task, key) values ('hello', 'acme')`);
    await client.query('commit');
    expect(await setting).toBe(true);
    await expect(producer.enqueue(task, {}, { key: 'acme' })).rejects.toMatchObject(moved);
    expect(await count()).toBe(1);
  } finally {
    client.release();
  }
});

test('an installation without a number takes no routes', async () => {
  await own.database.query('delete from pgqueue.installation', []);
  await expect(setRoute(own.database, settled)).rejects.toMatchObject({ code: '22023' });
});
