import type { Database } from '../connection/database.ts';

/** One of the two tables that every job goes through, as the server's statistics have it. */
export interface HotTable {
  readonly table: 'queue' | 'work_queue';
  readonly liveRows: number;
  /** That vacuum has to remove, and may not where a session holds an old snapshot. */
  readonly deadRows: number;
  /** With indexes and what is stored out of line. */
  readonly bytes: number;
  /**
   * Of the table itself, what its live rows would not fill: dead rows, and room that is used again. An estimate; null: ANALYZE has not seen it
   * yet, or the role may not see the statistics of all columns.
   */
  readonly bloatBytes: number | null;
  /** How long ago vacuum went through it last; null: never. */
  readonly vacuumedMs: number | null;
}

/** Reads no row of them. */
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
