import { setTimeout as delay } from 'node:timers/promises';
import { retryPauseMs } from '@pgqueue/core';
import { isTransient } from '@pgqueue/postgres';

const triesMax = 8;

/** Repeats what met a transient error, for some seconds; `again`: an earlier try may have been accepted. */
export async function persistently<Answer>(work: (again: boolean) => Promise<Answer>): Promise<Answer> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work(failures > 1);
    } catch (error) {
      if (!isTransient(error) || failures >= triesMax) throw error;
      await delay(retryPauseMs(failures, 2_000));
    }
  }
}
