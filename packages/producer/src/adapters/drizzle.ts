import type { Executor } from '@pgqueue/postgres';
import type { SQL } from 'drizzle-orm';
import { sql } from 'drizzle-orm';

/** The part of Drizzle's database and transaction that is used, with the drivers node-postgres and postgres-js. */
export interface DrizzleLike {
  execute(query: SQL): PromiseLike<unknown>;
}

/** An executor over a Drizzle transaction (or database). */
export function fromDrizzle(drizzle: DrizzleLike): Executor {
  return {
    query: async <Row>(text: string, values: readonly unknown[]) => {
      const result = await drizzle.execute(bound(text, values));
      // node-postgres answers with an object, postgres-js with the rows themselves
      return (Array.isArray(result) ? result : (result as { readonly rows: unknown }).rows) as Row[];
    },
  };
}

/** Drizzle numbers parameters itself, so the text is cut at each `$n`, and the value put between. */
function bound(text: string, values: readonly unknown[]): SQL {
  const pieces = text.split(/\$(\d+)/);
  return sql.join(
    pieces.map((piece, index) =>
      index % 2 === 0 ? sql.raw(piece) : sql`${sql.param(values[Number(piece) - 1] ?? null)}`,
    ),
  );
}
