export type { PrismaLike } from '@pgqueue/postgres/prisma';
export { fromPrisma } from '@pgqueue/postgres/prisma';
