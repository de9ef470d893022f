import type { Database } from '../connection/database.ts';

/** Statistics of one of the two tables that every job passes through. */
export interface HotTable {
  readonly table: 'queue' | 'work_queue';
  readonly liveRows: number;
  /** Dead rows, which vacuum may not remove while a session holds an old snapshot. */
  readonly deadRows: number;
  /** Size with its indexes and out-of-line storage. */
  readonly bytes: number;
  /**
   * Part of the table itself that its live rows would not fill: dead rows, and free space for reuse. An
   * estimate; null if ANALYZE has not seen the table yet, or the role may not see the statistics of all
   * columns.
   */
  readonly bloatBytes: number | null;
  /** Time since vacuum last processed it, in milliseconds; null: never. */
  readonly vacuumedMs: number | null;
}

/** Reads the server's statistics, and no row of the tables. */
export async function readHotTables({ query, schema }: Database): Promise<readonly HotTable[]> {
  return query<HotTable>(
    `select t.relname::text as "table", t.n_live_tup::float8 as "liveRows", t.n_dead_tup::float8 as "deadRows",
            pg_total_relation_size(t.relid)::float8 as bytes,
            case when w.columns = (select count(*) from pg_attribute a where a.attrelid = t.relid and a.attnum > 0 and not a.attisdropped)
              then greatest(0, pg_relation_size(t.relid) - t.n_live_tup * (28 + w.bytes) * 100 / w.fillfactor)::float8 end as "bloatBytes",
            extract(epoch from clock_timestamp() - greatest(t.last_vacuum, t.last_autovacuum))::float8 * 1000 as "vacuumedMs"
     from pg_stat_user_tables t
     cross join lateral (
       select count(*) as columns, coalesce(sum(s.avg_width), 0) as bytes,
              coalesce((select substring(o from 'fillfactor=(.*)')::integer from pg_class c, unnest(c.reloptions) o
                        where c.oid = t.relid and o like 'fillfactor=%'), 100) as fillfactor
       from pg_stats s where s.schemaname = t.schemaname and s.tablename = t.relname) w
     where t.schemaname = $1 and t.relname in ('queue', 'work_queue') order by 1`,
    [schema],
  );
}
