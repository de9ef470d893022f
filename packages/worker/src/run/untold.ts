import type { Lease } from '@pgqueue/postgres/internal';
import type { Attempt } from '../attempt/attempt.ts';

/** Time after the end of a lease by which the database has taken it back, though clocks differ a little. */
const graceMs = 60_000;

/** Attempts whose ends the database did not acknowledge, kept until their leases end. */
export interface Untold {
  readonly add: (attempt: Attempt) => void;
  readonly delete: (attempt: Attempt) => void;
  readonly leases: () => readonly Lease[];
}

/** Creates a set without attempts. */
export function createUntold(): Untold {
  const attempts = new Set<Attempt>();
  return {
    add: (attempt) => void attempts.add(attempt),
    delete: (attempt) => void attempts.delete(attempt),
    leases: () => {
      const now = performance.now();
      for (const attempt of attempts) if (attempt.endsAt + graceMs < now) attempts.delete(attempt);
      return [...attempts].map(({ lease }) => lease);
    },
  };
}
