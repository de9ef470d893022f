import { setTimeout as delay } from 'node:timers/promises';
import { retryPauseMs } from '@pgqueue/core/internal';
import { isTransient } from './pg-errors.ts';

/** Bounds of {@link persistently}. */
export interface Persistence {
  /** Default 8. */
  readonly triesMax?: number;
  /** No try begins later, in milliseconds. Default 15,000: by then a restart of Postgres, or a planned failover, is over. */
  readonly forMs?: number;
  /** Longest pause between two tries, in milliseconds. Default 2,000. */
  readonly pauseMaxMs?: number;
  /** Hears of each error that is followed by another try. */
  readonly retrying?: (error: unknown, retryMs: number) => void;
}

/** Repeats `work` after transient errors, for some seconds at most. `again`: an earlier try may have been accepted. */
export async function persistently<Answer>(
  work: (again: boolean) => Promise<Answer>,
  { triesMax = 8, forMs = 15_000, pauseMaxMs = 2_000, retrying }: Persistence = {},
): Promise<Answer> {
  const began = performance.now();
  for (let failures = 1; ; failures += 1) {
    try {
      return await work(failures > 1);
    } catch (error) {
      if (!isTransient(error) || failures >= triesMax || performance.now() - began > forMs) throw error;
      const retryMs = retryPauseMs(failures, pauseMaxMs);
      retrying?.(error, retryMs);
      await delay(retryMs);
    }
  }
}
