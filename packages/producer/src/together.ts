import type { FlowRow, JobRow } from '@pgqueue/core/internal';
import { gathering } from './gathering.ts';
import type { WritePath } from './writing.ts';

/** The second of two calls is under way while the server answers the first. */
const bounds = { callsMax: 2, sizeMax: 1_000_000 };

/**
 * Writes jobs and flows together that come one by one, at the same time: with ten callers more than twice as many a second as
 * without, and each is done sooner. Only what waits for nobody's transaction: ids that were made for the call, and no unique key.
 */
export function together(path: WritePath): WritePath {
  const write = gathering((rows: readonly JobRow[]) => path.write(rows, { again: false }), {
    ...bounds,
    countMax: 500,
    sizeOf: ({ payload }) => payload.length,
  });
  const start = gathering((rows: readonly FlowRow[]) => path.start(rows, true), {
    ...bounds,
    countMax: 64,
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
    start: async (rows, fresh) => {
      const [row] = rows;
      return rows.length === 1 && row !== undefined && fresh ? [await start(row)] : path.start(rows, fresh);
    },
  };
}
