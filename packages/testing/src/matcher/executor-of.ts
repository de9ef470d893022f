import { PgQueueError } from '@pgqueue/core';
import type { Executor } from '@pgqueue/postgres';
import { toExecutor } from '@pgqueue/postgres/internal';
import type { DrizzleLike } from '@pgqueue/producer/drizzle';
import type { KnexLike } from '@pgqueue/producer/knex';
import { fromKnex } from '@pgqueue/producer/knex';
import type { KyselyLike } from '@pgqueue/producer/kysely';
import type { PostgresJsLike } from '@pgqueue/producer/postgres-js';
import { fromPostgresJs } from '@pgqueue/producer/postgres-js';
import type { PrismaLike } from '@pgqueue/producer/prisma';
import { fromPrisma } from '@pgqueue/producer/prisma';

/**
 * Returns an executor for what a test has at hand: a test database, an executor, or a database or transaction
 * of pg, Kysely, Drizzle, Knex, Prisma, postgres.js or TypeORM. Each is recognized by the function that its
 * adapter calls.
 * @throws {PgQueueError} `configuration` for anything else
 */
export async function executorOf(given: unknown, matcher: string): Promise<Executor> {
  const has = (name: string): boolean =>
    (typeof given === 'object' || typeof given === 'function') &&
    given !== null &&
    typeof (given as Readonly<Record<string, unknown>>)[name] === 'function';
  if (typeof given === 'function') {
    if (has('unsafe')) return fromPostgresJs(given as unknown as PostgresJsLike);
    if (has('raw')) return fromKnex(given as unknown as KnexLike);
  }
  if (has('executeQuery')) {
    const { fromKysely } = await import('@pgqueue/producer/kysely');
    return fromKysely(given as KyselyLike);
  }
  if (has('$queryRawUnsafe')) return fromPrisma(given as PrismaLike);
  if (has('query')) return toExecutor(given as Parameters<typeof toExecutor>[0]);
  if (has('execute')) {
    const { fromDrizzle } = await import('@pgqueue/producer/drizzle');
    return fromDrizzle(given as DrizzleLike);
  }
  throw new PgQueueError(
    'configuration',
    `${matcher}: expect(…) takes a test database, or a database or transaction of pg, Kysely, Drizzle, Knex, Prisma, postgres.js or TypeORM`,
  );
}
