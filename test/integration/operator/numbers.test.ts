import { createOperator } from '@pgqueue/postgres';
import { openDatabase, readStatus } from '@pgqueue/postgres/internal';
import type { Status } from '@pgqueue/postgres';
import { beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';

const own = useDatabase({ connectionsMax: 1 });
const { database, reset, sql, insert, run, die, item } = own;

beforeEach(reset);

/** As rows of `queue_status`, so that all of it can be compared; ages are of different moments. */
function asRows({ queues }: Status): readonly object[] {
  return queues.map((queue) => ({
    queue: queue.queue,
    exact: queue.exact,
    delayed: String(queue.delayed),
    pending: String(queue.pending),
    ready: String(queue.ready),
    running: String(queue.running),
    dead: String(queue.dead),
    retry_rate: queue.retryRate,
    done_5m: String(queue.done5m),
    dead_5m: String(queue.dead5m),
  }));
}

/** Counted the plain way, one status after the other. */
async function counted(): Promise<readonly object[]> {
  return sql(`select queue, count(*) filter (where status = 'delayed') as delayed, count(*) filter (where status = 'pending') as pending,
                     count(*) filter (where status = 'ready') as ready, count(*) filter (where status = 'running') as running,
                     count(*) filter (where status = 'dead') as dead
              from pgqueue.job group by queue order by queue`);
}

async function many(queue: string, jobs: number, runAfter: string | null = null): Promise<void> {
  await sql(
    `insert into pgqueue.queue (task, queue, key, run_after, created)
     select 'hello', $1, (n % 7)::text, $3::timestamptz, clock_timestamp() - interval '1 hour' + n * interval '1 second'
     from generate_series(1, $2) n`,
    [queue, jobs, runAfter],
  );
  // a truncation that is told to the statistics after the vacuum would make them forget what it saw
  await sql('select pg_stat_force_next_flush()');
  await sql('vacuum analyze pgqueue.queue');
}

/** With so few that are counted, a handful of jobs is many. */
async function numbers(max: number): Promise<readonly Readonly<Record<string, unknown>>[]> {
  return sql('select * from pgqueue.queue_numbers($1) order by queue', [max]);
}

describe('of jobs in every state', () => {
  beforeEach(async () => {
    for (const queue of ['mail', 'video']) {
      const ended = [await insert({ queue }), await insert({ queue })];
      const token = await run('n', ended);
      await sql(
        `select * from pgqueue.settle($1::uuid[], array_fill($2::uuid, array[2]), '{done, retry}', '{null, 0}', '{null, null}')`,
        [ended, token],
      );
      await die({ queue });
      await insert({ queue });
      await insert({ queue, run_after: '2999-01-01T00:00:00Z' });
      await run('n', [await insert({ queue, created: new Date(Date.now() - 60_000) })]);
    }
    for (const queue of ['mail', 'mail', 'video']) await item(await insert({ queue }));
    await sql(`insert into pgqueue.queue_config (queue, paused) values ('idle', true)`);
  });

  test('status, the views, and what is counted the plain way agree', async () => {
    const status = await readStatus(database);
    const rows = await sql('select * from pgqueue.queue_status order by queue');
    expect(rows).toMatchObject([...asRows(status)]);
    for (const [index, { oldestMs, claimAgeMs }] of status.queues.entries()) {
      expect(rows[index]?.['oldest_s'] ?? -1).toBeCloseTo((oldestMs ?? -1_000) / 1_000, -1);
      expect(rows[index]?.['claim_age_s'] ?? -1).toBeCloseTo((claimAgeMs ?? -1_000) / 1_000, -1);
    }
    expect(rows.filter(({ queue }) => queue !== 'idle')).toMatchObject([...(await counted())]);
    expect(rows.map(({ queue }) => queue)).toEqual(['idle', 'mail', 'video']);
    expect(rows.every(({ exact }) => exact)).toBe(true);
    expect(status.queues[1]).toMatchObject({
      delayed: 2,
      pending: 1,
      ready: 2,
      running: 1,
      dead: 1,
      retryRate: 0.5,
    });
    const { totals, leader, nodes } = status;
    const [overview] = await sql('select * from pgqueue.overview');
    expect(overview).toMatchObject({
      exact: totals.exact,
      delayed: String(totals.delayed),
      pending: String(totals.pending),
      ready: String(totals.ready),
      running: String(totals.running),
      dead: String(totals.dead),
      oldest_s: expect.closeTo((totals.oldestMs ?? 0) / 1_000, -1),
      claim_age_s: expect.closeTo((totals.claimAgeMs ?? 0) / 1_000, -1),
      retry_rate: totals.retryRate,
      leader: leader.leader,
      alive_nodes: String(nodes.alive),
      slots: String(nodes.slots),
    });
    expect(totals).toMatchObject({ delayed: 4, pending: 2, ready: 3, running: 2, dead: 2, retryRate: 0.5 });
  });

  test('a job that runs is no old one that waits', async () => {
    const { totals } = await readStatus(database);
    expect(totals.oldestMs).toBeLessThan(50_000);
    expect(totals.claimAgeMs).toBeLessThan(50_000);
  });
});

describe('of more jobs than are counted', () => {
  test('small queues are counted, large ones estimated, and it is said which', async () => {
    await many('big', 2_000);
    await many('mid', 900);
    await many('small', 9);
    await many('later', 40, '2999-01-01T00:00:00Z');
    const rows = await numbers(100);
    expect(rows).toMatchObject([
      { queue: 'big', exact: false, delayed: '0', ready: '0' },
      { queue: 'later', exact: true, delayed: '40', pending: '0', oldest_s: null },
      { queue: 'mid', exact: false },
      { queue: 'small', exact: true, pending: '9' },
    ]);
    const jobs = Object.fromEntries(rows.map(({ queue, pending }) => [queue, Number(pending)]));
    expect(jobs['big']).toBeCloseTo(2_000, -1);
    expect(jobs['mid']).toBeCloseTo(900, -1);
    const [{ oldest_s: oldest }] = rows as [{ oldest_s: number }];
    expect(oldest).toBeGreaterThan(3_500);
    expect(await numbers(10_000)).toMatchObject([
      { exact: true, pending: '2000' },
      {},
      { pending: '900' },
      {},
    ]);
  });

  test('delayed ones, too', async () => {
    await many('later', 500, '2999-01-01T00:00:00Z');
    await many('now', 5);
    const [later, now] = await numbers(100);
    expect(later).toMatchObject({ queue: 'later', exact: false });
    expect(Number(later?.['delayed'])).toBeCloseTo(500, -1);
    expect(now).toMatchObject({ queue: 'now', exact: true, pending: '5', delayed: '0' });
  });

  test('work items and running jobs are taken off what is pending', async () => {
    await many('big', 500);
    const ids = (await sql('select id from pgqueue.queue order by seq limit 3')).map(({ id }) => String(id));
    await run('n', ids.slice(0, 2));
    await item(ids[2] ?? '');
    const [big] = await numbers(100);
    expect(big).toMatchObject({ exact: false, ready: '1', running: '2' });
    expect(Number(big?.['pending'])).toBeCloseTo(497, -1);
  });

  test('without statistics the sample alone is enough', async () => {
    await many('big', 500);
    await sql('select pg_stat_reset()');
    const [big] = await numbers(100);
    expect(Number(big?.['pending'])).toBeCloseTo(500, -1);
  });

  test('where vacuum is held back, indexes are not walked along', async () => {
    await many('big', 3_000);
    const other = openDatabase({ connectionString: own.url });
    const holder = await other.pool.connect();
    await holder.query('begin isolation level repeatable read');
    await holder.query('select 1 from pgqueue.queue limit 1');
    await sql(
      `delete from pgqueue.queue where seq not in (select seq from pgqueue.queue order by seq desc limit 400)`,
    );
    await sql('vacuum pgqueue.queue');
    const [big] = await numbers(100);
    await holder.query('rollback');
    holder.release();
    await other.close();
    expect(big).toMatchObject({ exact: false });
    expect(Number(big?.['pending'])).toBeCloseTo(400, -1);
  });

  test('what no node runs is found among the oldest, however many others wait', async () => {
    await sql(`insert into pgqueue.queue (task) values ('nobody-runs-it')`);
    await many('big', 500);
    const tasks = await sql('select * from pgqueue.waiting_tasks(100) order by task');
    expect(tasks).toMatchObject([
      { task: 'hello' },
      { queue: 'default', task: 'nobody-runs-it', payload_version: 1, jobs: '1' },
    ]);
  });

  test('dead letters, and rates over a shorter time', async () => {
    await sql(
      `insert into pgqueue.dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                                        payload_version, attributes, payload, errors)
       select pgqueue.uuid_v7(), 'q', 'hello', '', 0, 'max_tries', 1, 1, 0, 3, now(), now() - interval '1 day', 1, '{}', '{}', '[]'
       from generate_series(1, 300)`,
    );
    await sql(
      `insert into pgqueue.history (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version,
                                    attributes, payload)
       select pgqueue.uuid_v7(), 'q', 'hello', '', 0, 'done', (n <= 100)::integer, 0, now(), clock_timestamp() - n * interval '0.5 second', 1,
              '{}', '{}'
       from generate_series(1, 500) n`,
    );
    await sql('vacuum analyze pgqueue.dead_letter');
    const [row] = await numbers(100);
    expect(row).toMatchObject({ queue: 'q', exact: false, failed: '100', attempts: '200' });
    expect(Number(row?.['dead'])).toBeCloseTo(300, -1);
    expect(Number(row?.['window_s'])).toBeCloseTo(50, -1);
    expect(await numbers(1_000)).toMatchObject([
      { done: '500', failed: '100', attempts: '600', window_s: 300 },
    ]);
  });

  test('status says what is an estimate, and reads a bounded part of the table', async () => {
    await many('big', 40_000);
    await many('small', 10);
    const operator = createOperator({ pool: database.pool });
    const { queues, totals } = await operator.status();
    expect(queues).toMatchObject([
      { queue: 'big', exact: false, ready: 0 },
      { queue: 'small', exact: true, pending: 10 },
    ]);
    expect(totals.exact).toBe(false);
    expect(totals.pending / 40_010).toBeCloseTo(1, 1);
    // the one session's own counters
    const read = async (): Promise<number> =>
      Number(
        (
          await sql(
            `select seq_tup_read + idx_tup_fetch as n from pg_stat_xact_user_tables where relname = 'queue'`,
          )
        )[0].n,
      );
    await sql('begin');
    const before = await read();
    await sql('select * from pgqueue.overview');
    const tuples = (await read()) - before;
    await sql('rollback');
    expect(tuples).toBeGreaterThan(1_000);
    expect(tuples).toBeLessThan(35_000);
  });
});
