import type { Target } from '../connection/target.ts';

/** Who leads now, and for how long. */
export interface Leadership {
  readonly leads: boolean;
  /** Of the present leader, whoever that is. */
  readonly epoch: number;
  readonly leader: string | null;
  readonly expiresInMs: number;
}

/**
 * Takes or renews the scheduler's lease. `pid`: of the session that `target` leads to, where the scheduler keeps that for this alone: others
 * may take over as soon as it has ended. Null: when the lease has.
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

/** What a standby hears of the leader. */
export interface Watched {
  /** Whether its session has ended before its lease; null: nobody can tell by that. */
  readonly gone: boolean | null;
  /** Changes with every enqueue and dispatch. Null: unknown. */
  readonly seen: string | null;
}

/**
 * Whether the leader is gone. Where all is as it was when `seen` was answered, this waits for its end, for `waitMs` at most: the SQL function
 * `watch_leader`.
 */
export async function watchLeader(target: Target, seen: string | null, waitMs: number): Promise<Watched> {
  const [row] = await target.query<Watched>(
    `select gone, seen::text as seen from ${target.schema}.watch_leader($1, $2)`,
    [seen, waitMs],
  );
  return row ?? { gone: null, seen: null };
}

/** Gives the lease up, so that a standby takes over at once. */
export async function resign(target: Target, leader: string, epoch: number): Promise<boolean> {
  const [row] = await target.query<{ resigned: boolean }>(
    `select ${target.schema}.resign($1, $2) as resigned`,
    [leader, epoch],
  );
  return row?.resigned === true;
}
