import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { retryPauseMs } from '@pgqueue/core/internal';
import type { Lease, Target } from '@pgqueue/postgres/internal';
import { isTransient, release } from '@pgqueue/postgres/internal';

/**
 * Gives leases back unrun, and repeats that until the database has accepted it: the lease of a job that
 * nobody runs would last until its timeout.
 */
export interface Releaser {
  readonly release: (leases: readonly Lease[]) => void;
  readonly busy: () => boolean;
  /** Leases whose release the database has not acknowledged. */
  readonly pending: () => readonly Lease[];
}

export interface ReleaserParts {
  readonly database: Target;
  readonly observe: Observer;
  /** Once it aborts, failed releases are left to the node's leaving. */
  readonly abandoned: AbortSignal;
  readonly onIdle: () => void;
}

export function createReleaser({ database, observe, abandoned, onIdle }: ReleaserParts): Releaser {
  let waiting: readonly Lease[] = [];
  let running = false;

  const run = async (): Promise<void> => {
    running = true;
    for (let failures = 0; waiting.length > 0;) {
      const batch = waiting;
      try {
        await release(database, batch);
        failures = 0;
        waiting = waiting.slice(batch.length);
      } catch (error) {
        failures += 1;
        const again = isTransient(error) && !abandoned.aborted;
        const retryMs = retryPauseMs(failures);
        observe({ type: 'database.error', during: 'release', error, ...(again ? { retryMs } : {}) });
        if (again) await delay(retryMs, undefined, { signal: abandoned }).catch(() => {});
        else waiting = waiting.slice(batch.length);
      }
    }
    running = false;
    onIdle();
  };

  return {
    release: (leases) => {
      if (leases.length === 0) return;
      waiting = [...waiting, ...leases];
      if (!running) void run();
    },
    busy: () => running,
    pending: () => waiting,
  };
}
