import { paceVacuum } from '@pgqueue/postgres';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Ground } from './database-support.ts';
import { openGround } from './database-support.ts';
import { pin } from './pinned-support.ts';

let ground: Ground;
beforeAll(async () => {
  ground = await openGround();
  // as somebody has set them; by itself autovacuum is not to come in a test
  await ground.sql(
    'alter table pgqueue.queue set (autovacuum_enabled = off, autovacuum_vacuum_threshold = 1500)',
  );
  await ground.sql('alter table pgqueue.work_queue set (autovacuum_enabled = off)');
});
afterAll(() => ground.close());
beforeEach(async () => {
  await ground.reset();
  await ground.sql('vacuum pgqueue.queue');
});

const dead = 2_000;
/** Of one that is held for any time, and of tables this small. */
const pace = (): Promise<unknown> => ground.one(`select pgqueue.pace_vacuum('0 s', 1000)`);
const thresholds = async (): Promise<unknown> =>
  ground.one(
    `select jsonb_object_agg(o.option_name, o.option_value) from pg_class c, pg_options_to_table(c.reloptions) o
     where c.oid = 'pgqueue.queue'::regclass and o.option_name like 'autovacuum_vacuum%threshold'`,
  );
const atFirst = { autovacuum_vacuum_threshold: '1500', autovacuum_vacuum_insert_threshold: '200000' };
const both = (value: number): unknown => ({
  autovacuum_vacuum_threshold: String(value),
  autovacuum_vacuum_insert_threshold: String(value),
});

async function die(): Promise<void> {
  const session = await ground.session();
  await session.sql(`insert into pgqueue.queue (task) select 'hello' from generate_series(1, ${dead})`);
  await session.sql('delete from pgqueue.queue');
  await session.sql('select pg_stat_force_next_flush()'); // or they are counted after the next pass
  await session.end();
}

test('behind a snapshot, what makes autovacuum come doubles after each pass that cleared nothing; without it, all is as it was', async () => {
  const pinned = await pin(ground.test.url, 'reads');
  try {
    await die();
    expect(await pace()).toBe(0); // no pass has seen them
    await ground.sql('vacuum pgqueue.queue');
    expect(await pace()).toBe(1);
    expect(await thresholds()).toEqual(both(2 * dead));
    expect(await pace()).toBe(0);
    await die();
    await ground.sql('vacuum pgqueue.queue');
    expect(await pace()).toBe(1);
    expect(await thresholds()).toEqual(both(4 * dead));
  } finally {
    await pinned.end();
  }
  await expect.poll(pace).toBe(1);
  expect(await thresholds()).toEqual(atFirst);
  expect(await ground.sql('select from pgqueue.vacuum_wait')).toEqual([]);
});

test('a snapshot that is younger than the last pass keeps nothing waiting: the next one has something to clear', async () => {
  const older = await pin(ground.test.url, 'wrote');
  await die();
  await ground.sql('vacuum pgqueue.queue');
  expect(await pace()).toBe(1);
  const younger = await pin(ground.test.url, 'reads');
  try {
    await older.end();
    await expect.poll(pace).toBe(1);
    expect(await thresholds()).toEqual(atFirst);
    expect(await pace()).toBe(0);
  } finally {
    await younger.end();
  }
});

test('what nobody holds back, or has been held for less than a minute, stays as it is', async () => {
  await die();
  await ground.sql('vacuum pgqueue.queue');
  expect(await pace()).toBe(0);
  const pinned = await pin(ground.test.url, 'reads');
  try {
    await die();
    await ground.sql('vacuum pgqueue.queue');
    expect(await paceVacuum(ground.database)).toBe(0);
    expect(await thresholds()).toEqual(atFirst);
  } finally {
    await pinned.end();
  }
});
