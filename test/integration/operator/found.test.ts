// Pages of found jobs, each of which reads fewer rows than there are: together they have every job that matches, once.
import type { FindFilter } from '@pgqueue/postgres/internal/dashboard';
import { countFound, findJobs, readWaitingKeys } from '@pgqueue/postgres/internal/dashboard';
import { beforeAll, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';

const { database, operator, reset, sql } = useDatabase();

const all = 60;
const since = new Date(Date.UTC(2026, 0, 2));

/** Inserts delayed jobs and jobs of a key, whose order by time, priority and queue is not that of their ids. */
beforeAll(async () => {
  await reset();
  const hex = [since.getTime() - 1, since.getTime()].map((ms) => ms.toString(16).padStart(12, '0'));
  const half = hex.map((time) => `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-`);
  await sql(
    `insert into pgqueue.queue (id, task, queue, run_after, priority, key)
     select (($1::text[])[i / $2 + 1] || lpad((2 * i + d)::text, 12, '0'))::uuid, case i % 2 when 0 then 'even' else 'odd' end,
            'q' || i * 7 % 3, case d when 0 then now() + (1 + i * 37 % 60) * interval '1 hour' end, i * 23 % 60, 'acme'
     from generate_series(0, 2 * $2::integer - 1) i, generate_series(0, 1) d`,
    [half, all / 2],
  );
});

async function pages(filter: FindFilter, walkMax: number): Promise<readonly string[]> {
  const ids: string[] = [];
  let after: string | undefined;
  do {
    const page = { limit: 4, walkMax, ...(after === undefined ? {} : { after }) };
    const found = await findJobs(database, { ...filter, ...page });
    ids.push(...found.ids);
    after = found.next ?? undefined;
  } while (after !== undefined);
  return ids;
}

const delayed: FindFilter = { status: 'delayed' };
const ofKey: FindFilter = { status: 'pending', key: 'acme' };

describe.each([
  ['delayed', delayed, all],
  ['delayed of a task', { ...delayed, task: 'odd' }, all / 2],
  ['delayed of a queue', { ...delayed, queue: 'q1' }, all / 3],
  ['delayed since', { ...delayed, since }, all / 2],
  ['delayed until', { ...delayed, until: since }, all / 2],
  ['of a key', ofKey, all],
  ['of a key and a task', { ...ofKey, task: 'even' }, all / 2],
  ['of a key and a queue', { ...ofKey, queue: 'q2' }, all / 3],
  ['of a key since', { ...ofKey, since }, all / 2],
  ['of a key without jobs', { status: 'pending', key: 'globex' }, 0],
] as const)('jobs %s', (_, filter, wanted) => {
  test.each([2, 5, 20, 21, 59, 60, 61, 1_000])('are all found by reads of %i rows', async (walkMax) => {
    const ids = await pages(filter, walkMax);
    expect(ids).toEqual(ids.toSorted().toReversed());
    expect({ found: ids.length, once: new Set(ids).size }).toEqual({ found: wanted, once: wanted });
    const { count, more } = await countFound(database, { ...filter, max: 100, walkMax });
    // a count that read fewer rows than there are says so
    expect({ count, more }).toEqual({ count: more ? count : wanted, more });
    expect(count).toBeLessThanOrEqual(wanted);
    expect(more && walkMax === 1_000).toBe(false);
  });
});

describe('a key in 1,100 queues', () => {
  beforeAll(() =>
    sql(
      `insert into pgqueue.queue (task, queue, key) select 'many', 'many-' || i, 'many' from generate_series(1, 1100) i`,
    ),
  );

  test('is found in all of them', async () => {
    const queues: string[] = [];
    let after: { readonly queue: string; readonly key: string } | undefined;
    do {
      const page = { key: 'many', limit: 300, countMax: 10, ...(after === undefined ? {} : { after }) };
      const { keys, next } = await readWaitingKeys(database, page);
      queues.push(...keys.map(({ queue }) => queue));
      after = next ?? undefined;
    } while (after !== undefined);
    expect({ found: queues.length, once: new Set(queues).size }).toEqual({ found: 1_100, once: 1_100 });
  });

  test('is cancelled in all of them', async () => {
    const filter = { key: 'many', status: 'pending' } as const;
    expect(await operator.jobs.count(filter)).toEqual({ count: 1_100, more: false });
    expect(await operator.jobs.cancelAll(filter)).toMatchObject({ cancelled: 1_100 });
    expect(await sql(`select from pgqueue.queue where key = 'many'`)).toEqual([]);
  });
});

test('of more delayed jobs than a page of a cancellation reads, all that match are cancelled', async () => {
  await sql(
    `insert into pgqueue.queue (task, run_after)
     select case i % 2 when 0 then 'meant' else 'not-meant' end, now() + interval '1 day' + i * 7919 % 12000 * interval '1 minute'
     from generate_series(1, 12000) i`,
  );
  const filter = { status: 'delayed', task: 'meant' } as const;
  expect(await operator.jobs.count(filter)).toEqual({ count: 6_000, more: false });
  expect(await operator.jobs.cancelAll(filter)).toMatchObject({ cancelled: 6_000 });
  expect(await operator.jobs.count(filter)).toEqual({ count: 0, more: false });
  expect(await sql(`select from pgqueue.queue where task = 'not-meant'`)).toHaveLength(6_000);
});
