import type { Enqueued } from '@pgqueue/core';
import type { FlowRow, JobRow } from '@pgqueue/core/internal';
import type { FlowStarted } from '@pgqueue/postgres/internal';
import { isTransient } from '@pgqueue/postgres/internal';
import type { FailedCall } from './gathering.ts';
import { gathering } from './gathering.ts';
import type { WritePath } from './writing.ts';

/** The second of two calls is under way while the server answers the first. */
const bounds = { callsMax: 2, slowMs: 100, sizeMax: 1_000_000 };

/**
 * Writes jobs and flows together that come one by one, at the same time: with ten callers more than twice as many a second as
 * without, and each is done sooner. Only what waits for nobody's transaction: ids that were made for the call, and no unique key.
 */
export function together(path: WritePath): WritePath {
  const write = gathering<JobRow, Enqueued>({
    ...bounds,
    countMax: 500,
    send: (rows) => path.write(rows, { again: false, once: true }),
    alone: (row, failed) => takeOver(failed, (again) => path.write([row], { again })),
    sizeOf: ({ payload }) => payload.length,
  });
  const start = gathering<FlowRow, FlowStarted>({
    ...bounds,
    countMax: 64,
    send: (rows) => path.start(rows, { fresh: true, once: true }),
    alone: (row, failed) => takeOver(failed, () => path.start([row], { fresh: true })),
    sizeOf: ({ steps }) =>
      steps.reduce((sum, { jobs }) => jobs.reduce((all, { payload }) => all + payload.length, sum), 0),
  });
  return {
    ...path,
    write: async (rows, options) => {
      const [row] = rows;
      const joins = rows.length === 1 && row?.unique === null && !options.again;
      return joins ? [await write(row)] : path.write(rows, options);
    },
    start: async (rows, options) => {
      const [row] = rows;
      const joins = rows.length === 1 && row !== undefined && options.fresh;
      return joins ? [await start(row)] : path.start(rows, options);
    },
  };
}

/** Writes what went with a call that has failed, unless it went alone and the error is its own. */
async function takeOver<Answer>(
  { error, several }: FailedCall,
  write: (again: boolean) => Promise<readonly Answer[]>,
): Promise<Answer> {
  const again = isTransient(error);
  if (!several && !again) throw error;
  return (await write(again))[0] as Answer;
}
