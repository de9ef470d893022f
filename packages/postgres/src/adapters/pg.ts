/** For `pg`: a Pool, a Client, or the PoolClient of a transaction. */
export type { PgQueryable } from '../connection/executor.ts';
export { fromPg } from '../connection/executor.ts';
