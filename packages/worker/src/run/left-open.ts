import { PgQueueError } from '@pgqueue/core';
import { isOutcome } from '@pgqueue/core/internal';
import type { AttemptEnding } from './run.ts';

/**
 * Returns how attempts end whose handler left a transaction open when it ended. Such a transaction can no
 * longer settle its jobs, and rolls back, which nobody would hear of. So an attempt that would be done fails,
 * and is tried again. If the COMMIT is under way, this waits for it: then the job is done, and the error is
 * only reported.
 */
export async function withLeftOpen(endings: readonly AttemptEnding[]): Promise<readonly AttemptEnding[]> {
  const by = endings.find(({ attempt }) => attempt.open !== undefined)?.attempt.open?.by;
  if (by === undefined) return endings;
  const error = new PgQueueError(
    'configuration',
    `${by} was not awaited: the handler returned before it had ended. Await it, or return its promise`,
  );
  return Promise.all(
    endings.map(async ({ attempt, ending }): Promise<AttemptEnding> => {
      attempt.leftOpen = error;
      if (attempt.open === undefined) return { attempt, ending };
      while (attempt.committing && attempt.open !== undefined) await attempt.open.ended;
      const done = ending.kind === 'fan_out' || (ending.kind === 'returned' && !isOutcome(ending.value));
      return { attempt, ending: done ? { kind: 'threw', error } : ending };
    }),
  );
}
