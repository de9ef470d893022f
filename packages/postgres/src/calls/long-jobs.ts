import type { Lease } from './lease.ts';
import type { Target } from '../connection/target.ts';

/** Keeps resume data (JSON text) for the next attempt, under the token. False: the lease was lost. */
export async function saveCheckpoint(target: Target, lease: Lease, checkpoint: string): Promise<boolean> {
  const [row] = await target.query<{ saved: boolean }>(
    `select ${target.schema}.save_checkpoint($1, $2, $3::jsonb) as saved`,
    [lease.id, lease.token, checkpoint],
  );
  return row?.saved === true;
}

/**
 * Ends an attempt whose own process or thread died, as a crash. Undefined: the lease was lost, and nothing
 * was changed.
 */
export async function crashJob(
  target: Target,
  lease: Lease,
  why: string,
): Promise<'ready' | 'dead' | 'cancelled' | undefined> {
  const [row] = await target.query<{ verdict: 'ready' | 'dead' | 'cancelled' | null }>(
    `select ${target.schema}.crash_job($1, $2, $3) as verdict`,
    [lease.id, lease.token, why.replaceAll('\u0000', '').toWellFormed()],
  );
  return row?.verdict ?? undefined;
}
