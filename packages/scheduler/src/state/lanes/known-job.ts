import type { Attributes, Candidate } from '@pgqueue/core';
import type { LaneRow } from '@pgqueue/postgres/internal';

/** A waiting job as it was read. */
export interface KnownJob extends Candidate {
  readonly rowVersion: string;
  readonly crashes: number;
}

/**
 * Converts rows to jobs, each job once: the first jobs of a lane may overlap its lookahead window. A row that
 * has not changed keeps its job object, so anything derived from that object stays valid.
 */
export function toJobs(
  rows: readonly LaneRow[],
  find: (id: string) => KnownJob | undefined,
): readonly KnownJob[] {
  const jobs: KnownJob[] = [];
  for (const row of rows) {
    const known = row.id === null ? undefined : find(row.id);
    const job = known !== undefined && isSame(known, row) ? known : toJob(row, jobs.at(-1));
    if (job !== undefined) jobs.push(job);
  }
  return rows.some(({ ahead }) => ahead) ? [...new Map(jobs.map((job) => [job.id, job])).values()] : jobs;
}

/** Every change of a row changes its version. */
function isSame({ rowVersion, key, queue }: KnownJob, row: LaneRow): boolean {
  return rowVersion === row.rowVersion && key === row.key && queue === row.queue;
}

/**
 * Shared empty attributes. Tens of thousands of jobs are known at a time, so equal values within a lane are
 * shared.
 */
const noAttributes: Attributes = Object.freeze({});

function toJob(row: LaneRow, before: KnownJob | undefined): KnownJob | undefined {
  const { id, seq, priority, version, rowVersion, createdMs, expiresMs, tries, lastTry, crashes } = row;
  if (id === null) return undefined;
  const { queue, key } = before ?? row;
  const task = before?.task === row.task ? before.task : row.task;
  const { attributes: own } = row;
  const attributes = own === null || Object.keys(own).length === 0 ? noAttributes : own;
  return {
    id,
    queue,
    key,
    seq,
    priority,
    task,
    version,
    rowVersion,
    createdMs,
    expiresMs,
    tries,
    crashes,
    attributes,
    ...((lastTry === true || crashes > 0) && { alone: true }),
    ...(row.flow !== undefined && { flow: row.flow }),
  };
}
