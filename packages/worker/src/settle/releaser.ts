import type { Observer } from '@pgqueue/core';
import type { Lease, Target } from '@pgqueue/postgres/internal';
import { release } from '@pgqueue/postgres/internal';
import { untilDone } from './retry-transient.ts';

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
    while (waiting.length > 0) {
      const batch = waiting;
      await untilDone(() => release(database, batch), { during: 'release', observe, abandoned });
      waiting = waiting.slice(batch.length);
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
