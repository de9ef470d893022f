import type { Executor } from '@pgqueue/postgres';
import { CompiledQuery } from 'kysely';

/**
 * The part of Kysely's `Kysely` and `Transaction` that is used. Names no type of Kysely's: an application may have
 * another version than this package, and the types of two versions do not fit each other.
 */
export interface KyselyLike {
  /** @param query a `CompiledQuery` */
  executeQuery(query: object): Promise<{ readonly rows: unknown[] }>;
}

/** An executor over a Kysely transaction (or a Kysely instance), whatever its PostgreSQL dialect. */
export function fromKysely(kysely: KyselyLike): Executor {
  return {
    query: async <Row>(text: string, values: readonly unknown[]) =>
      (await kysely.executeQuery(CompiledQuery.raw(text, [...values]))).rows as Row[],
  };
}
