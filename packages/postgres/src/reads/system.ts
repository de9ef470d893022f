import type { Database } from '../connection/database.ts';

/** The present leader. */
export interface LeaderInfo {
  /** Null: no scheduler leads. */
  readonly leader: string | null;
  readonly epoch: number;
  readonly expiresInMs: number | null;
}

/** Reads the present leader, by the database's clock. */
export async function readLeader({ query, schema }: Database): Promise<LeaderInfo> {
  const [row] = await query<LeaderInfo>(
    `select case when expires > clock_timestamp() then leader end as leader, epoch::float8 as epoch,
            case when expires > clock_timestamp() then extract(epoch from expires - clock_timestamp())::float8 * 1000 end
              as "expiresInMs"
     from ${schema}.scheduler_lease`,
    [],
  );
  return row ?? { leader: null, epoch: 0, expiresInMs: null };
}

/** Waiting jobs that no live node can take. */
export interface UnservedJobs {
  readonly queue: string;
  readonly pool: string;
  readonly task: string;
  readonly payloadVersion: number;
  readonly jobs: number;
}

/**
 * Groups the due jobs of unpaused queues for which no live node of the pool has the task in that version;
 * returns the largest 20 groups. Uses the SQL function `waiting_tasks`: if more than 10,000 jobs wait, it
 * reads a sample and the oldest thousand, and `jobs` is the number found.
 */
export async function readUnserved({ query, schema }: Database): Promise<readonly UnservedJobs[]> {
  return query<UnservedJobs>(
    // what nodes serve is read once: thousands of groups times thousands of nodes took seconds
    `with served as materialized (
       select distinct n.pool, t.task, t.versions ->> 'min' as min, t.versions ->> 'max' as max
       from ${schema}.node n
         cross join lateral jsonb_each(case when jsonb_typeof(n.tasks) = 'object' then n.tasks end) as t (task, versions)
       where n.state = 'alive' and n.slots > 0
         and n.heartbeat > clock_timestamp() - n.lost_after_ms * interval '1 millisecond'
     )
     select g.queue, coalesce(c.pool, 'default') as pool, g.task, g.payload_version as "payloadVersion", g.jobs
     from (select queue, task, payload_version, jobs::integer as jobs from ${schema}.waiting_tasks()) g
     left join ${schema}.queue_config c on c.queue = g.queue
     where not coalesce(c.paused, false)
       and not exists (
         select from served s
         where s.pool = coalesce(c.pool, 'default') and s.task = g.task
           and g.payload_version between s.min::integer and s.max::integer)
     order by g.jobs desc, 1, 3 limit 20`,
    [],
  );
}

/** Session that holds vacuum back most: by a snapshot, or by an open transaction that has written. */
export interface OldestSnapshot {
  readonly pid: number;
  readonly application: string;
  readonly user: string | null;
  readonly state: string | null;
  /**
   * Time since its transaction began, in milliseconds; null if the role may not see it (it needs
   * pg_read_all_stats).
   */
  readonly ageMs: number | null;
}

export async function readOldestSnapshot({ query }: Database): Promise<OldestSnapshot | null> {
  const [row] = await query<OldestSnapshot>(
    `select pid, coalesce(application_name, '') as application, usename::text as "user", state,
            extract(epoch from clock_timestamp() - xact_start)::float8 * 1000 as "ageMs"
     from pg_stat_activity
     where coalesce(backend_xmin, backend_xid) is not null and pid <> pg_backend_pid() and datname = current_database()
       and usesysid is not null -- an autovacuum holds nothing back
     order by age(coalesce(backend_xmin, backend_xid)) desc, xact_start limit 1`,
    [],
  );
  return row ?? null;
}

/** Reads the newest applied migration. */
export async function readSchemaVersion({ query, schema }: Database): Promise<number> {
  const [row] = await query<{ version: number }>(
    `select coalesce(max(version), 0) as version from ${schema}.migration`,
    [],
  );
  return row?.version ?? 0;
}
