import type { Database } from '../connection/database.ts';
import { readOnlyDefault } from '../connection/session-defaults.ts';

/** Why a database takes no writes: a standby, or `default_transaction_read_only`. */
export type ReadOnly = 'standby' | 'default';

/**
 * Tells why the database takes no writes; null: it takes them. A default of this user alone counts only if
 * the user may enqueue: users who only look are often set so.
 */
export async function readReadOnly({ query, schema }: Database): Promise<ReadOnly | null> {
  const [row] = await query<{ readonly why: ReadOnly | null }>(
    `select case when pg_is_in_recovery() then 'standby'
       when current_setting('default_transaction_read_only') = 'on'
         and (has_any_column_privilege('${schema}.queue', 'insert')
              or exists (select from pg_settings where name = 'default_transaction_read_only'
                           and source in ('database', 'configuration file', 'command line')))
       then 'default' end as why`,
    [],
  );
  return row?.why ?? null;
}

/** Describes what follows, and what to do. */
export function readOnlyText(why: ReadOnly): string {
  return why === 'default'
    ? readOnlyDefault
    : 'this server is a standby, which only reads: nothing is enqueued, dispatched, run or settled through it; connect to the primary';
}
