import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';

/** Current leadership. */
export interface Leadership {
  readonly leads: boolean;
  /** Epoch of the current leader, which may be another scheduler. */
  readonly epoch: number;
  readonly leader: string | null;
  readonly expiresInMs: number;
}

/**
 * Takes or renews the scheduler's lease. `pid`: of the session behind `target`, if the scheduler keeps that
 * for this alone: standbys may take over as soon as it has ended. Null: they wait for the end of the lease.
 */
export async function lead(
  target: Target,
  leader: string,
  leaseMs: number,
  pid: number | null = null,
): Promise<Leadership> {
  const [row] = await target.query<Leadership>(
    `select leads, epoch::float8 as epoch, leader, expires_in_ms as "expiresInMs" from ${target.schema}.lead($1, $2, $3)`,
    [leader, leaseMs, pid],
  );
  return row ?? { leads: false, epoch: 0, leader: null, expiresInMs: leaseMs };
}

/** The leader's state, as a standby sees it. */
export interface Watched {
  /** The leader's session has ended before its lease; null: the session tells nothing. */
  readonly gone: boolean | null;
  /** Changes with every enqueue and dispatch. Null: unknown. */
  readonly seen: string | null;
}

/**
 * Tells whether the leader is gone: the SQL function `watch_leader`. If nothing has changed since the answer
 * with `seen`, waits up to `waitMs` for the leader's end or for a change.
 */
export async function watchLeader(target: Target, seen: string | null, waitMs: number): Promise<Watched> {
  const [row] = await target.query<Watched>(
    `select gone, seen::text as seen from ${target.schema}.watch_leader($1, $2)`,
    [seen, waitMs],
  );
  return row ?? { gone: null, seen: null };
}

/** Gives the lease up, so that a standby takes over at once. False: this scheduler did not hold it. */
export async function resign(target: Target, leader: string, epoch: number): Promise<boolean> {
  return (await ask(target, 'resign($1, $2)', [leader, epoch])) === true;
}
