import { openDatabase } from '@pgqueue/postgres';
import type { Database } from '@pgqueue/postgres';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { TestDatabase } from '../../support/database.ts';
import { createTestDatabase } from '../../support/database.ts';
import { seedOf } from '../../support/seed.ts';

let own: TestDatabase;
let database: Database;
const { batch, insert, reset, sql } = seedOf(() => database);

beforeAll(async () => {
  own = await createTestDatabase();
  database = openDatabase({ connectionString: own.url, connectionsMax: 2 });
});
afterAll(async () => {
  await database.close();
  await own.drop();
});
beforeEach(reset);

async function dispatch(ids: readonly string[], front: number): Promise<number> {
  await sql(`select * from pgqueue.lead('s', 60000)`);
  await sql(
    `select * from pgqueue.dispatch('s', (select epoch from pgqueue.scheduler_lease), $1::uuid[], null, $2, false)`,
    [ids, { pool: 'default', front }],
  );
  const [row] = await sql('select position::float8 as position from pgqueue.batch_front');
  return row.position;
}

test('the front passes no batch that the leader does not know of, and a job of it gets no second work item', async () => {
  const ids = [await insert(), await insert(), await insert()];
  const [alone = '', ...together] = ids;
  const first = await batch(together);
  expect(await dispatch(ids, first + 1_000)).toBe(first);
  const items = await sql('select id from pgqueue.work_item');
  expect(new Set(items.map(({ id }) => id))).toEqual(new Set(ids));
  expect(items).toHaveLength(ids.length);
  expect(await sql('select id from pgqueue.work_queue where id is not null')).toEqual([{ id: alone }]);
  await sql('delete from pgqueue.work_queue where jobs is not null');
  expect(await dispatch([], first + 1_000)).toBe(first + 1_000);
});
