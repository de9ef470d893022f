import type { Database } from '../database.ts';

/** What explaining one waiting job takes, read in one statement. */
export interface WaitFacts {
  readonly paused: boolean;
  readonly pool: string;
  readonly expired: boolean;
  readonly dueInMs: number | null;
  readonly startedAgoMs: number | null;
  readonly leaseEndsInMs: number | null;
  readonly leader: string | null;
  /** Live nodes of the pool, and those of them that can run the job. */
  readonly nodes: number;
  readonly capable: number;
  /** Slots of the capable nodes, and the work items that their pool has already. */
  readonly slots: number;
  readonly running: number;
  readonly ready: number;
  /** Ready items of the pool in front of this job's own. */
  readonly itemsAhead: number;
  /** Due jobs of the same queue and key that come first, counted up to 100,000; null while it is delayed. */
  readonly jobsAhead: number | null;
  readonly nodeState: string | null;
  readonly nodeBeatAgoMs: number | null;
  readonly cancelAsked: boolean;
}

export const aheadMax = 100_000;

/** Undefined where the job is not in QUEUE. The place in its key is served by queue_waiting. */
export async function readWaitFacts({ query, schema }: Database, id: string): Promise<WaitFacts | undefined> {
  const [row] = await query<WaitFacts>(
    `with one as (
       select q.id, q.queue, q.key, q.priority, q.seq, q.task, q.payload_version, q.run_after, q.expires_at,
              w.position, w.lock_key, w.lock_timeout, w.started, w.cancelled, coalesce(c.paused, false) as paused,
              coalesce(w.pool, c.pool, 'default') as pool, clock_timestamp() as now
       from ${schema}.queue q
       left join ${schema}.work_queue w on w.id = q.id
       left join ${schema}.queue_config c on c.queue = q.queue
       where q.id = $1::uuid),
     live as (
       select n.slots,
              coalesce(one.payload_version between (n.tasks -> one.task ->> 'min')::integer
                                               and (n.tasks -> one.task ->> 'max')::integer, false) as capable
       from one join ${schema}.node n on n.pool = one.pool and n.state = 'alive'
         and n.heartbeat > one.now - n.lost_after_ms * interval '1 millisecond')
     select one.paused, one.pool, coalesce(one.expires_at <= one.now, false) as expired,
            ms(one.run_after - one.now) as "dueInMs", ms(one.now - one.started) as "startedAgoMs",
            ms(one.lock_timeout - one.now) as "leaseEndsInMs",
            (select l.leader from ${schema}.scheduler_lease l where l.expires > one.now) as leader,
            (select count(*)::integer from live) as nodes,
            (select count(*)::integer from live where capable) as capable,
            (select coalesce(sum(slots), 0)::integer from live where capable) as slots,
            (select count(lock_key)::integer from ${schema}.work_queue w where w.pool = one.pool) as running,
            (select count(*)::integer from ${schema}.work_queue w where w.pool = one.pool and w.lock_key is null) as ready,
            (select count(*)::integer from ${schema}.work_queue w
             where w.pool = one.pool and w.lock_key is null and w.position < one.position) as "itemsAhead",
            case when one.run_after is null and one.lock_key is null then (
              select count(*)::integer from (
                select from ${schema}.queue a
                where a.run_after is null and a.queue = one.queue and a.key = one.key
                  and (a.priority, a.seq) < (one.priority, one.seq)
                  and (select w.id from ${schema}.work_queue w where w.id = a.id and w.lock_key is not null) is null
                limit ${aheadMax}) ahead) end as "jobsAhead",
            n.state as "nodeState", ms(one.now - n.heartbeat) as "nodeBeatAgoMs", one.cancelled is not null as "cancelAsked"
     from one left join ${schema}.node n on n.id = one.lock_key`.replaceAll(
      /\bms\(([^()]+)\)/g,
      'extract(epoch from $1)::float8 * 1000',
    ),
    [id],
  );
  return row;
}
