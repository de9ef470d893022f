import { errorData, errorLine } from '@pgqueue/core';

/** How long a start may be silent. */
const silentMs = 3_000;

/** A start that waits for its database. */
export interface Waiting {
  /** A try has failed. */
  readonly failed: (error: unknown) => void;
  /** It waits no more. */
  readonly done: () => void;
}

/**
 * Says by a process warning, once, what a start waits for when that takes seconds: without an observer or a logger nobody would hear of
 * it. Node writes such warnings to stderr, unless it is told not to.
 * @param who `the worker web-1`
 */
export function startWaiting(who: string, afterMs: number = silentMs): Waiting {
  let last: unknown;
  const timer = setTimeout(() => {
    const why = last === undefined ? 'it has not answered yet' : errorLine(errorData(last));
    warn('PGQUEUE_WAITING', `${who} waits for its database: ${why}. It goes on trying until it is stopped`);
  }, afterMs).unref();
  return {
    failed: (error) => {
      last = error;
    },
    done: () => clearTimeout(timer),
  };
}

/** A process warning of pgqueue's: `process.on('warning', …)` gets it, too. */
export function warn(code: string, message: string): void {
  process.emitWarning(message, { type: 'PgQueueWarning', code });
}
