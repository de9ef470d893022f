import type { PgQueueEvent } from '@pgqueue/core';

/** What an actor says to the test that started it. */
export interface Said {
  readonly type: string;
  readonly [name: string]: unknown;
}

export const url: string = process.env['PGQUEUE_TEST_URL'] ?? '';
/** Of this process. */
export const actorName: string = process.env['PGQUEUE_TEST_NAME'] ?? 'actor';

/** What the test has told this process to do: the `options` of startActor. */
export const actorOptions: unknown = JSON.parse(process.env['PGQUEUE_TEST_OPTIONS'] ?? '{}');

/** Unix milliseconds by which lines and messages of several processes are compared. */
export const now = (): number => performance.timeOrigin + performance.now();

export function said(message: Said): void {
  process.send?.(message);
}

/** Observes: says events of these types, and when they were; an error as its text. */
export function telling(...types: readonly string[]): (event: PgQueueEvent) => void {
  return (event) => {
    if (!types.includes(event.type)) return;
    said({ ...event, ...('error' in event ? { error: String(event.error) } : {}), atMs: now() });
  };
}

/** Does something when the test says so, and ends the process's part of the channel after a stop. */
export function hear(word: string, act: () => unknown): void {
  process.on('message', (message) => {
    if (message !== word) return;
    void Promise.resolve(act()).finally(() => {
      if (word === 'stop') process.disconnect?.();
    });
  });
}

/** Starts a scheduler or a worker, and says so; stops it when the test says so. */
export async function run<How>(
  role: { readonly start: () => Promise<void>; readonly stop: (how?: How) => Promise<void> },
  how?: How,
): Promise<void> {
  hear('stop', () => role.stop(how));
  await role.start();
  said({ type: 'ready' });
}
