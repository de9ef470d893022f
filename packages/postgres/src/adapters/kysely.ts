import { CompiledQuery } from 'kysely';
import type { Executor } from '../connection/executor.ts';

/** The part of Kysely's `Kysely` and `Transaction` that is used. */
export interface KyselyLike {
  executeQuery<Row>(query: CompiledQuery<Row>): Promise<{ readonly rows: Row[] }>;
}

/** An executor over a Kysely transaction (or a Kysely instance), whatever its PostgreSQL dialect. */
export function fromKysely(kysely: KyselyLike): Executor {
  return {
    query: async <Row>(text: string, values: readonly unknown[]) =>
      (await kysely.executeQuery<Row>(CompiledQuery.raw(text, [...values]))).rows,
  };
}
