// Traps of the field (docs/reliability.md, Traps) that no other file shows.
import { defineTask, implement } from '@pgqueue/core';
import { reap } from '@pgqueue/postgres/internal';
import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
afterEach(() => bench.clear());

const task = defineTask({ name: 'task', payload: z.object({}), timeout: '1h' });

async function inZone<Result>(zone: string, work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: bench.test.url, options: `-c TimeZone=${zone}` });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

test('no time is without its zone: a lease that a session in one zone takes is in time for one in another', async () => {
  const zoneless = await bench.sql(
    `select table_name, column_name from information_schema.columns
     where table_schema = 'pgqueue' and data_type in ('timestamp without time zone', 'time without time zone')
     union all
     select proname, 'argument or result' from pg_proc
     where pronamespace = 'pgqueue'::regnamespace
       and pg_get_function_arguments(oid) || ' ' || pg_get_function_result(oid) ~ 'timestamp without'
     union all
     select proname, 'body' from pg_proc
     where pronamespace = 'pgqueue'::regnamespace and prosrc ~* 'localtimestamp|::timestamp\\M'
       and proname <> 'maintain_history' -- names its partitions by days of UTC`,
  );
  expect(zoneless).toEqual([]);
  await bench.producer.enqueue(task, {});
  await bench.dispatch();
  await inZone('UTC', async (client) => {
    await client.query(
      `select pgqueue.register_node('n', '{"task": {"min": 1, "max": 1, "timeoutMs": 60000}}')`,
    );
    await client.query(`select pgqueue.claim('n', (select incarnation from pgqueue.node), 1)`);
  });
  for (const zone of ['Asia/Tokyo', 'America/Los_Angeles']) {
    const left = await inZone(zone, async (client) => {
      const { rows } = await client.query<{ reaped: number; left_s: number }>(
        `select (select count(*)::integer from pgqueue.reap()) as reaped,
                (select extract(epoch from lock_timeout - clock_timestamp())::float8 from pgqueue.work_queue) as left_s`,
      );
      return rows[0];
    });
    expect(left?.reaped).toBe(0);
    expect(left?.left_s).toBeGreaterThan(3_500);
    expect(left?.left_s).toBeLessThanOrEqual(3_600);
  }
  expect(await reap(bench.database)).toBe(0);
});

test('identities, which refused inserts use up, too, do not run out', async () => {
  const identities = await bench.sql(
    `select distinct data_type from information_schema.columns where table_schema = 'pgqueue' and is_identity = 'YES'`,
  );
  expect(identities).toEqual([{ data_type: 'bigint' }]);
});

test('no transaction is open while handlers run: vacuum waits for no job', async () => {
  const gate = Promise.withResolvers<void>();
  const worker = await bench.worker([implement(task, () => gate.promise)], { concurrency: 5 });
  await bench.producer.enqueueMany(Array.from({ length: 5 }, () => task.job({})));
  await bench.dispatch();
  await until('all to run', () => worker.running === 5);
  const open = (): Promise<readonly Record<string, unknown>[]> =>
    bench.sql(
      `select application_name, state, query from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and (state like 'idle in%' or backend_xmin is not null)`,
    );
  // a statement that is under way has a snapshot for its milliseconds; a transaction that waits for a handler has it until the end
  expect(await until('nothing to hold a snapshot', async () => (await open()).length === 0)).toBe(true);
  gate.resolve();
  await until('the end', () => worker.running === 0);
});
