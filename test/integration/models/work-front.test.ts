import { beforeEach, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { lease } from '../../support/seed.ts';

const { database, batch, insert, node, reset, sql } = useDatabase();

beforeEach(reset);

/** Dispatches jobs and moves the front up. Returns its positions. */
async function dispatch(ids: readonly string[]): Promise<{ readonly item: number; readonly batch: number }> {
  await sql(`select * from pgqueue.lead('s', 60000)`);
  await sql(
    `select * from pgqueue.dispatch('s', (select epoch from pgqueue.scheduler_lease), $1::uuid[], null, $2, false)`,
    [ids, { pool: 'default', front: true }],
  );
  const [row] = await sql('select item::float8 as item, batch::float8 as batch from pgqueue.work_front');
  return row;
}

/** Returns the position of the next item. */
async function next(): Promise<number> {
  const [row] = await sql(
    'select (last_value + case when is_called then 256 else 0 end)::float8 as next from pgqueue.work_queue_position_seq',
  );
  return row.next;
}

test('the front passes no item and no batch, and a job of a batch gets no second work item', async () => {
  const ids = [await insert(), await insert(), await insert()];
  const [alone = '', ...together] = ids;
  const first = await batch(together);
  expect(await dispatch(ids)).toEqual({ item: first, batch: first });
  const items = await sql('select id from pgqueue.work_item');
  expect(new Set(items.map(({ id }) => id))).toEqual(new Set(ids));
  expect(items).toHaveLength(ids.length);
  const [single] = await sql(
    'select id, position::float8 as position from pgqueue.work_queue where id is not null',
  );
  expect(single?.id).toBe(alone);
  await sql('delete from pgqueue.work_queue where jobs is not null');
  const left = await dispatch([]);
  expect(left.item).toBe(single?.position);
  expect(left.batch).toBeGreaterThan(first);
  expect(left.batch).toBeLessThanOrEqual(await next());
});

test('where nothing is left, the front is before whatever comes next', async () => {
  const before = await dispatch([]);
  expect(before.item).toBeLessThanOrEqual(await next());
  const { item: there } = await dispatch([await insert()]);
  await sql('delete from pgqueue.work_queue');
  const { item } = await dispatch([]);
  expect(item).toBeGreaterThan(there);
  expect(item).toBeLessThanOrEqual(await next());
});

test('a batch that is being taken apart holds the front until its parts are seen', async () => {
  await node('n');
  const first = await batch([await insert(), await insert()], lease('n'));
  await database.transaction(async (client) => {
    await client.query('select pgqueue.take_apart(array[$1::bigint])', [first]);
    expect(await dispatch([])).toEqual({ item: first, batch: first });
  });
  const { item, batch: none } = await dispatch([]);
  expect(item).toBe(first + 1);
  expect(none).toBeGreaterThan(first);
});

test('claims begin at the front, and find what was released before it moved', async () => {
  await node('n');
  const [one, two] = [await insert(), await insert()];
  await dispatch([one, two]);
  const claim = () => sql(`select id from pgqueue.claim('n', (select incarnation from pgqueue.node), 1)`);
  const [first] = await claim();
  expect(first?.id).toBe(one);
  await dispatch([]);
  await sql(
    `select pgqueue.release(array[$1::uuid], array[(select lock_token from pgqueue.work_queue where id = $1)])`,
    [one],
  );
  await dispatch([]);
  expect((await claim())[0]?.id).toBe(one);
});
