import { defineTask, flow, installationOf } from '@pgqueue/core';
import { makeId } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';

const task = defineTask({ name: 'hello', payload: z.object({}) });

describe('an installation with a number', () => {
  const own = useDatabase({ each: true });
  const producer = opened(() => createProducer({ connectionString: own.url }), { each: true });
  const numberOf = async (): Promise<number | undefined> => (await own.operator.installation.get())?.number;

  test('stands in every id: of producers from the first job on, of flows, and of plain SQL', async () => {
    const { operator, database } = own;
    expect(await operator.installation.init({ number: 777, name: 'eu-3' })).toBe('created');
    expect(await operator.installation.init({ number: 777, name: 'eu-3' })).toBe('unchanged');
    expect(await operator.installation.init({ number: 777, name: 'eu-4' })).toBe('changed');
    expect(await operator.installation.get()).toEqual({ number: 777, name: 'eu-4' });
    const first = await producer.enqueue(task, {});
    const many = await producer.enqueueMany([task.job({}), task.job({})]);
    const run = await producer.start(flow('f').step('a', task.job({})));
    await database.query(`insert into pgqueue.queue (task) values ('hello'), ('hello')`, []);
    const rows = await database.query<{ id: string; sql: number }>(
      'select id, pgqueue.installation_of(id) as sql from pgqueue.queue',
      [],
    );
    expect(rows).toHaveLength(6);
    for (const id of [first, ...many, run, ...rows].map((made) => made.id))
      expect(installationOf(id)).toBe(777);
    expect(rows.every(({ sql }) => sql === 777)).toBe(true);
  });

  test('is learnt within a transaction, too, where the first enqueue is one', async () => {
    const { operator, database } = own;
    await operator.installation.init({ number: 5, name: 'a' });
    const { id } = await database.transaction((client) => producer.with(client).enqueue(task, {}));
    expect(installationOf(id)).toBe(5);
  });

  test('keeps its number once jobs have it', async () => {
    const { operator, database } = own;
    await operator.installation.init({ number: 1, name: 'a' });
    expect(await operator.installation.init({ number: 2, name: 'a' })).toBe('changed');
    await producer.enqueue(task, {});
    await expect(operator.installation.init({ number: 3, name: 'a' })).rejects.toMatchObject({
      code: 'configuration',
      message: expect.stringContaining('this is installation 2') as string,
    });
    expect(await numberOf()).toBe(2);
    await database.query('delete from pgqueue.queue', []);
    expect(await operator.installation.init({ number: 3, name: 'a' })).toBe('changed');
  });

  test.each([
    [{ number: -1, name: 'a' }, 'number'],
    [{ number: 1024, name: 'a' }, 'number'],
    [{ number: 1.5, name: 'a' }, 'number'],
    [{ number: 1, name: '' }, 'name'],
    [{ number: 1, name: 'EU 3' }, 'name'],
    [{ number: 1, name: 'a', extra: 1 }, 'extra'],
  ])('%j is refused before any I/O', async (identity, named) => {
    await expect(own.operator.installation.init(identity)).rejects.toMatchObject({
      code: 'configuration',
      message: expect.stringContaining(named) as string,
    });
    expect(await numberOf()).toBeUndefined();
  });
});

describe('an installation without one', () => {
  const own = useDatabase();
  const producer = opened(() => createProducer({ connectionString: own.url }));

  test('makes ids whose bits are all random', async () => {
    const made = await producer.enqueueMany(Array.from({ length: 64 }, () => task.job({})));
    expect(new Set(made.map(({ id }) => installationOf(id))).size).toBeGreaterThan(8);
    const rows = await own.database.query<{ id: string }>(
      'select pgqueue.uuid_v7() as id from generate_series(1, 64)',
      [],
    );
    expect(new Set(rows.map(({ id }) => installationOf(id))).size).toBeGreaterThan(8);
    expect(rows.every(({ id }) => /^.{14}7.{4}[89ab]/.test(id))).toBe(true);
  });

  test('SQL and TypeScript read the same number in an id', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 1023 }), { minLength: 1, maxLength: 50 }),
        async (numbers) => {
          const ids = numbers.map((number) => makeId(number));
          const rows = await own.database.query<{ number: number }>(
            'select pgqueue.installation_of(x.id) as number from unnest($1::uuid[]) with ordinality as x (id, n) order by n',
            [ids],
          );
          expect(rows.map(({ number }) => number)).toEqual(numbers);
        },
      ),
      { numRuns: 20 },
    );
  });
});
