import type { LaneRead } from '@pgqueue/postgres/internal';
import { jobsOf } from './lanes/known-job.ts';

/**
 * Counts the jobs that hints have passed over since the last read: numbers (`seq`) that were drawn between those of the listed jobs. Most
 * are of enqueues whose own hints follow in a moment. Others are of delayed jobs, of open transactions, or were rolled back.
 */
export interface Unheard {
  /** Returns the highest number of any job seen. */
  readonly highest: () => number;
  /** Call when a plan from hints was written. `seqs`: the numbers of its new jobs, in order; `startedAt`: when its tick began. */
  readonly heard: (seqs: readonly number[], startedAt: number) => void;
  /** Call when waiting jobs were read: these. */
  readonly read: (lanes: readonly LaneRead[]) => void;
  /** Returns when waiting jobs must be read because some were passed over; Infinity: none were. */
  readonly dueAt: () => number;
}

/** Time for the hints of passed jobs to arrive, in milliseconds. Those of one producer are about 1.5 ms apart. */
const waitMs = 20;

export function createUnheard(): Unheard {
  let [highest, readTo, count] = [0, 0, 0];
  let dueAt = Infinity;
  return {
    highest: () => highest,
    heard: (seqs, startedAt) => {
      for (const seq of seqs) {
        if (seq > highest) count += seq - highest - 1;
        else if (seq > readTo) count -= 1;
        highest = Math.max(highest, seq);
      }
      dueAt = count === 0 ? Infinity : Math.min(dueAt, startedAt + waitMs);
    },
    read: (lanes) => {
      for (const lane of lanes) for (const { seq } of jobsOf(lane)) highest = Math.max(highest, seq);
      [readTo, count, dueAt] = [highest, 0, Infinity];
    },
    dueAt: () => dueAt,
  };
}
