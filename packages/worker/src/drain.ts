import { within } from '@pgqueue/core/internal';
import type { Target } from '@pgqueue/postgres/internal';
import { release } from '@pgqueue/postgres/internal';
import type { AttemptExecutor } from './run/executor.ts';
import type { Settler } from './settle/settler.ts';

/** Longest wait for the database: for releases, then for the last settlements. */
const settleMs = 5_000;

/**
 * Waits up to `drainMs` for running handlers. Then aborts their signals, waits up to `graceMs`, and gives back the jobs that
 * still do not end; a shutdown counts neither as a try nor as a crash. Resolves when nothing is left to tell the
 * database, or when the database does not answer.
 */
export async function drain(
  { executor, settler, database }: DrainParts,
  { drainMs, graceMs }: DrainTimes,
): Promise<void> {
  if (!(await within(drainMs, executor.quiet()))) {
    for (const attempt of executor.attempts) {
      if (!attempt.over) attempt.abort('shutdown');
    }
    await within(graceMs, executor.quiet());
    const stubborn = [...executor.attempts].filter((attempt) => attempt.live && attempt.finish());
    const leases = stubborn.map(({ lease }) => lease);
    // After a failure here, the node's leaving releases them.
    await within(settleMs, release(database, leases));
  }
  await within(settleMs, settler.idle());
  settler.abandon();
}

export interface DrainTimes {
  /** Longest wait for handlers before their signals are aborted. */
  readonly drainMs: number;
  /** Longest wait for them afterwards. */
  readonly graceMs: number;
}

export interface DrainParts {
  readonly executor: AttemptExecutor;
  readonly settler: Settler;
  readonly database: Target;
}
