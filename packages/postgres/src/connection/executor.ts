import { PgQueueError } from '@pgqueue/core';

/**
 * Anything that can run one SQL statement with `$1` parameters: a pool, a client, or a transaction of another
 * library (see the adapters). Parameters are strings, numbers, booleans, null, and arrays of them. Values
 * that a driver might encode in its own way (JSON, dates) are passed as text and cast in the statement.
 */
export interface Executor {
  readonly query: <Row>(text: string, values: readonly unknown[]) => Promise<readonly Row[]>;
}

/** The part of `pg`'s Pool, Client and PoolClient that is used. */
export interface PgQueryable {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
}

/**
 * Returns an executor for an executor, or for a pool or client of `pg`. `pg` answers with an object that has
 * rows, an executor with the rows.
 * @throws {PgQueueError} `configuration` for another library's transaction without its adapter
 */
export function toExecutor(given: { query(text: string, values: unknown[]): Promise<unknown> }): Executor {
  const { query } = (given ?? {}) as { readonly query?: unknown };
  if (typeof query !== 'function') {
    throw new PgQueueError(
      'configuration',
      "this runs no statements: give a client of pg, or another library's transaction through its adapter, such as fromKysely(trx)",
    );
  }
  return {
    query: async <Row>(text: string, values: readonly unknown[]) => {
      const result: unknown = await given.query(text, [...values]);
      return (Array.isArray(result) ? result : (result as { readonly rows: unknown }).rows) as Row[];
    },
  };
}

/** An executor over a `pg` Pool, Client or PoolClient. */
export function fromPg(queryable: PgQueryable): Executor {
  return {
    query: async <Row>(text: string, values: readonly unknown[]) =>
      (await queryable.query(text, [...values])).rows as Row[],
  };
}
