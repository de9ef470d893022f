import type { Executor } from '@pgqueue/postgres';

/** The part of Knex's `Knex` and `Transaction` that is used. */
export interface KnexLike {
  raw(sql: string, bindings: readonly (string | number | boolean | null)[]): PromiseLike<unknown>;
}

/** An executor over a Knex transaction (or a Knex instance) on `pg`. */
export function fromKnex(knex: KnexLike): Executor {
  return {
    query: async <Row>(text: string, values: readonly unknown[]) => {
      const { sql, bindings } = positional(text, values);
      const answer = (await knex.raw(sql, bindings)) as Row[] | { readonly rows: Row[] };
      // an application's `postProcessResponse` may have taken the rows out of pg's answer
      return Array.isArray(answer) ? answer : answer.rows;
    },
  };
}

/**
 * Converts `$n` parameters to Knex's `?`, which are bound in order. A `?` of the statement itself is escaped.
 */
function positional(
  text: string,
  values: readonly unknown[],
): { readonly sql: string; readonly bindings: readonly (string | number | boolean | null)[] } {
  const bindings: (string | number | boolean | null)[] = [];
  const sql = text.replace(/\$(\d+)|\?/g, (_match, n: string | undefined) => {
    if (n === undefined) return String.raw`\?`;
    bindings.push((values[Number(n) - 1] ?? null) as string | number | boolean | null);
    return '?';
  });
  return { sql, bindings };
}
