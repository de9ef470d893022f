import type { Executor } from './executor.ts';

/** Something that executes SQL, and the schema of the installation. A Database is one. */
export interface Target extends Executor {
  readonly schema: string;
}

/**
 * Wraps a call so that its writes commit asynchronously. For writes whose loss in a crash of Postgres only
 * repeats work.
 */
export function relaxed(call: string): string {
  return `select f.* from (select set_config('synchronous_commit', 'off', true)) as relaxed, lateral ${call} f`;
}

/**
 * Calls a SQL function that returns one value; undefined: it is null.
 * @param call the function with its parameters, such as `expire($1, $2, $3)`
 */
export async function ask<Answer>(
  { query, schema }: Target,
  call: string,
  values: readonly unknown[],
): Promise<Answer | undefined> {
  const [row] = await query<{ readonly answer: Answer | null }>(`select ${schema}.${call} as answer`, values);
  return row?.answer ?? undefined;
}

/** Calls a SQL function that returns ids, in the same way. */
export async function askIds(
  { query, schema }: Target,
  call: string,
  values: readonly unknown[],
): Promise<ReadonlySet<string>> {
  const rows = await query<{ readonly id: string }>(`select f.id from ${schema}.${call} as f (id)`, values);
  return new Set(rows.map(({ id }) => id));
}
