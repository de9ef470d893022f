// not the globals: a user's test may fake those, and wait for a settlement
import { setImmediate } from 'node:timers';
import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { retryPauseMs } from '@pgqueue/core/internal';
import type { Lease, Target } from '@pgqueue/postgres/internal';
import { isTransient, release, releaseRows } from '@pgqueue/postgres/internal';
import type { LeasedRow } from '../lease/ended.ts';

/** Statements about leases, beside settlements. They are repeated after transient errors, and their leases are pending. */
export interface Insistence {
  readonly before: (jobs: readonly Lease[], work: () => Promise<void>) => Promise<void>;
  readonly release: (leases: readonly Lease[]) => void;
  readonly releaseRow: (batch: LeasedRow) => void;
  readonly busy: () => boolean;
  readonly pending: () => Iterable<Lease>;
}

export function createInsistence({
  database,
  observe,
  abandoned,
  onIdle,
}: {
  readonly database: Target;
  readonly observe: Observer;
  /** Once it aborts, what fails is left to the node's leaving. */
  readonly abandoned: AbortSignal;
  readonly onIdle: () => void;
}): Insistence {
  const sending = new Set<{ readonly leases: readonly Lease[] }>();
  let released: Lease[] = [];

  /** Resolves when `work` has succeeded, was refused for good, or is given up; never rejects. */
  const insist = async (
    leases: readonly Lease[],
    during: 'settle' | 'release',
    work: () => Promise<unknown>,
  ): Promise<void> => {
    const sent = { leases };
    sending.add(sent);
    for (let failures = 1, again = true; again; failures += 1) {
      try {
        await work();
        again = false;
      } catch (error) {
        again = isTransient(error) && !abandoned.aborted;
        const retryMs = retryPauseMs(failures);
        observe({ type: 'database.error', during, error, ...(again ? { retryMs } : {}) });
        if (again) await delay(retryMs, undefined, { signal: abandoned }).catch(() => {});
        again &&= !abandoned.aborted;
      }
    }
    // By then the caller has handed over the settlements.
    setImmediate(() => {
      sending.delete(sent);
      onIdle();
    });
  };
  const flush = (): void => {
    const together = released;
    released = [];
    void insist(together, 'release', () => release(database, together));
  };
  const giveBack = (leases: readonly Lease[]): void => {
    if (leases.length === 0) return;
    if (released.length === 0) setImmediate(flush);
    released.push(...leases);
  };

  return {
    before: (jobs, work) => insist(jobs, 'settle', work),
    release: giveBack,
    releaseRow: ({ lease, jobs }) =>
      void insist(jobs, 'release', async () => {
        // taken apart meanwhile
        if ((await releaseRows(database, [lease])) === 0) giveBack(jobs);
      }),
    busy: () => released.length > 0 || sending.size > 0,
    pending: function* () {
      yield* released;
      for (const { leases } of sending) yield* leases;
    },
  };
}
