import type { Observer } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { errorData } from '@pgqueue/core/internal';
import type { ClaimInput, Target } from '@pgqueue/postgres/internal';
import { claimUnread, isOfRow, readLeased, settle } from '@pgqueue/postgres/internal';

export interface ApartParts {
  readonly database: Target;
  readonly observe: Observer;
}

/**
 * Claims again after a claim failed because of one job's data, so that this job does not cost the others
 * their run. Takes the leases first, then reads the jobs by halves until the unreadable one is alone. That
 * job becomes a dead letter, under the lease that this node holds on it.
 */
export async function claimApart(parts: ApartParts, input: ClaimInput): Promise<readonly ClaimedJob[]> {
  const ids = await claimUnread(parts.database, input);
  return ids.length === 0 ? [] : readApart(parts, input.token, ids);
}

async function readApart(
  parts: ApartParts,
  token: string,
  ids: readonly string[],
): Promise<readonly ClaimedJob[]> {
  try {
    return await readLeased(parts.database, token, ids);
  } catch (error) {
    if (!isOfRow(error)) throw error;
    const [only] = ids;
    if (ids.length === 1 && only !== undefined) {
      await bury(parts, { id: only, token }, error);
      return [];
    }
    const half = Math.ceil(ids.length / 2);
    const first = await readApart(parts, token, ids.slice(0, half));
    return [...first, ...(await readApart(parts, token, ids.slice(half)))];
  }
}

/**
 * Settles an unreadable job as dead. A job that is too damaged even for that stays leased until its lease
 * ends; then the sweep of expired leases takes care of it.
 */
async function bury(
  { database, observe }: ApartParts,
  lease: { readonly id: string; readonly token: string },
  error: unknown,
): Promise<void> {
  observe({ type: 'database.error', during: 'claim', error });
  const { message } = errorData(error);
  const data = JSON.stringify({ kind: 'error', message: `it can't be read: ${message}` });
  try {
    await settle(database, [{ ...lease, outcome: 'dead', delayMs: null, data }]);
  } catch (refused) {
    if (!isOfRow(refused)) throw refused;
    observe({ type: 'database.error', during: 'settle', error: refused });
  }
}
