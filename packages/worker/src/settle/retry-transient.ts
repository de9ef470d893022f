import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { retryPauseMs } from '@pgqueue/core/internal';
import { isTransient } from '@pgqueue/postgres/internal';

/**
 * Repeats `work` after transient errors until it succeeds. False: it was given up, or refused for good. For
 * statements that must come before all others about the same jobs.
 */
export async function untilDone(
  work: () => Promise<void>,
  { observe, abandoned }: { readonly observe: Observer; readonly abandoned: AbortSignal },
): Promise<boolean> {
  for (let failures = 1; !abandoned.aborted; failures += 1) {
    try {
      await work();
      return true;
    } catch (error) {
      if (!isTransient(error)) {
        observe({ type: 'database.error', during: 'settle', error });
        return false;
      }
      const retryMs = retryPauseMs(failures);
      observe({ type: 'database.error', during: 'settle', error, retryMs });
      await delay(retryMs, undefined, { signal: abandoned }).catch(() => {});
    }
  }
  return false;
}
