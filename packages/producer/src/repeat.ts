import type { Observer } from '@pgqueue/core';
import { retryPauseMs } from '@pgqueue/core/internal';
import { isTransient } from '@pgqueue/postgres/internal';

/** A restart of Postgres, or a failover by a good operator's hand, is over by then. */
const retriesMax = 8;
const forMs = 15_000;
const pauseMaxMs = 1_000;

/** Repeats work after transient errors, for some seconds at most. `repeated`: an earlier try may have committed unseen. */
export async function repeatable<Result>(options: {
  readonly work: (repeated: boolean) => Promise<Result>;
  readonly observe: Observer;
}): Promise<Result> {
  const began = performance.now();
  for (let failures = 0; ;) {
    try {
      return await options.work(failures > 0);
    } catch (error) {
      failures += 1;
      const spent = failures > retriesMax || performance.now() - began > forMs;
      if (spent || !isTransient(error)) throw error;
      const retryMs = retryPauseMs(failures, pauseMaxMs);
      options.observe({ type: 'database.error', during: 'enqueue', error, retryMs });
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
  }
}
