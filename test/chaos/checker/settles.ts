// Settlements: each attempt's at most once, by the newest token, the others refused.
import type { LeaseTrace, SettleTrace, Traces } from './traces.ts';

export interface Settles {
  readonly accepted: number;
  /** Attempts or jobs whose end was accepted more than once. */
  readonly acceptedTwice: readonly string[];
  /** Accepted though another lease of the job had been claimed, whole, before they were sent. */
  readonly notNewest: readonly string[];
  /** Settlements and extensions of lost leases that were tried and refused. */
  readonly staleRefused: number;
}

export function settlesOf({ jobs, spoils }: Traces): Settles {
  let accepted = 0;
  let staleRefused = 0;
  const acceptedTwice: string[] = [];
  const notNewest: string[] = [];
  const shipped = spoils.some(({ what }) => what === 'shipped-commits');
  for (const { id, leases: byToken } of jobs.values()) {
    const leases = [...byToken.values()];
    let ends = 0;
    for (const lease of leases) {
      const own = lease.settles.filter(isAccepted);
      accepted += own.length;
      staleRefused += lease.settles.filter(({ verdict }) => verdict === 'stale').length;
      ends += own.filter(({ verdict }) => verdict !== 'retry' && verdict !== 'snooze').length;
      if (own.length > 1 && !shipped) acceptedTwice.push(`${id}: ${own.length} times under ${lease.token}`);
      for (const settle of own) {
        const newer = leases.find((other) => cameBetween(other, lease, settle) && !forgotten(other, spoils));
        if (newer !== undefined)
          notNewest.push(
            `${id}: ${settle.verdict} accepted under ${lease.token} though ${newer.token} was newer`,
          );
      }
    }
    if (ends > 1 && !shipped) acceptedTwice.push(`${id}: ended ${ends} times`);
  }
  return { accepted, acceptedTwice, notNewest, staleRefused };
}

function isAccepted({ verdict }: SettleTrace): boolean {
  return verdict !== 'stale' && verdict !== 'none' && verdict !== 'repeated';
}

/** Whole within: claimed after the one that settled, and before that was sent. */
function cameBetween(other: LeaseTrace, lease: LeaseTrace, settle: SettleTrace): boolean {
  return other !== lease && other.claim.from > lease.claim.to && other.claim.to < settle.from;
}

/** A crash of the server may have taken the newer claim back, and the older lease stands again. */
function forgotten({ claim }: LeaseTrace, spoils: Traces['spoils']): boolean {
  return spoils.some(
    ({ what, from, to }) =>
      (what === 'recent-commits' && claim.to >= from - 1_500 && claim.from <= to) ||
      (what === 'shipped-commits' && claim.from <= to),
  );
}
