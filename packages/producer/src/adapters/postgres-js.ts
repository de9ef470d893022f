export type { PostgresJsLike } from '@pgqueue/postgres/postgres-js';
export { fromPostgresJs } from '@pgqueue/postgres/postgres-js';
