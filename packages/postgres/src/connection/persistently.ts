import { setTimeout as delay } from 'node:timers/promises';
import { retryPauseMs } from '@pgqueue/core/internal';
import { isTransient } from './pg-errors.ts';

/** By then a restart of Postgres, or a planned failover, is over. */
const forMs = 15_000;
const pauseMaxMs = 1_000;

/**
 * Repeats `work` after transient errors. No try begins after 15 s. Time alone is the bound: where a connection is refused at
 * once, as by a pooler, any number of tries is soon used up.
 * @param work `again`: an earlier try may have been accepted
 * @param retrying hears of each error that is followed by another try
 */
export async function persistently<Answer>(
  work: (again: boolean) => Promise<Answer>,
  retrying?: (error: unknown, retryMs: number) => void,
): Promise<Answer> {
  const began = performance.now();
  for (let failures = 1; ; failures += 1) {
    try {
      return await work(failures > 1);
    } catch (error) {
      const retryMs = retryPauseMs(failures, pauseMaxMs);
      if (!isTransient(error) || performance.now() + retryMs > began + forMs) throw error;
      retrying?.(error, retryMs);
      await delay(retryMs);
    }
  }
}
