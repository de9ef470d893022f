import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';

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
  const values = [node, incarnation, token];
  return (await ask<number>(target, 'release_claim($1, $2::uuid, $3::uuid)', values)) ?? 0;
}
