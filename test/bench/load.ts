// Load for the benchmarks of ticks: many waiting jobs, and a consumer that settles ready jobs as fast as SQL
// allows.
import { randomUUID } from 'node:crypto';
import type { Database } from '@pgqueue/postgres';
import { createHints, registerNode } from '@pgqueue/postgres/internal';

export interface Backlog {
  readonly jobs: number;
  readonly keys: number;
}

const chunk = 250_000;

/**
 * Fills QUEUE with jobs whose keys take turns. Resolves to the milliseconds that this took, and the size of
 * the table with its indexes.
 */
export async function fill(
  database: Database,
  { jobs, keys }: Backlog,
): Promise<{ readonly fillMs: number; readonly analyzeMs: number; readonly megabytes: number }> {
  const began = performance.now();
  for (let from = 0; from < jobs; from += chunk) {
    await database.query(
      `with quick as (select set_config('synchronous_commit', 'off', true))
       insert into pgqueue.queue (task, key, payload)
       select 'work', 'key-' || n % $3, '{"ms": 0}' from generate_series($1::bigint, $2::bigint - 1) n, quick`,
      [from, Math.min(jobs, from + chunk), keys],
    );
  }
  const filled = performance.now();
  await database.query('vacuum analyze pgqueue.queue', []);
  await database.query('checkpoint', []);
  const [size] = await database.query<{ mb: number }>(
    `select pg_total_relation_size('pgqueue.queue')::float8 / 1048576 as mb`,
    [],
  );
  return {
    fillMs: filled - began,
    analyzeMs: performance.now() - filled,
    megabytes: Math.round(size?.mb ?? 0),
  };
}

/** A node without handlers: it settles its jobs as done as soon as they are ready. */
export interface Consumer {
  readonly consumed: () => number;
  readonly stop: () => Promise<void>;
}

/**
 * A function, so that the consumer's round trips don't limit the scheduler. Deletes rows by index lookups
 * only.
 */
const ddl = `
  create schema if not exists bench;
  create or replace function bench.consume(p_from bigint, p_max integer) returns table (n integer, last bigint) language plpgsql
    set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  as $$
  declare
    v_ids uuid[];
    v_last bigint;
  begin
    perform set_config('synchronous_commit', 'off', true);
    with gone as (
      delete from pgqueue.work_queue w
      where w.position = any (array(
        select r.position from pgqueue.work_queue r where r.position >= p_from and r.task = 'work' order by r.position limit p_max for update skip locked))
      returning w.id, w.position)
    select array_agg(g.id), max(g.position) into v_ids, v_last from gone g;
    delete from pgqueue.queue q where q.id = any (v_ids);
    return query select coalesce(cardinality(v_ids), 0), v_last;
  end $$`;

/** Milliseconds between full scans, which find items behind the mark whose commit came late. */
const rescanEveryMs = 1_000;
const hourMs = 3_600_000;

export async function startConsumer(database: Database, slots: number): Promise<Consumer> {
  await database.pool.query(ddl);
  const node = 'bench-consumer';
  const incarnation = randomUUID();
  const range = { min: 1, max: 1, timeoutMs: null };
  await registerNode(database, {
    node,
    incarnation,
    tasks: { work: range, probe: range },
    slots,
    pool: 'default',
    heartbeatMs: hourMs / 2,
    lostAfterMs: hourMs,
    software: 'bench',
    seen: null,
  });
  const hints = createHints(database, database.schema, 'done', 2);
  let consumed = 0;
  const stopping = new AbortController();
  const loop = (async (): Promise<void> => {
    let from = 0;
    let rescanAt = 0;
    while (!stopping.signal.aborted) {
      const now = performance.now();
      if (now >= rescanAt) [from, rescanAt] = [0, now + rescanEveryMs];
      const [got] = await database.query<{ n: number; last: number | null }>(
        'select n, last::float8 as last from bench.consume($1, $2)',
        [from, slots],
      );
      if (got === undefined || got.n === 0) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        continue;
      }
      consumed += got.n;
      from = (got.last ?? 0) + 1;
      hints.send();
    }
  })();
  return {
    consumed: () => consumed,
    stop: async () => {
      stopping.abort();
      await loop;
      await hints.stop();
    },
  };
}

/** Calls of each SQL function since the server began to count, and their total milliseconds. */
export type FunctionTimes = ReadonlyMap<string, { readonly calls: number; readonly ms: number }>;

export async function countFunctions(database: Database): Promise<void> {
  await database.query(`alter system set track_functions = 'all'`, []);
  await database.query('select pg_reload_conf()', []);
}

export async function functionTimes(database: Database): Promise<FunctionTimes> {
  const rows = await database.query<{ name: string; calls: number; ms: number }>(
    `select funcname as name, sum(calls)::float8 as calls, sum(total_time) as ms
     from pg_stat_user_functions group by 1`,
    [],
  );
  return new Map(rows.map(({ name, calls, ms }) => [name, { calls, ms }]));
}

/** Returns the mean milliseconds of each function's calls between two counts, largest total first. */
export function meanTimes(
  before: FunctionTimes,
  after: FunctionTimes,
): Readonly<Record<string, { readonly calls: number; readonly meanMs: number }>> {
  const spent = [...after].map(([name, { calls, ms }]) => {
    const was = before.get(name) ?? { calls: 0, ms: 0 };
    return { name, calls: calls - was.calls, ms: ms - was.ms };
  });
  return Object.fromEntries(
    spent
      .filter(({ calls }) => calls > 0)
      .toSorted((a, b) => b.ms - a.ms)
      .slice(0, 8)
      .map(({ name, calls, ms }) => [name, { calls, meanMs: ms / calls }]),
  );
}
