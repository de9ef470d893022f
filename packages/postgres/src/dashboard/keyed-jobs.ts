import type { Target } from '../connection/target.ts';

/** Ids of the jobs of one request, all in a range of ids that belongs to the request's idempotency key. */
export interface KeyedIds {
  readonly from: string;
  readonly to: string;
  readonly ids: readonly string[];
}

/**
 * Makes requests with one idempotency key take turns until this transaction ends, then reports whether the key
 * has unfinished jobs of another request. Safe because the lock comes first: the second statement sees what the
 * transaction before it committed. Served by the primary key of QUEUE; the rights of a producer are enough.
 */
export async function keyIsTaken({ query, schema }: Target, { from, to, ids }: KeyedIds): Promise<boolean> {
  await query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`${schema}:key:${from}`]);
  const rows = await query(
    `select from ${schema}.queue where id >= $1::uuid and id <= $2::uuid and id <> all ($3::uuid[]) limit 1`,
    [from, to, ids],
  );
  return rows.length > 0;
}
