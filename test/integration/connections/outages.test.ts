import { lead, loseNodes } from '@pgqueue/postgres/internal';
import { beforeEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { openGround } from '../sql/support.ts';

const ground = opened(openGround);

beforeEach(() => ground.reset());

const silentFor = (time: string): Promise<unknown> =>
  ground.sql(`update pgqueue.node set heartbeat = clock_timestamp() - interval '${time}'`);
const reachedSince = (since: string, seen: string): Promise<unknown> =>
  ground.sql(
    `update pgqueue.reached set since = clock_timestamp() - interval '${since}', seen = clock_timestamp() - interval '${seen}'`,
  );
const lost = async (): Promise<readonly string[]> =>
  (await loseNodes(ground.database, ground.leader())).map(({ node }) => node);

test('a node that was silent while the server was away is given its whole time to beat again', async () => {
  const node = await ground.node('n1', { lostAfterMs: 30_000 });
  await ground.running(node);
  await silentFor('1 hour');
  // the schedulers were away as long, and are back: not in time, by a lease of 5 s
  await reachedSince('2 days', '1 hour');
  await lead(ground.database, 'other', 5_000);
  expect(await lost()).toEqual([]);
  // nobody has come yet since the crash, or the promotion
  await ground.sql('truncate pgqueue.reached');
  expect(await lost()).toEqual([]);
  await lead(ground.database, 'other', 5_000);
  expect(await lost()).toEqual([]);
  await reachedSince('31 seconds', '1 second');
  expect(await lost()).toEqual(['n1']);
  await ground.sound();
});

test('a scheduler that asks in time, leader or not, makes no outage', async () => {
  await ground.node('n1', { lostAfterMs: 30_000 });
  await silentFor('1 minute');
  await reachedSince('1 day', '4 seconds');
  await lead(ground.database, 'other', 60_000);
  expect(await lost()).toEqual(['n1']);
});

test('a clock that goes ahead is an outage; one that goes back makes heartbeats of the future count from now', async () => {
  await ground.node('n1', { lostAfterMs: 30_000 });
  await silentFor('1 day');
  await reachedSince('2 days', '1 day');
  await lead(ground.database, 'other', 5_000);
  expect(await lost()).toEqual([]);

  await silentFor('-2 hours');
  await reachedSince('-1 hour', '-2 hours');
  await lead(ground.database, 'other', 5_000);
  const ahead = await ground.one(
    'select extract(epoch from heartbeat - clock_timestamp())::float8 from pgqueue.node',
  );
  expect(ahead).toBeLessThanOrEqual(0);
  expect(
    await ground.one(
      'select extract(epoch from clock_timestamp() - since)::float8 < 10 from pgqueue.reached',
    ),
  ).toBe(true);
  await silentFor('31 seconds');
  await reachedSince('31 seconds', '0');
  expect(await lost()).toEqual(['n1']);
});

test('a step back of less than a second changes nothing', async () => {
  await ground.node('n1', { lostAfterMs: 30_000 });
  await silentFor('1 minute');
  await reachedSince('1 day', '-0.5 seconds');
  await lead(ground.database, 'other', 5_000);
  expect(await lost()).toEqual(['n1']);
});

test("a leader's lease that ends later than it could, by its length, is over: the clock was set back", async () => {
  const given = (ends: string): Promise<unknown> =>
    ground.sql(
      `update pgqueue.scheduler_lease set leader = 'gone', lease_ms = 5000, epoch = 7, expires = clock_timestamp() + interval '${ends}'`,
    );
  await given('9 seconds');
  expect(await lead(ground.database, 'next', 5_000)).toMatchObject({
    leads: false,
    leader: 'gone',
    epoch: 7,
  });
  // whoever holds it renews it, and goes on
  await given('2 hours');
  expect(await lead(ground.database, 'gone', 5_000)).toMatchObject({ leads: true, epoch: 7 });
  await given('2 hours');
  expect(await lead(ground.database, 'next', 5_000)).toMatchObject({ leads: true, epoch: 8 });
  // of a version that did not say how long it is
  await given('2 hours');
  await ground.sql('update pgqueue.scheduler_lease set lease_ms = null');
  expect(await lead(ground.database, 'next', 5_000)).toMatchObject({ leads: false, leader: 'gone' });
});

test('a lease that somebody has made without an end keeps nobody from leading, one of great length is told', async () => {
  const made = (columns: string): Promise<unknown> =>
    ground.sql(`update pgqueue.scheduler_lease set leader = 'gone', epoch = 7, ${columns}`);
  await made("expires = 'infinity', lease_ms = null");
  expect(await lead(ground.database, 'next', 5_000)).toMatchObject({ leads: true, epoch: 8 });
  await made("expires = clock_timestamp() + interval '1 hour', lease_ms = 2147483647");
  expect(await lead(ground.database, 'next', 5_000)).toMatchObject({ leads: false, leader: 'gone' });
});
