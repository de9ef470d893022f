import type { Attributes, Candidate } from '@pgqueue/core';
import type { LaneId, LaneJob, LaneRead } from '@pgqueue/postgres/internal';

/** A waiting job as it was read. */
export interface KnownJob extends Candidate {
  readonly rowVersion: string;
  readonly crashes: number;
}

/** Returns the first jobs of a lane, and those of its lookahead window. */
export function jobsOf({ jobs, ahead }: LaneRead): readonly LaneJob[] {
  return ahead === undefined ? jobs : [...jobs, ...ahead];
}

/**
 * Returns the jobs of a lane, each once: its first jobs may overlap its lookahead window. A job that has not
 * changed stays the same object, so anything derived from that object stays valid.
 */
export function toJobs(lane: LaneRead, find: (id: string) => KnownJob | undefined): readonly KnownJob[] {
  const jobs: KnownJob[] = [];
  for (const read of jobsOf(lane)) {
    const known = find(read.id);
    jobs.push(known !== undefined && isSame(known, lane, read) ? known : toJob(lane, read, jobs.at(-1)));
  }
  return lane.ahead === undefined ? jobs : [...new Map(jobs.map((job) => [job.id, job])).values()];
}

/** Every change of a row changes its version. */
function isSame(known: KnownJob, { queue, key }: LaneId, { rowVersion }: LaneJob): boolean {
  return known.rowVersion === rowVersion && known.key === key && known.queue === queue;
}

/**
 * Shared empty attributes. Tens of thousands of jobs are known at a time, so equal values within a lane are
 * shared.
 */
const noAttributes: Attributes = Object.freeze({});

function toJob({ queue, key }: LaneId, job: LaneJob, before: KnownJob | undefined): KnownJob {
  const { id, seq, priority, version, rowVersion, createdMs, expiresMs, tries, lastTry, crashes } = job;
  const task = before?.task === job.task ? before.task : job.task;
  const { attributes: own } = job;
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
    ...(job.flow !== undefined && { flow: job.flow }),
  };
}
