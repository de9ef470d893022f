import type { Database } from '../connection/database.ts';

/** Server statistics of a table. All partitions of history count as one table. */
export interface TableSize {
  readonly table: string;
  readonly liveRows: string;
  readonly deadRows: string;
  readonly bytes: string;
  readonly indexBytes: string;
  readonly lastVacuum: Date | null;
  readonly lastAnalyze: Date | null;
}

/**
 * Lists the tables of the schema, the largest first. Reads the server's statistics, and no row of the tables.
 */
export async function readTables({ query, schema }: Database): Promise<readonly TableSize[]> {
  return query<TableSize>(
    `select case when s.relname like 'history\\_%' then 'history' else s.relname::text end as "table",
            sum(s.n_live_tup)::bigint::text as "liveRows", sum(s.n_dead_tup)::bigint::text as "deadRows",
            sum(pg_total_relation_size(s.relid))::bigint::text as bytes, sum(pg_indexes_size(s.relid))::bigint::text as "indexBytes",
            max(greatest(s.last_vacuum, s.last_autovacuum)) as "lastVacuum",
            max(greatest(s.last_analyze, s.last_autoanalyze)) as "lastAnalyze"
     from pg_stat_user_tables s where s.schemaname = $1 group by 1 order by sum(pg_total_relation_size(s.relid)) desc, 1`,
    [schema],
  );
}

/** State of the server, and of history. */
export interface ServerInfo {
  readonly now: Date;
  readonly version: string;
  readonly connections: number;
  readonly connectionsMax: number;
  /** Days up to today, in UTC, that history has a partition for. Those of coming days are made ahead. */
  readonly days: number;
  /** The first of them. */
  readonly oldestDay: Date | null;
  /** Rows of history for which no day's partition existed, by the server's statistics. */
  readonly inDefault: number;
}

/** Reads the state of the server. */
export async function readServer({ query, schema }: Database): Promise<ServerInfo | undefined> {
  const [row] = await query<ServerInfo>(
    `select clock_timestamp() as now, current_setting('server_version') as version,
            (select count(*)::integer from pg_stat_activity where backend_type = 'client backend') as connections,
            current_setting('max_connections')::integer as "connectionsMax",
            p.days, (p.oldest::timestamp at time zone 'UTC') as "oldestDay",
            coalesce(pg_stat_get_live_tuples(to_regclass($1)), 0)::integer as "inDefault"
     from (select count(*)::integer as days, min(d.day) as oldest
           from (select to_date(right(c.relname, 8), 'YYYYMMDD') as day from pg_inherits i join pg_class c on c.oid = i.inhrelid
                 where i.inhparent = to_regclass($2) and c.relname ~ '^history_[0-9]{8}$') d
           where d.day <= (clock_timestamp() at time zone 'UTC')::date) p`,
    [`${schema}.history_default`, `${schema}.history`],
  );
  return row;
}

/** State that a policy keeps from plan to plan. */
export interface SavedState {
  readonly part: string;
  readonly saved: Date;
  readonly bytes: number;
  /** Null: larger than the requested limit. */
  readonly state: unknown;
}

/** Reads the saved states of policies; a state whose JSON exceeds `bytesMax` bytes is null. */
export async function readPolicyStates(
  { query, schema }: Database,
  bytesMax: number,
): Promise<readonly SavedState[]> {
  return query<SavedState>(
    `select s.part, s.saved, s.bytes, case when s.bytes <= $1 then s.state end as state
     from (select p.part, p.saved, p.state, octet_length(p.state::text) as bytes from ${schema}.policy_state p) s order by s.part`,
    [bytesMax],
  );
}

/** Reads the database's clock. */
export async function readClock({ query }: Database): Promise<Date> {
  const [row] = await query<{ now: Date }>('select clock_timestamp() as now', []);
  return row?.now ?? new Date();
}
