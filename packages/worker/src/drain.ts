import { within } from '@pgqueue/core';
import type { Target } from '@pgqueue/postgres';
import { release } from '@pgqueue/postgres';
import type { Executor } from './run/executor.ts';
import type { Settler } from './settle/settler.ts';

/** How long handlers may take to end after their signal aborted because of a shutdown. */
const graceMs = 1_000;
/** How long the last settlements may take. */
const settleMs = 5_000;

/**
 * Waits for what runs, up to `drainMs`; then aborts the signals, and gives back what does not end by that: a shutdown is
 * counted neither as a try nor as a crash. Resolves when nothing more is to be said to the database, or it does not listen.
 */
export async function drain({ executor, settler, database }: DrainParts, drainMs: number): Promise<void> {
  if (!(await within(drainMs, executor.quiet()))) {
    for (const attempt of executor.attempts) {
      if (!attempt.over) attempt.abort('shutdown');
    }
    await within(graceMs, executor.quiet());
    const stubborn = [...executor.attempts].filter((attempt) => attempt.live && attempt.finish());
    const leases = stubborn.map(({ lease }) => lease);
    await within(settleMs, release(database, leases)); // what fails here is released when the node leaves
  }
  await within(settleMs, settler.idle());
  settler.abandon();
}

export interface DrainParts {
  readonly executor: Executor;
  readonly settler: Settler;
  readonly database: Target;
}
