import type { RawBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';
import { hasItem } from '../reads/items.ts';

/** Worker time of a key of a queue. */
export interface BusyKey {
  readonly queue: string;
  readonly key: string;
  readonly running: number;
  readonly done: number;
  /** Time of ended attempts, and of running ones so far, in milliseconds. */
  readonly busyMs: number;
}

/** Recent worker time by key. */
export interface BusyKeys {
  readonly now: Date;
  /** Start of the window; `jobs` is the number of jobs that ended since, and were read. */
  readonly from: Date;
  readonly jobs: number;
  /** Keys of all queues that used worker time, the busiest first. */
  readonly keys: readonly BusyKey[];
}

/** Window and limits of a reading. */
export interface BusyKeysOptions {
  readonly windowMs: number;
  readonly jobsMax: number;
}

/** A key with jobs that wait for their turn, or are ready. */
export interface WaitingKey {
  readonly queue: string;
  readonly key: string;
  readonly waiting: number;
  /** There are more jobs: the count stopped at its limit. */
  readonly more: boolean;
  readonly oldestMs: number | null;
}

/**
 * Reads the worker time by key: of the jobs that ended within `windowMs`, the latest `jobsMax` at most, and
 * of the running ones. Served by history_finished, read backwards.
 */
export async function readBusyKeys(
  { query, schema }: Database,
  { windowMs, jobsMax }: BusyKeysOptions,
): Promise<BusyKeys> {
  // a job that ended without a start used none; greatest() would take the start of the window for its start
  const rows = await query<{ now: Date; from: Date; jobs: number; keys: BusyKey[] }>(
    `with seen as materialized (
       select h.queue, h.key, h.started, h.finished from ${schema}.history h
       where h.finished > statement_timestamp() - $2::float8 * interval '1 ms' order by h.finished desc limit $1
     ),
     since as materialized (
       select case when (select count(*) from seen) < $1 then statement_timestamp() - $2::float8 * interval '1 ms'
                   else (select min(s.finished) from seen s) end as at
     ),
     parts as (
       select s.queue, s.key, 0 as running, 1 as done,
              case when s.started is null then 0
                   else extract(epoch from s.finished - greatest(s.started, c.at))::float8 * 1000 end as busy_ms
       from seen s, since c
       union all
       select q.queue, q.key, 1, 0, greatest(0, extract(epoch from statement_timestamp() - greatest(w.started, c.at))::float8 * 1000)
       from since c, (select w.id, w.started from ${schema}.work_item w where w.lock_key is not null offset 0) w
       cross join lateral (select q.queue, q.key from ${schema}.queue q where q.id = w.id offset 0) q
     )
     select statement_timestamp() as now, (select at from since) as "from", (select count(*) from seen)::integer as jobs,
            coalesce((select jsonb_agg(jsonb_build_object('queue', k.queue, 'key', k.key, 'running', k.running, 'done', k.done,
                                                          'busyMs', k.busy_ms))
                      from (select p.queue, p.key, sum(p.running) as running, sum(p.done) as done, sum(p.busy_ms) as busy_ms
                            from parts p group by 1, 2 order by 5 desc) k), '[]') as keys`,
    [jobsMax, windowMs],
  );
  return rows[0] ?? { now: new Date(0), from: new Date(0), jobs: 0, keys: [] };
}

/** One page of waiting keys. */
export interface WaitingKeysOptions {
  readonly queue?: string;
  readonly key?: string;
  /** Only keys after this one. */
  readonly after?: { readonly queue: string; readonly key: string };
  readonly limit: number;
  /** Limit of each key's count. */
  readonly countMax: number;
}

/** A page of waiting keys, and where the next one begins; null: there is none. */
export interface WaitingKeys {
  readonly keys: readonly WaitingKey[];
  readonly next: { readonly queue: string; readonly key: string } | null;
}

/** Queues in which one page looks for a key. */
const queuesMax = 1_000;

/**
 * Lists waiting keys in the order of queue and key, by a skip scan along queue_waiting. `waiting` counts
 * neither running nor delayed jobs. A key is looked for in 1,000 queues a page, however few have it.
 */
export async function readWaitingKeys(
  database: Database,
  { queue, key, after, limit, countMax }: WaitingKeysOptions,
): Promise<WaitingKeys> {
  if (key === undefined) {
    const lanes = await readLanes(database, { queue, after, limit });
    const next = lanes.length >= limit ? lanes.at(-1) : undefined;
    return { keys: await countWaiting(database, lanes, countMax), next: next ?? null };
  }
  const queues = queue === undefined ? await readWaitingQueues(database, after?.queue) : [queue];
  const lanes = queues.map((name) => ({ queue: name, key }));
  const found = (await countWaiting(database, lanes, countMax)).filter(({ waiting }) => waiting > 0);
  const keys = found.slice(0, limit);
  const next = found.length > limit ? keys.at(-1) : lanes[queuesMax - 1];
  return { keys, next: next ?? null };
}

/** Lists keys with due jobs, in the order of queue and key. Each costs one step along an index. */
export async function readLanes(
  { query, schema }: Database,
  {
    queue,
    after,
    limit,
  }: {
    readonly queue?: string | undefined;
    readonly after?: WaitingKeysOptions['after'] | undefined;
    readonly limit: number;
  },
): Promise<readonly { readonly queue: string; readonly key: string }[]> {
  return query<{ queue: string; key: string }>(
    `with recursive lanes (queue, key, n) as (
       (select q.queue, q.key, 1 from ${schema}.queue q
        where q.run_after is null and ($1::text is null or q.queue = $1) and (q.queue, q.key) > ($2, $3)
        order by q.queue, q.key limit 1)
       union all
       select x.queue, x.key, l.n + 1
       from lanes l cross join lateral (
         select q.queue, q.key from ${schema}.queue q
         where q.run_after is null and ($1::text is null or q.queue = $1) and (q.queue, q.key) > (l.queue, l.key)
         order by q.queue, q.key limit 1) x
       where l.n < $4)
     select l.queue, l.key from lanes l`,
    // a queue's name is never empty, so '' comes before all of them; within one queue, its keys begin at ''
    [queue ?? null, after?.queue ?? '', after?.key ?? '', limit],
  );
}

/** Counts the waiting jobs of lanes, in the given order; a lane without any has 0. */
export async function countWaiting(
  { query, schema }: Database,
  lanes: readonly { readonly queue: string; readonly key: string }[],
  countMax: number,
): Promise<readonly WaitingKey[]> {
  if (lanes.length === 0) return [];
  return query<WaitingKey>(
    `with runs as materialized (
       select q.queue, q.key, count(*) as jobs
       from (select w.id from ${schema}.work_item w where w.lock_key is not null offset 0) w
       cross join lateral (select q.queue, q.key from ${schema}.queue q where q.id = w.id offset 0) q
       group by 1, 2
     )
     select l.queue, l.key, greatest(0, c.jobs - coalesce(r.jobs, 0))::integer as waiting, c.jobs > $3 as more,
            extract(epoch from clock_timestamp() - o.created)::float8 * 1000 as "oldestMs"
     from unnest($1::text[], $2::text[]) with ordinality l (queue, key, n)
     cross join lateral (
       select count(*) as jobs from (
         select from ${schema}.queue q where q.run_after is null and q.queue = l.queue and q.key = l.key
         order by q.queue, q.key, q.priority, q.seq limit $3 + 1) c) c
     left join runs r on r.queue = l.queue and r.key = l.key
     left join lateral (
       select q.created from ${schema}.queue q
       where q.run_after is null and q.queue = l.queue and q.key = l.key
         and not ${hasItem(schema, { id: 'q.id', running: true })}
       order by q.queue, q.key, q.priority, q.seq limit 1) o on true
     order by l.n`,
    [lanes.map(({ queue }) => queue), lanes.map(({ key }) => key), countMax],
  );
}

async function readWaitingQueues(database: Database, after?: string): Promise<readonly string[]> {
  const { rows } = await sql<{ queue: string }>`
    select n.queue from (${waitingQueues(database, after)}) n limit ${queuesMax}`.execute(database.kysely);
  return rows.map(({ queue }) => queue);
}

/** Returns SQL for the names of queues with due jobs, in their order. Each costs one step along an index. */
export function waitingQueues({ schema }: Database, after = ''): RawBuilder<{ queue: string }> {
  const jobs = sql.table(`${schema}.queue`);
  return sql`with recursive names as (
      (select q.queue from ${jobs} q where q.run_after is null and q.queue > ${after} order by q.queue limit 1)
      union all
      select (select q.queue from ${jobs} q where q.run_after is null and q.queue > n.queue order by q.queue limit 1)
      from names n where n.queue is not null)
    select n.queue from names n where n.queue is not null`;
}
