import type { Target } from '../connection/target.ts';
import { askIds } from '../connection/target.ts';

/**
 * Cancels jobs. Waiting jobs end at once; the nodes of running ones are told (`signalled`). `busy`: the job
 * is being claimed or settled at this moment; call again. A job that is missing from the answer has ended, or
 * never existed.
 */
export async function cancel(
  target: Target,
  ids: readonly string[],
): Promise<ReadonlyMap<string, 'cancelled' | 'signalled' | 'busy'>> {
  const rows = await target.query<{ job_id: string; verdict: 'cancelled' | 'signalled' | 'busy' }>(
    `select job_id, verdict from ${target.schema}.cancel($1::uuid[])`,
    [ids],
  );
  return new Map(rows.map(({ job_id, verdict }) => [job_id, verdict]));
}

/** Changes to waiting jobs; fields that are left out stay as they are. */
export interface Amendment {
  readonly priority?: number;
  /** A new time, or `now`: run as soon as a slot is free. */
  readonly runAfter?: Date | 'now';
}

/** Changes waiting jobs; resolves to the changed ones. Leaves running jobs alone. */
export async function amend(
  target: Target,
  ids: readonly string[],
  amendment: Amendment,
): Promise<ReadonlySet<string>> {
  const { priority = null, runAfter } = amendment;
  const at = runAfter instanceof Date ? runAfter.toISOString() : null;
  const values = [ids, priority, at, runAfter === 'now'];
  return askIds(target, 'amend($1::uuid[], $2, $3::timestamptz, $4)', values);
}

/**
 * Removes jobs without a trace, from whichever table they are in; resolves to the removed ones. Leaves
 * running jobs alone.
 */
export function erase(target: Target, ids: readonly string[]): Promise<ReadonlySet<string>> {
  return askIds(target, 'erase($1::uuid[])', [ids]);
}

/**
 * Puts dead jobs back into their queues with fresh limits; resolves to those put back. A missing job is not dead, or
 * a newer job has its unique key.
 */
export function redrive(target: Target, ids: readonly string[]): Promise<ReadonlySet<string>> {
  return askIds(target, 'redrive($1::uuid[])', [ids]);
}
