export type { TypeOrmLike } from '@pgqueue/postgres/typeorm';
export { fromTypeOrm } from '@pgqueue/postgres/typeorm';
