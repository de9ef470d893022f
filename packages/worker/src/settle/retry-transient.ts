import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { retryPauseMs } from '@pgqueue/core/internal';
import { isTransient } from '@pgqueue/postgres/internal';

/**
 * Repeats `work` after transient errors until it succeeds, is given up, or is refused for good; never rejects. For statements
 * that must come before all others about the same jobs, and for releases.
 */
export async function untilDone(
  work: () => Promise<unknown>,
  {
    during,
    observe,
    abandoned,
  }: {
    readonly during: 'settle' | 'release';
    readonly observe: Observer;
    readonly abandoned: AbortSignal;
  },
): Promise<void> {
  for (let failures = 1; ; failures += 1) {
    try {
      await work();
      return;
    } catch (error) {
      const again = isTransient(error) && !abandoned.aborted;
      const retryMs = retryPauseMs(failures);
      observe({ type: 'database.error', during, error, ...(again ? { retryMs } : {}) });
      if (again) await delay(retryMs, undefined, { signal: abandoned }).catch(() => {});
      if (!again || abandoned.aborted) return;
    }
  }
}
