import { laneName } from '@pgqueue/core';
import type { LaneJob, LaneRead } from '@pgqueue/postgres/internal';

/** A waiting job with its lane. `id`: null if none waits there. `ahead`: it is behind the place of a walk. */
export interface LaneRow extends Omit<LaneRead, 'jobs' | 'ahead'>, Omit<LaneJob, 'id'> {
  readonly id: string | null;
  readonly ahead: boolean;
}

/** Makes a row: a job of queue `q`, unless `over` says otherwise. */
export function aRow(over: Partial<LaneRow> = {}): LaneRow {
  return {
    queue: 'q',
    key: 'k',
    paged: true,
    ahead: false,
    wanted: 1,
    retryDueMs: null,
    id: 'job',
    seq: 1,
    priority: 0,
    task: 't',
    version: 1,
    rowVersion: '7',
    createdMs: 0,
    expiresMs: null,
    tries: 0,
    crashes: 0,
    attributes: {},
    ...over,
  };
}

/** Puts rows together to lanes as a tick reads them. */
export function lanesOf(rows: readonly LaneRow[]): readonly LaneRead[] {
  return [...Map.groupBy(rows, laneName).values()].flatMap((own): LaneRead[] => {
    const [first] = own;
    if (first === undefined) return [];
    const { queue, key, paged, wanted, retryDueMs } = first;
    const jobs = own.flatMap((row): (LaneRow & LaneJob)[] =>
      row.id === null ? [] : [{ ...row, id: row.id }],
    );
    const ahead = own.some((row) => row.ahead) ? { ahead: jobs.filter((job) => job.ahead) } : {};
    return [{ queue, key, paged, wanted, retryDueMs, jobs: jobs.filter((job) => !job.ahead), ...ahead }];
  });
}

/** Returns the jobs of lanes, each with whether it is behind the place of a walk. */
export function rowsOf(lanes: readonly LaneRead[]): readonly (LaneJob & { readonly ahead: boolean })[] {
  return lanes.flatMap(({ jobs, ahead = [] }) => [
    ...jobs.map((job) => ({ ...job, ahead: false })),
    ...ahead.map((job) => ({ ...job, ahead: true })),
  ]);
}
