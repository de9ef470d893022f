import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { errorData, errorLine, retryPauseMs } from '@pgqueue/core/internal';
import { isTransient } from '../connection/pg-errors.ts';

/** Time in milliseconds before a waiting start emits its warning. */
const silentMs = 3_000;

/** A start that waits for its database. */
export interface StartWait {
  /** Records the error of a failed try. */
  readonly failed: (error: unknown) => void;
  /** Ends the wait: the warning is not emitted any more. */
  readonly done: () => void;
}

/**
 * Emits one process warning about a start that waits for its database for several seconds. Without an
 * observer or a logger, nobody would hear of the wait. Node writes process warnings to stderr, unless it is
 * told not to.
 * @param who for example `the worker web-1`
 */
export function startWaiting(who: string, afterMs: number = silentMs): StartWait {
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

/**
 * Repeats the first statements of a start until the database has answered them, or `signal` aborts.
 * @param who for example `the worker web-1`
 */
export async function reach(
  who: string,
  first: () => Promise<unknown>,
  { observe, signal }: { readonly observe: Observer; readonly signal: AbortSignal },
): Promise<void> {
  const waiting = startWaiting(who);
  try {
    for (let failures = 1; !signal.aborted; failures += 1) {
      try {
        await first();
        return;
      } catch (error) {
        if (!isTransient(error)) throw error;
        waiting.failed(error);
        const retryMs = retryPauseMs(failures);
        observe({ type: 'database.error', during: 'start', error, retryMs });
        await delay(retryMs, undefined, { signal }).catch(() => {});
      }
    }
  } finally {
    waiting.done();
  }
}

/** Emits a process warning of pgqueue's, which `process.on('warning', …)` receives, too. */
export function warn(code: string, message: string): void {
  process.emitWarning(message, { type: 'PgQueueWarning', code });
}
