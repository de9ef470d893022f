import type { Target } from '../connection/target.ts';

/**
 * Gives back the leases of a claim whose reply was lost: the SQL function `release_claim`. Resolves to the
 * number of jobs; 0 if the claim did not happen.
 */
export async function releaseClaim(target: Target, node: string, token: string): Promise<number> {
  const [row] = await target.query<{ jobs: number }>(
    `select ${target.schema}.release_claim($1, $2::uuid) as jobs`,
    [node, token],
  );
  return row?.jobs ?? 0;
}
