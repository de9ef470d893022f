import { countActivity, lead, leadershipLostState, openDatabase, sqlState } from '@pgqueue/postgres/internal';
import type { Database } from '@pgqueue/postgres';
import type { Leader } from '@pgqueue/postgres/internal';
import { readActivity } from '@pgqueue/postgres/internal/dashboard';
import type { Activity } from '@pgqueue/postgres/internal/dashboard';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { TestDatabase } from '../../support/database.ts';
import { createTestDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

let own: TestDatabase;
let database: Database;
let leader: Leader;

beforeAll(async () => {
  own = await createTestDatabase();
  database = openDatabase({ connectionString: own.url, connectionsMax: 2 });
  const { epoch } = await lead(database, 'one', 600_000);
  leader = { leader: 'one', epoch };
});
beforeEach(async () => {
  for (const table of ['history', 'dead_letter', 'activity'])
    await database.query(`delete from pgqueue.${table}`, []);
  await database.query(`update pgqueue.activity_mark set counted_to = '-infinity'`, []);
});
afterAll(async () => {
  await database.close();
  await own.drop();
});

/** Jobs that ended every so many seconds, back from ten seconds ago. */
async function ended(count: number, everySeconds: number, outcome = 'done', queue = 'mail'): Promise<void> {
  await database.query(
    `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                                  attributes, payload)
     select gen_random_uuid(), $4, 't', '', 0, $3, 1, 0, at - interval '3 s', at - interval '1 s', at, 1, '{}', '{}'
     from (select clock_timestamp() - interval '10 s' - n * $2::float8 * interval '1 s' as at from generate_series(0, $1::integer - 1) n) s`,
    [count, everySeconds, outcome, queue],
  );
}

const read = (grain: 60 | 900, buckets: number): Promise<Activity> =>
  readActivity(database, { grain, buckets, queuesMax: 10, histogramsMax: 10 });

/** In slices as small as there are. */
async function countAll(maxMs: number): Promise<number> {
  for (let calls = 1; calls < 2_000; calls += 1) {
    if ((await countActivity(database, leader, maxMs)) === 0) return calls;
  }
  throw new Error('it never ends');
}

test('everything that ended within the day is counted, once, however it is sliced', async () => {
  await ended(300, 200);
  await ended(40, 30, 'cancelled', 'other');
  await database.query(
    `insert into pgqueue.dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                                      payload_version, attributes, payload, errors)
     select gen_random_uuid(), 'mail', 't', '', 0, 'max_tries', 2, 2, 0, 3, now(), clock_timestamp() - interval '1 minute', 1, '{}', '{}', '[]'
     from generate_series(1, 7)`,
    [],
  );
  // a call goes on for a millisecond: how many it takes depends on the machine
  expect(await countAll(0.001)).toBeGreaterThan(3);
  const day = await read(900, 96);
  const sum = (of: 'done' | 'cancelled' | 'dead' | 'failures'): number =>
    day.buckets.reduce((all, bucket) => all + bucket[of], 0);
  expect([sum('done'), sum('cancelled'), sum('dead'), sum('failures')]).toEqual([300, 40, 7, 300 + 40 + 14]);
  expect(day.queues).toMatchObject([
    { queue: 'mail', done: 300, dead: 7 },
    { queue: 'other', cancelled: 40 },
  ]);
  const [waits, runs] = [day.queues[0]?.waits ?? {}, day.queues[0]?.runs ?? {}];
  expect(Object.values(waits).reduce((all, jobs) => all + jobs, 0)).toBe(300);
  // 2 s and 1 s: buckets 35 and 31 of 1.25^b ms
  expect([Object.keys(waits), Object.keys(runs)]).toEqual([['35'], ['31']]);
  const hour = await read(60, 60);
  expect(hour.buckets.reduce((all, { cancelled }) => all + cancelled, 0)).toBe(40);
  // nothing is counted twice
  await countAll(1_000);
  expect((await read(900, 96)).queues).toEqual(day.queues);
});

test('what ends later is added to its bucket, what ended before the last day is left out', async () => {
  await ended(10, 0);
  await countAll(1_000);
  await database.query(
    `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                                  attributes, payload)
     select gen_random_uuid(), 'mail', 't', '', 0, 'done', 0, 0, m.counted_to, m.counted_to, m.counted_to + interval '1 ms', 1, '{}', '{}'
     from pgqueue.activity_mark m, generate_series(1, 5)`,
    [],
  );
  await until('both to be counted', async () => {
    await countActivity(database, leader, 1_000);
    return (await read(900, 2)).queues[0]?.done === 15;
  });
  await database.query('delete from pgqueue.activity', []);
  await database.query(`update pgqueue.activity_mark set counted_to = '-infinity'`, []);
  await database.query(`update pgqueue.history set finished = finished - interval '26 hours'`, []);
  await countAll(1_000);
  expect((await read(900, 192)).buckets).toEqual([]);
});

test('only who leads counts, and one at a time', async () => {
  await expect(countActivity(database, { leader: 'other', epoch: leader.epoch }, 100)).rejects.toSatisfy(
    (error) => sqlState(error) === leadershipLostState,
  );
  await ended(1, 0);
  await database.transaction(async (client) => {
    await client.query('select from pgqueue.activity_mark for update');
    expect(await countActivity(database, leader, 100)).toBe(0);
  });
  expect((await read(60, 60)).countedTo).toBeNull();
});
