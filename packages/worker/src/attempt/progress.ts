import { PgQueueError } from '@pgqueue/core';
import { shapeProblem, storableJson } from '@pgqueue/core/internal';
import type { Attempts, LeaseParts } from './lease-calls.ts';
import { showProgress } from './lease-calls.ts';

/**
 * Shows progress. False: every lease was lost.
 * @throws {PgQueueError} `invalid_job`: it is too long, or dangerous to pass on; also when it would not be written
 */
export type Progress = (value: unknown) => Promise<boolean>;

/** Longest progress, in bytes of JSON. */
const bytesMax = 8_192;

/** Shortest time between two progress writes of one handler call: people read them. */
const everyMs = 250;

/** Writes the first value at once. When values come faster than every 250 ms, only the newest is written. */
export function createProgress(parts: LeaseParts, attempts: Attempts): Progress {
  let writtenAt = -Infinity;
  let newest: string | undefined;
  let timer: NodeJS.Timeout | undefined;

  const write = (value: string): Promise<boolean> => {
    writtenAt = performance.now();
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

  return async (value) => {
    const text = checkedText(attempts[0]?.task, value);
    if (attempts.every(({ over }) => over)) return false;
    const waitMs = writtenAt + everyMs - performance.now();
    if (waitMs <= 0 && timer === undefined) return write(text);
    newest = text;
    timer ??= setTimeout(writeNewest, waitMs).unref();
    return true;
  };
}

function checkedText(task: string | undefined, value: unknown): string {
  const text = storableJson(value);
  const bytes = Buffer.byteLength(text);
  const refused = (why: string): PgQueueError =>
    new PgQueueError('invalid_job', `task "${task}" can't show this progress: ${why}`, { data: { task } });
  if (bytes > bytesMax)
    throw refused(`it has ${bytes} bytes of JSON, more than ${bytesMax}; show a summary of it instead`);
  const problem = shapeProblem(JSON.parse(text));
  if (problem !== undefined) throw refused(`it ${problem}; show a summary of it instead`);
  return text;
}
