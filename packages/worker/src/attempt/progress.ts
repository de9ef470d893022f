import type { Attempts, LeaseParts } from './lease-calls.ts';
import { showProgress } from './lease-calls.ts';

/** Writes progress as JSON text. False: every lease was lost. */
export type Progress = (value: string) => Promise<boolean>;

/** Shortest time between two progress writes of one handler call: people read them. */
const everyMs = 250;

/** Writes the first value at once. When values come faster than every 250 ms, only the newest is written. */
export function createProgress(
  parts: LeaseParts,
  attempts: Attempts,
  clock: () => number = (): number => performance.now(),
): Progress {
  let writtenAt = -Infinity;
  let newest: string | undefined;
  let timer: NodeJS.Timeout | undefined;

  const write = (value: string): Promise<boolean> => {
    writtenAt = clock();
    return showProgress(parts, attempts, value);
  };
  const writeNewest = (): void => {
    timer = undefined;
    if (newest === undefined || attempts.every(({ over }) => over)) return;
    const value = newest;
    newest = undefined;
    // Nobody awaits this write; a lost lease aborts the signal.
    write(value).catch((error: unknown) =>
      parts.observe({ type: 'database.error', during: 'progress', error }),
    );
  };

  return (value) => {
    if (attempts.every(({ over }) => over)) return Promise.resolve(false);
    const waitMs = writtenAt + everyMs - clock();
    if (waitMs <= 0 && timer === undefined) return write(value);
    newest = value;
    timer ??= setTimeout(writeNewest, waitMs).unref();
    return Promise.resolve(true);
  };
}
