import type { Database } from './database.ts';
import { queryBuilder } from './query-builder.ts';
import { checkSchemaVersion } from './schema.ts';

/**
 * Returns the same installation with a schema check before the first statement; a failed check is repeated
 * before the next one. Without the check, a mismatch would first show as "relation does not exist", or as a
 * change that this package does not know. Until the check succeeds, every statement rejects with
 * `schema_version`.
 */
export function checkedDatabase(database: Database): Database {
  const { schema } = database;
  let checked: Promise<unknown> | undefined;
  const ready = (): Promise<unknown> =>
    (checked ??= checkSchemaVersion(database, schema).catch((error: unknown) => {
      checked = undefined;
      throw error;
    }));
  const query: Database['query'] = async (text, values) => {
    await ready();
    return database.query(text, values);
  };
  return {
    ...database,
    kysely: queryBuilder(schema, query),
    query,
    transaction: async (work) => {
      await ready();
      return database.transaction(work);
    },
    copyIn: async (statement, chunks) => {
      await ready();
      return database.copyIn(statement, chunks);
    },
  };
}
