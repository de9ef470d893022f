import pg from 'pg';
import type { Database } from '../connection/database.ts';
import { queryBuilder } from '../connection/query-builder.ts';

/** Role and time limit of statements. */
export interface RoleOptions {
  /** Role that the connection's user is a member of; null: the user itself. */
  readonly role: string | null;
  /** Time limit of a statement: the server cancels a longer one (SQLSTATE 57014). */
  readonly statementTimeoutMs: number;
}

/**
 * Returns the same database under another role. Every statement is a transaction of its own that begins with
 * `SET LOCAL ROLE`, so a pool that others use keeps its role, also behind a pooler in transaction mode. A
 * statement takes four round trips instead of one.
 */
export function asRole(database: Database, { role, statementTimeoutMs }: RoleOptions): Database {
  const settings = [
    `set local statement_timeout = ${Math.ceil(statementTimeoutMs)}`,
    // pages walk along indexes and stop: a bitmap, or a sort of all matches, would read a key's whole lane
    // for its first few jobs
    'set local jit = off; set local enable_bitmapscan = off; set local enable_seqscan = off',
    ...(role === null ? [] : [`set local role ${pg.escapeIdentifier(role)}`]),
  ].join('; ');
  const transaction: Database['transaction'] = (work) =>
    database.transaction(async (client) => {
      await client.query(settings);
      return work(client);
    });
  const query = <Row>(text: string, values: readonly unknown[]): Promise<Row[]> =>
    transaction(async (client) => (await client.query(text, [...values])).rows as Row[]);
  return {
    ...database,
    query,
    transaction,
    kysely: queryBuilder(database.schema, query),
  };
}

/** Returns those of the given roles that are missing, or that the connection's user is not a member of. */
export async function missingRoles(
  { query }: Database,
  roles: readonly string[],
): Promise<readonly string[]> {
  const rows = await query<{ role: string }>(
    `select n.role from unnest($1::text[]) n (role)
     left join pg_roles r on r.rolname = n.role
     where r.oid is null or not pg_has_role(current_user, r.oid, 'member')`,
    [roles],
  );
  return rows.map(({ role }) => role);
}
