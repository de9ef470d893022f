/** For `pg`: a Pool, a Client, or the PoolClient of a transaction. */
export type { PgQueryable } from '@pgqueue/postgres';
export { fromPg } from '@pgqueue/postgres/internal';
