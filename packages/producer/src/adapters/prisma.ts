import type { Executor } from '@pgqueue/postgres';

/** The part of Prisma's client, and of the client inside `$transaction`, that is used. */
export interface PrismaLike {
  $queryRawUnsafe<Result>(text: string, ...values: unknown[]): PromiseLike<Result>;
}

/** An executor over the client that an interactive Prisma transaction hands out (or over a PrismaClient). */
export function fromPrisma(prisma: PrismaLike): Executor {
  return {
    // "unsafe" is about the text, which is ours; the values are bound
    query: <Row>(text: string, values: readonly unknown[]) =>
      Promise.resolve(prisma.$queryRawUnsafe<Row[]>(text, ...values)),
  };
}
