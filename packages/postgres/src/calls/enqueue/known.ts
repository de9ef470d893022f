import type { Target } from '../../connection/target.ts';

/** Kind of thing that an id names. */
export type IdOf = 'job' | 'flow';

/**
 * Finds those of some ids that an installation knows, in lower case: also jobs and flows that have ended, as far back as it
 * keeps them, and jobs on their way to another installation. The rights of a producer are enough.
 */
export async function knownIds(
  { query, schema }: Target,
  of: IdOf,
  ids: readonly string[],
): Promise<readonly string[]> {
  const found =
    of === 'job' ? 'job_result($1::text::uuid[], p_exact => false)' : 'flow_state($1::text::uuid[])';
  const rows = await query<{ readonly id: string }>(`select f.id::text as id from ${schema}.${found} f`, [
    ids,
  ]);
  return rows.map(({ id }) => id);
}
