// Jobs of batches, wherever jobs are listed and counted: each stands there as if it had a work item of its own.
import {
  countFound,
  findJobs,
  readBusyKeys,
  readDispatched,
  readWaitingKeys,
} from '@pgqueue/postgres/internal/dashboard';
import { beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';
import { lease } from '../../support/seed.ts';

const { database, operator, batch, insert, item, node, reset, sql } = useDatabase();

const key = 'acme';
let jobs: {
  readonly pending: string;
  readonly ready: readonly string[];
  readonly running: readonly string[];
};

beforeEach(async () => {
  await reset();
  await node('n');
  const [first = '', second = '', third = '', fourth = '', fifth = '', pending = ''] = await Promise.all(
    Array.from({ length: 6 }, () => insert({ key })),
  );
  // the front is where the leased batch begins, as a leader says it
  const front = await batch([first, second], lease('n'));
  await sql('insert into pgqueue.work_front (item, batch) values ($1, $1)', [front]);
  await batch([third, fourth]);
  await item(fifth, lease('n'));
  jobs = { pending, ready: [third, fourth], running: [first, second, fifth] };
});

const sorted = (ids: readonly string[]): readonly string[] => ids.toSorted();

describe('jobs of batches', () => {
  test.each(['pending', 'ready', 'running'] as const)('are listed as %s, where they are', async (status) => {
    const expected = sorted([jobs[status]].flat());
    const { items } = await operator.jobs.list({ status });
    expect(sorted(items.map(({ id }) => id))).toEqual(expected);
    expect(new Set(items.map((job) => job.status))).toEqual(new Set([status]));
    const found = await findJobs(database, { status, limit: 10, walkMax: 100 });
    expect(sorted(found.ids)).toEqual(expected);
    expect(await countFound(database, { status, max: 10, walkMax: 100 })).toEqual({
      count: expected.length,
      more: false,
    });
  });

  test('are found by their node, and by the key that they wait in', async () => {
    const options = { limit: 10, walkMax: 100 };
    const held = await findJobs(database, { node: 'n', unfinished: true, ...options });
    expect(sorted(held.ids)).toEqual(sorted(jobs.running));
    const waiting = await findJobs(database, { status: 'pending', key, ...options });
    expect(waiting.ids).toEqual([jobs.pending]);
  });

  test('count for their keys', async () => {
    const busy = await readBusyKeys(database, { windowMs: 60_000, jobsMax: 10 });
    expect(busy.keys).toMatchObject([{ key, running: 3 }]);
    const oldest = new Date(Date.now() - 60_000).toISOString();
    await sql('update pgqueue.queue set created = $2 where id <> all ($1)', [jobs.running, oldest]);
    const {
      keys: [waiting],
    } = await readWaitingKeys(database, { limit: 10, countMax: 100 });
    expect(waiting).toMatchObject({ key, waiting: 3 });
    expect(waiting?.oldestMs).toBeGreaterThanOrEqual(60_000);
    await sql('update pgqueue.queue set created = now()');
    await sql('update pgqueue.queue set created = $2 where id = any ($1)', [jobs.running, oldest]);
    const {
      keys: [young],
    } = await readWaitingKeys(database, { limit: 10, countMax: 100 });
    expect(young?.oldestMs).toBeLessThan(60_000);
    const top = await operator.top();
    expect(top.keys).toMatchObject([{ key, pending: 1, ready: 2, running: 3 }]);
    expect(top.totals).toMatchObject({ pending: 1, ready: 2, running: 3 });
  });

  test('run, each by itself, while their node holds one work item', async () => {
    const { slowest, everyNode } = await operator.top();
    expect(sorted(slowest.map(({ id }) => id))).toEqual(sorted(jobs.running));
    expect(everyNode).toMatchObject([{ id: 'n', leases: 2 }]);
    const [inBatch = ''] = jobs.ready;
    expect(await operator.jobs.get(inBatch)).toMatchObject({ status: 'ready', position: expect.any(Number) });
    expect(await readDispatched(database, inBatch)).toBeInstanceOf(Date);
    expect(await readDispatched(database, jobs.pending)).toBeUndefined();
  });
});
