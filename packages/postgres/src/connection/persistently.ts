import { setTimeout as delay } from 'node:timers/promises';
import { retryPauseMs } from '@pgqueue/core/internal';
import { isTransient } from './pg-errors.ts';

/**
 * Repeats `work` after transient errors, up to `triesMax` times within some seconds. `again`: an earlier try may have
 * been accepted.
 */
export async function persistently<Answer>(
  work: (again: boolean) => Promise<Answer>,
  triesMax = 8,
): Promise<Answer> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work(failures > 1);
    } catch (error) {
      if (!isTransient(error) || failures >= triesMax) throw error;
      await delay(retryPauseMs(failures, 2_000));
    }
  }
}
