import type { Attempts, LeaseParts } from './lease-calls.ts';
import { showProgress } from './lease-calls.ts';

/** Shows JSON text; false: every lease was lost. */
export type Progress = (value: string) => Promise<boolean>;

/** One write in so long for each handler call: its progress is for people. */
const everyMs = 250;

/** The first is written at once; of those that come faster than they are written, the newest. */
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
    // nobody waits for it; a lost lease aborts the signal
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
