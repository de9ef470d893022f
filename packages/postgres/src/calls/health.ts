import type { Target } from '../connection/target.ts';

/** Health of PostgreSQL, as far as this role may see it. */
export interface HealthReading {
  /** The database's clock, Unix milliseconds. */
  readonly readMs: number;
  /** The next transaction id, of which PostgreSQL compares the last 32 bits. */
  readonly nextXid: number;
  /**
   * The oldest transaction id whose rows vacuum must keep, because a snapshot may still need them; null:
   * none.
   */
  readonly oldestXid: number | null;
  /**
   * Milliseconds since its holder began. Null: the role may not see that (it needs pg_read_all_stats), or the
   * holder has no beginning (a slot).
   */
  readonly heldForMs: number | null;
  readonly deadRows: number | null;
  /** Null: the role may not see it. */
  readonly replicationLagMs: number | null;
}

/**
 * Reads the health of PostgreSQL. Reads only PostgreSQL's own views, and locks nothing. Holders of vacuum are
 * the snapshots and open transactions of this database's sessions, the snapshots of standbys that send
 * feedback, slots, and prepared transactions. An autovacuum is none; it is recognised by having no user,
 * since not every role may see the kind of a session.
 *
 * The lag is the one that a standby reports. If a standby has not answered for 10 s although it has something
 * to replay (a receiver answers at least that often), it is the time since its last answer.
 */
export async function readHealth({ query, schema }: Target): Promise<HealthReading> {
  const [row] = await query<HealthReading>(
    `with holders as (
       select coalesce(a.backend_xmin, a.backend_xid) as xid, a.xact_start as since
       from pg_stat_activity a
       where (a.datname = current_database() or a.datname is null) and a.pid <> pg_backend_pid()
         and a.usesysid is not null and coalesce(a.backend_xmin, a.backend_xid) is not null
       union all
       select s.xmin, null from pg_replication_slots s where s.xmin is not null
       union all
       select p.transaction, p.prepared from pg_prepared_xacts p where p.database = current_database()
     ), oldest as (
       select h.xid, h.since from holders h order by age(h.xid) desc, h.since limit 1
     ), standbys as (
       select r.state,
              greatest(extract(epoch from r.replay_lag),
                       case when r.replay_lsn < pg_current_wal_lsn() and r.reply_time < clock_timestamp() - interval '10 s'
                         then extract(epoch from clock_timestamp() - r.reply_time) end, 0) * 1000 as lag_ms
       from pg_stat_replication r
       where r.pid not in (select s.active_pid from pg_replication_slots s where s.slot_type = 'logical' and s.active_pid is not null)
     )
     select extract(epoch from clock_timestamp())::float8 * 1000 as "readMs",
            (pg_snapshot_xmax(pg_current_snapshot())::text::numeric % 4294967296)::float8 as "nextXid",
            (select xid::text::float8 from oldest) as "oldestXid",
            (select extract(epoch from clock_timestamp() - since)::float8 * 1000 from oldest) as "heldForMs",
            (pg_stat_get_dead_tuples('${schema}.queue'::regclass)
              + pg_stat_get_dead_tuples('${schema}.work_queue'::regclass))::float8 as "deadRows",
            (select case when count(*) filter (where state is null) > 0 then null
                    else coalesce(max(lag_ms) filter (where state in ('streaming', 'catchup')), 0)::float8 end
             from standbys) as "replicationLagMs"`,
    [],
  );
  if (row === undefined) throw new Error('the health of the database came back empty');
  return row;
}
