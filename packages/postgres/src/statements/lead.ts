import type { Target } from './target.ts';

/** Who leads now, and for how long. */
export interface Leadership {
  readonly leads: boolean;
  /** Of the present leader, whoever that is. */
  readonly epoch: number;
  readonly leader: string | null;
  readonly expiresInMs: number;
}

/** Takes or renews the scheduler's lease. */
export async function lead(target: Target, leader: string, leaseMs: number): Promise<Leadership> {
  const [row] = await target.query<Leadership>(
    `select leads, epoch::float8 as epoch, leader, expires_in_ms as "expiresInMs" from ${target.schema}.lead($1, $2)`,
    [leader, leaseMs],
  );
  return row ?? { leads: false, epoch: 0, leader: null, expiresInMs: leaseMs };
}

/** Gives the lease up, so that a standby takes over at once. */
export async function resign(target: Target, leader: string, epoch: number): Promise<boolean> {
  const [row] = await target.query<{ resigned: boolean }>(
    `select ${target.schema}.resign($1, $2) as resigned`,
    [leader, epoch],
  );
  return row?.resigned === true;
}
