/** What an actor says to the test that started it. */
export interface Said {
  readonly type: string;
  readonly [name: string]: unknown;
}

export const url: string = process.env['PGQUEUE_TEST_URL'] ?? '';

export function said(message: Said): void {
  process.send?.(message);
}

/** Does something when the test says so, and ends the process's part of the channel after a stop. */
export function hear(word: string, act: () => Promise<void>): void {
  process.on('message', (message) => {
    if (message !== word) return;
    void act().finally(() => {
      if (word === 'stop') process.disconnect?.();
    });
  });
}
