import type { Lease } from './lease.ts';
import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';

/** Keeps resume data (JSON text) for the next attempt, under the token. False: the lease was lost. */
export async function saveCheckpoint(target: Target, lease: Lease, checkpoint: string): Promise<boolean> {
  return (
    (await ask(target, 'save_checkpoint($1, $2, $3::jsonb)', [lease.id, lease.token, checkpoint])) === true
  );
}

/**
 * Ends an attempt whose own process or thread died, as a crash. Undefined: the lease was lost, and nothing
 * was changed.
 */
export function crashJob(
  target: Target,
  { id, token }: Lease,
  why: string,
): Promise<'ready' | 'dead' | 'cancelled' | undefined> {
  return ask(target, 'crash_job($1, $2, $3)', [id, token, why.replaceAll('\u0000', '').toWellFormed()]);
}
