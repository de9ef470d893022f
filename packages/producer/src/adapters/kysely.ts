export type { KyselyLike } from '@pgqueue/postgres/kysely';
export { fromKysely } from '@pgqueue/postgres/kysely';
