import type { PgQueueEvent } from '@pgqueue/core';

/** Message from an actor to the test that started it. */
export interface Said {
  readonly type: string;
  readonly [name: string]: unknown;
}

export const url: string = process.env['PGQUEUE_TEST_URL'] ?? '';
/** Name of this process. */
export const actorName: string = process.env['PGQUEUE_TEST_NAME'] ?? 'actor';

/** Options from the test: the `options` of startActor. */
export const actorOptions: unknown = JSON.parse(process.env['PGQUEUE_TEST_OPTIONS'] ?? '{}');

/** Returns Unix milliseconds, comparable between processes. */
export const now = (): number => performance.timeOrigin + performance.now();

export function said(message: Said): void {
  process.send?.(message);
}

/** Returns an observer that sends events of these types with their times; an error is sent as its text. */
export function telling(...types: readonly string[]): (event: PgQueueEvent) => void {
  return (event) => {
    if (!types.includes(event.type)) return;
    said({ ...event, ...('error' in event ? { error: String(event.error) } : {}), atMs: now() });
  };
}

/** Runs `act` when the test sends `word`. After a stop, disconnects this process from the channel. */
export function hear(word: string, act: () => unknown): void {
  process.on('message', (message) => {
    if (message !== word) return;
    void Promise.resolve(act()).finally(() => {
      if (word === 'stop') process.disconnect?.();
    });
  });
}

/** Starts a scheduler or a worker, and reports that. Stops it when the test says so. */
export async function run<How>(
  role: { readonly start: () => Promise<void>; readonly stop: (how?: How) => Promise<void> },
  how?: How,
): Promise<void> {
  hear('stop', () => role.stop(how));
  await role.start();
  said({ type: 'ready' });
}
