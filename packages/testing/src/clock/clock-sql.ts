/**
 * SQL of a database's clock that can be put forward, without a change of what pgqueue runs. For one database,
 * functions in a schema searched before `pg_catalog` hide PostgreSQL's functions of the same names, which
 * tell the time. Production has neither.
 */
import type { Database } from '@pgqueue/postgres';

/** Schema of the clock. */
export const clockSchema = 'pgqueue_clock';

/**
 * Search path of sessions, which also read the time, beside pgqueue's functions. They begin with the path of
 * their database.
 */
const sessionPath = `"$user", public, ${clockSchema}, pg_catalog`;

const tables = `
  create schema if not exists ${clockSchema};
  create table if not exists ${clockSchema}.ahead (
    only_row boolean primary key default true check (only_row),
    by interval not null default interval '0' check (by >= interval '0')
  );
  insert into ${clockSchema}.ahead default values on conflict do nothing;
  grant usage on schema ${clockSchema} to public;`;

/** The functions that tell the time. `now` stays the beginning of the transaction, as in PostgreSQL. */
const functions = (
  [
    ['clock_timestamp', 'volatile'],
    ['statement_timestamp', 'stable'],
    ['transaction_timestamp', 'stable'],
    ['now', 'stable'],
  ] as const
)
  .map(
    ([name, kind]) => `
  create or replace function ${clockSchema}.${name}() returns timestamptz language sql ${kind} security definer
    set search_path = pg_catalog
    as 'select pg_catalog.${name}() + (select a.by from ${clockSchema}.ahead a)';`,
  )
  .join('');

/**
 * Returns SQL that binds pgqueue's schema to the clock. Functions look the names up when they run. Defaults
 * and views did so when they were made, and are made anew.
 */
function rebinding(schema: string): string {
  const path = `${schema}, ${clockSchema}, pg_catalog, pg_temp`;
  return `
  do $rebind$
  declare
    v_routine regprocedure;
    v_statement text;
    v_statements text[];
  begin
    for v_routine in
      select p.oid::regprocedure from pg_proc p where p.pronamespace = '${schema}'::regnamespace and p.prokind in ('f', 'p')
    loop
      execute format('alter routine %s set search_path to ${path}', v_routine);
    end loop;
    perform set_config('search_path', '${schema}, pg_catalog, pg_temp', true);
    select array_agg(s.statement) into v_statements from (
      select format('alter table %s alter column %I set default %s', d.adrelid::regclass, a.attname, pg_get_expr(d.adbin, d.adrelid))
             as statement
      from pg_attrdef d
      join pg_class c on c.oid = d.adrelid
      join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
      where c.relnamespace = '${schema}'::regnamespace and pg_get_expr(d.adbin, d.adrelid) ~ '(timestamp|now)\\(\\)'
      union all
      select format('create or replace view %s as %s', c.oid::regclass, pg_get_viewdef(c.oid))
      from pg_class c
      where c.relnamespace = '${schema}'::regnamespace and c.relkind = 'v' and pg_get_viewdef(c.oid) ~ '(timestamp|now)\\(\\)'
    ) s;
    perform set_config('search_path', '${path}', true);
    foreach v_statement in array coalesce(v_statements, '{}') loop
      execute v_statement;
    end loop;
  end
  $rebind$;`;
}

/**
 * Gives a database, and the pgqueue in one of its schemas, a clock that can be put forward. May be repeated,
 * and must be after a migration.
 */
export async function installClock(database: Database): Promise<void> {
  await database.transaction(async (client) => {
    await client.query("select pg_advisory_xact_lock(hashtextextended('pgqueue_clock', 0))");
    await client.query(tables + functions + rebinding(database.schema));
  });
}

/**
 * SQL that sets the search path of the database's sessions, which a copy of a database does not inherit. Counts for
 * sessions that begin afterwards, so run it on a connection of its own.
 */
export const pointSessions: string = `
  do $point$
  begin
    execute format('alter database %I set search_path to ${sessionPath}', current_database());
  end
  $point$;`;

/**
 * Puts the clock forward, to a time or by milliseconds. Leases of running jobs, heartbeats of nodes and the
 * scheduler's lease move along, since processes live in real time. Schedulers get a hint. Resolves to the new
 * time, in Unix milliseconds.
 */
export async function putForward(
  { transaction, schema }: Database,
  to: { readonly byMs: number } | { readonly toMs: number },
): Promise<number> {
  return transaction(async (client) => {
    const wanted =
      'byMs' in to
        ? '$1::float8'
        : `$1::float8 - extract(epoch from ${clockSchema}.clock_timestamp())::float8 * 1000`;
    const { rows } = await client.query<{ readonly ms: number }>(
      `select greatest(0, ceil(${wanted}))::float8 as ms from ${clockSchema}.ahead for update`,
      ['byMs' in to ? to.byMs : to.toMs],
    );
    const by = [rows[0]?.ms ?? 0];
    const interval = "$1::float8 * interval '1 millisecond'";
    const now = `${clockSchema}.clock_timestamp()`;
    await client.query(
      `update ${schema}.work_queue set lock_timeout = lock_timeout + ${interval} where lock_timeout > ${now}`,
      by,
    );
    await client.query(
      `update ${schema}.node set heartbeat = heartbeat + ${interval}
       where state in ('alive', 'draining') and heartbeat > ${now} - lost_after_ms * interval '1 millisecond'`,
      by,
    );
    await client.query(
      `update ${schema}.scheduler_lease set expires = expires + ${interval} where expires > ${now}`,
      by,
    );
    await client.query(`update ${schema}.reached set seen = seen + ${interval} where seen is not null`, by);
    await client.query(`update ${clockSchema}.ahead set by = by + ${interval}`, by);
    for (const channel of ['queue', 'flow']) {
      await client.query("select pg_notify($1, '')", [`${schema}:${channel}`]);
    }
    const time = await client.query<{ readonly ms: number }>(
      `select extract(epoch from ${now})::float8 * 1000 as ms`,
    );
    return time.rows[0]?.ms ?? 0;
  });
}
