import type { RawBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Database } from '../connection/database.ts';

/** Limits of one page. */
export interface WalkLimits {
  readonly limit: number;
  /** Maximum number of rows that each walk of one page reads. */
  readonly walkMax: number;
}

/** Rows that a walk has read. */
export interface Walk {
  /** Matching ids, newest first: one more than the page holds. */
  readonly ids: readonly string[];
  readonly seen: number;
  readonly lowest: string | null;
}

/** Reads rows, as `t`, and tests which of them match. */
export async function walked(
  { kysely }: Database,
  {
    rows,
    fits,
    limit,
  }: { readonly rows: RawBuilder<unknown>; readonly fits: RawBuilder<unknown>; readonly limit: number },
): Promise<Walk> {
  const found = await sql<Walk>`
    with walked as materialized (select t.id, ${fits} as fits from (${rows}) t)
    select array(select w.id from walked w where w.fits order by w.id desc limit ${limit + 1})::text[] as ids,
           (select count(*) from walked)::integer as seen,
           (select w.id::text from walked w order by w.id limit 1) as lowest`.execute(kysely);
  return found.rows[0] ?? { ids: [], seen: 0, lowest: null };
}

/** Ids of matching rows, newest first. */
export interface Found {
  readonly ids: readonly string[];
  readonly next: string | null;
  /** Id down to which the page has read, if it read as many rows as it may; else null. */
  readonly lookedDownTo: string | null;
}

/** Returns the page that walks have found: down to where all of them have read. */
export function pageOfWalks(walks: readonly Walk[], { limit, walkMax }: WalkLimits): Found {
  const horizon = walks.reduce<string | null>(
    (most, { seen, lowest }) =>
      seen >= walkMax && lowest !== null && (most === null || lowest > most) ? lowest : most,
    null,
  );
  const ids = [...new Set(walks.flatMap((walk) => walk.ids))]
    .filter((id) => horizon === null || id >= horizon)
    .toSorted((a, b) => (a < b ? 1 : -1));
  const shown = ids.slice(0, limit);
  const last = shown.at(-1);
  if (ids.length > limit && last !== undefined) return { ids: shown, next: last, lookedDownTo: null };
  return { ids: shown, next: horizon, lookedDownTo: horizon };
}
