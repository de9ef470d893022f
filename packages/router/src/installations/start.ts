import { PgQueueError } from '@pgqueue/core';
import { retryPauseMs } from '@pgqueue/core/internal';
import type { Member } from './member.ts';

/**
 * Starts a node of one installation, once its database has said that it is that one. Tries again until the signal aborts
 * while that database does not answer.
 * @param options `failed`: called for each try that had no answer
 * @throws {PgQueueError} `configuration`, or as `start`
 */
export async function startIn(
  member: Member,
  start: () => Promise<void>,
  {
    signal,
    failed,
  }: {
    readonly signal: AbortSignal;
    readonly failed?: (error: PgQueueError, retryMs: number) => void;
  },
): Promise<void> {
  for (let failures = 1; !signal.aborted; failures += 1) {
    try {
      await member.identified();
      return await start();
    } catch (error) {
      if (!(error instanceof PgQueueError) || error.code !== 'installation') throw error;
      if (signal.aborted) return;
      const retryMs = retryPauseMs(failures);
      failed?.(error, retryMs);
      await Promise.race([new Promise((resolve) => setTimeout(resolve, retryMs).unref()), aborted(signal)]);
    }
  }
}

export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
