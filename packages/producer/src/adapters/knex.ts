export type { KnexLike } from '@pgqueue/postgres/knex';
export { fromKnex } from '@pgqueue/postgres/knex';
