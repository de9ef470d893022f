export type { PgQueryable } from '@pgqueue/postgres/pg';
export { fromPg } from '@pgqueue/postgres/pg';
