import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { errorData, errorLine, retryPauseMs } from '@pgqueue/core/internal';
import { isTransient } from '../connection/pg-errors.ts';

/** Time in milliseconds before a waiting start emits its warning. */
const silentMs = 3_000;

/**
 * Repeats the first statements of a start until the database has answered them, or `signal` aborts. If that takes several
 * seconds, emits one process warning: without an observer or a logger, nobody would hear of the wait. Node writes process
 * warnings to stderr, unless it is told not to.
 * @param who for example `the worker web-1`
 */
export async function reach(
  who: string,
  first: () => Promise<unknown>,
  { observe, signal }: { readonly observe: Observer; readonly signal: AbortSignal },
): Promise<void> {
  let why = 'it has not answered yet';
  const timer = setTimeout(() => {
    warn('PGQUEUE_WAITING', `${who} waits for its database: ${why}. It goes on trying until it is stopped`);
  }, silentMs).unref();
  try {
    for (let failures = 1; !signal.aborted; failures += 1) {
      try {
        await first();
        return;
      } catch (error) {
        if (!isTransient(error)) throw error;
        why = errorLine(errorData(error));
        const retryMs = retryPauseMs(failures);
        observe({ type: 'database.error', during: 'start', error, retryMs });
        await delay(retryMs, undefined, { signal }).catch(() => {});
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Emits a process warning of pgqueue's, which `process.on('warning', …)` receives, too. */
export function warn(code: string, message: string): void {
  process.emitWarning(message, { type: 'PgQueueWarning', code });
}
