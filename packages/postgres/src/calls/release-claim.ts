import type { Target } from '../connection/target.ts';

/**
 * Gives back the leases of a claim whose reply was lost: the SQL function `release_claim`. Resolves to the
 * number of jobs; 0 if the claim did not happen, or the incarnation has
 * ended.
 */
export async function releaseClaim(
  target: Target,
  {
    node,
    incarnation,
    token,
  }: { readonly node: string; readonly incarnation: string; readonly token: string },
): Promise<number> {
  const [row] = await target.query<{ jobs: number }>(
    `select ${target.schema}.release_claim($1, $2::uuid, $3::uuid) as jobs`,
    [node, incarnation, token],
  );
  return row?.jobs ?? 0;
}
