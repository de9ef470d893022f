import type { Candidate } from '@pgqueue/core';
import type { LaneRow } from '@pgqueue/postgres';

/** A waiting job as it was read. */
export interface KnownJob extends Candidate {
  readonly rowVersion: string;
}

/** Once each: the first jobs of a lane may have come up to those that were looked at behind them. */
export function toJobs(rows: readonly LaneRow[]): readonly KnownJob[] {
  const jobs = rows.flatMap(toJob);
  return rows.some(({ ahead }) => ahead) ? [...new Map(jobs.map((job) => [job.id, job])).values()] : jobs;
}

function toJob(row: LaneRow): readonly KnownJob[] {
  const {
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
    attributes,
  } = row;
  if (id === null) return [];
  return [
    { id, queue, key, seq, priority, task, version, rowVersion, createdMs, expiresMs, tries, attributes },
  ];
}
