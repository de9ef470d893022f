/** For `pg`: a Pool, a Client, or the PoolClient of a transaction. */
export type { PgQueryable } from '../executor.ts';
export { fromPg } from '../executor.ts';
