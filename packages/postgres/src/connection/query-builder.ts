import { Kysely, PostgresDialect } from 'kysely';
import type { PostgresPoolClient } from 'kysely';
import type { Executor } from './executor.ts';
import type { Tables } from './tables.ts';

/** Returns a query builder for the tables of a schema. Each of its statements goes through `query`. */
export function queryBuilder(schema: string, query: Executor['query']): Kysely<Tables> {
  const client = {
    query: async (text: string, values: readonly unknown[]) => ({ rows: await query(text, values) }),
    release: () => {},
  };
  const pool = {
    // kysely keeps a state for each client
    connect: () => Promise.resolve({ ...client } as unknown as PostgresPoolClient),
    end: () => Promise.resolve(),
    options: {},
  };
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) }).withSchema(schema);
}
