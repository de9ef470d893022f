import { openDatabase } from '@pgqueue/postgres/internal';
import type { PoolClient } from 'pg';
import { expect, test } from 'vitest';
import { opened, useDatabase } from '../../support/database.ts';

const own = useDatabase();
const database = opened(() => openDatabase({ connectionString: own.url, connectionsMax: 1, prepare: true }));

const prepared = async (): Promise<number> => {
  const { rows } = await database.pool.query<{ n: number }>(
    `select count(*)::integer as n from pg_prepared_statements where name like 'pgqueue_%'`,
  );
  return rows[0]?.n ?? 0;
};

test('a statement is planned once, and kept by its session', async () => {
  for (const n of [1, 2, 3]) expect(await database.query('select $1::integer as n', [n])).toEqual([{ n }]);
  expect(await prepared()).toBe(1);
});

test('a statement whose result a migration has changed goes without its plan', async () => {
  await database.pool.query('create function changing() returns integer language sql as $$ select 1 $$');
  const ask = () => database.query('select * from changing() as c', []);
  expect(await ask()).toEqual([{ c: 1 }]);
  await database.pool.query('drop function changing()');
  await database.pool.query('create function changing() returns text language sql as $$ select $t$x$t$ $$');
  expect(await ask()).toEqual([{ c: 'x' }]);
  await database.pool.query('drop function changing()');
});

test('what fails for another reason fails once', async () => {
  await expect(database.query('select 1 / $1::integer', [0])).rejects.toMatchObject({ code: '22012' });
});

test('where sessions change hands, statements go without names from then on', async () => {
  expect(await database.query('select $1::integer as n', [3])).toEqual([{ n: 3 }]);
  await database.pool.query('deallocate all');
  expect(await database.query('select $1::integer as n', [4])).toEqual([{ n: 4 }]);
  expect(await database.query('select $1::integer as n', [5])).toEqual([{ n: 5 }]);
  expect(await prepared()).toBe(0);
});

test.each([true, false])(
  'a connection that failed at once, and again later, ends no process (prepare: %s)',
  async (prepare) => {
    const errors: Error[] = [];
    const other = openDatabase({
      connectionString: own.url,
      prepare,
      onError: (error) => errors.push(error),
    });
    try {
      const clients: PoolClient[] = [];
      other.pool.once('connect', (client: PoolClient) => {
        clients.push(client);
        Object.assign(client, {
          query: () => {
            throw new Error('at once');
          },
        });
      });
      await expect(other.query('select 1', [])).rejects.toThrow('at once');
      expect(clients[0]?.emit('error', new Error('later'))).toBe(true);
      expect(errors.map(({ message }) => message)).toContain('later');
      expect(await other.query('select 1 as n', [])).toEqual([{ n: 1 }]);
    } finally {
      await other.close();
    }
  },
);
