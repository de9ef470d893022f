import type { Executor } from '@pgqueue/postgres';

/** The part of TypeORM's EntityManager, QueryRunner and DataSource that is used. */
export interface TypeOrmLike {
  query(text: string, values?: unknown[]): Promise<unknown>;
}

/** An executor over the EntityManager of a TypeORM transaction (or a QueryRunner, or a DataSource) on PostgreSQL. */
export function fromTypeOrm(manager: TypeOrmLike): Executor {
  return {
    query: async <Row>(text: string, values: readonly unknown[]) =>
      (await manager.query(text, [...values])) as Row[],
  };
}
