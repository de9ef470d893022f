import type { Executor } from '@pgqueue/postgres';

/** The part of postgres.js's `Sql` and `TransactionSql` that is used. */
export interface PostgresJsLike {
  unsafe(
    text: string,
    values: (string | number | boolean | null)[],
  ): PromiseLike<readonly Record<string, unknown>[]>;
}

/** An executor over the `sql` that `sql.begin` hands out (or over `sql` itself). */
export function fromPostgresJs(sql: PostgresJsLike): Executor {
  return {
    // "unsafe" is about the text, which is ours; the values are bound
    query: async <Row>(text: string, values: readonly unknown[]) =>
      (await sql.unsafe(text, [...values] as (string | number | boolean | null)[])) as unknown as Row[],
  };
}
