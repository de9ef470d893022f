import type { Candidate } from '@pgqueue/core';
import type { SimStep } from './steps.ts';

/** A job during a simulation. */
export interface SimJob {
  /** Facts that policies see. */
  facts: Candidate;
  /** Number by which its random numbers are drawn: the same under each policy. */
  readonly draw: number;
  /** Null: it belongs to no flow. */
  readonly step: SimStep | null;
  readonly durationMs: number;
  readonly deadlineMs: number | null;
  /** Attempts that fail before one can succeed. */
  readonly failures: number;
  crashes: number;
  /** Number of attempts that were started. */
  attempts: number;
  waits: boolean;
  /** Group within its lane, as the policy's gates distinguish jobs. '' without kinds. */
  kind: string;
}

/** Waiting jobs of one lane, by priority, then `seq`. Built to hold a million jobs. */
export interface Line {
  readonly size: () => number;
  /**
   * Adds a job. Returns false only if the job is certainly not among the first `within`; with several
   * priorities the result is always true.
   */
  readonly add: (job: SimJob, within: number) => boolean;
  readonly remove: (job: SimJob) => void;
  /** Returns the first `count` jobs. */
  readonly first: (count: number) => readonly SimJob[];
}

/**
 * Jobs of one priority, by `seq`. Jobs that do not wait any more keep their entries until they are passed or
 * swept.
 */
interface Rank {
  readonly priority: number;
  jobs: SimJob[];
  start: number;
  gone: number;
}

/** Number of outdated entries that are tolerated before a rank is swept. */
const goneMin = 32;

export function createLine(): Line {
  const ranks: Rank[] = [];
  let size = 0;
  return {
    size: () => size,
    add: (job, within) => {
      job.waits = true;
      size += 1;
      const rank = rankOf(ranks, job.facts.priority);
      return put(rank, job) < within || ranks.length > 1;
    },
    remove: (job) => {
      job.waits = false;
      size -= 1;
      const rank = rankOf(ranks, job.facts.priority);
      rank.gone += 1;
      sweep(rank);
      if (rank.jobs.length === rank.start && ranks.length > 1) ranks.splice(ranks.indexOf(rank), 1);
    },
    first: (count) => {
      const found: SimJob[] = [];
      for (const { jobs, start } of ranks) {
        for (let at = start; at < jobs.length && found.length < count; at += 1) {
          const job = jobs[at];
          if (job?.waits === true) found.push(job);
        }
        if (found.length >= count) break;
      }
      return found;
    },
  };
}

function rankOf(ranks: Rank[], priority: number): Rank {
  let at = 0;
  for (const rank of ranks) {
    if (rank.priority === priority) return rank;
    if (rank.priority > priority) break;
    at += 1;
  }
  const rank: Rank = { priority, jobs: [], start: 0, gone: 0 };
  ranks.splice(at, 0, rank);
  return rank;
}

/** Inserts a job. Returns the number of entries before it, outdated ones included. */
function put(rank: Rank, job: SimJob): number {
  const { jobs } = rank;
  const { seq } = job.facts;
  const last = jobs.at(-1);
  if (last === undefined || last.facts.seq < seq) return jobs.push(job) - 1 - rank.start;
  let [low, high] = [rank.start, jobs.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((jobs[middle]?.facts.seq ?? Infinity) < seq) low = middle + 1;
    else high = middle;
  }
  if (jobs[low] === job) {
    // the job went while others before it waited, and its old entry has not been swept yet
    rank.gone -= 1;
    return low - rank.start;
  }
  // a job that comes back belongs near the front, where earlier jobs have left room
  if (rank.start > 0 && low - rank.start < jobs.length - low) {
    rank.start -= 1;
    jobs.copyWithin(rank.start, rank.start + 1, low);
    jobs[low - 1] = job;
    return low - 1 - rank.start;
  }
  jobs.splice(low, 0, job);
  return low - rank.start;
}

function sweep(rank: Rank): void {
  const { jobs } = rank;
  while (rank.start < jobs.length && jobs[rank.start]?.waits === false) {
    rank.start += 1;
    rank.gone -= 1;
  }
  if (rank.gone > goneMin && rank.gone * 2 > jobs.length - rank.start) {
    rank.jobs = jobs.slice(rank.start).filter(({ waits }) => waits);
    [rank.start, rank.gone] = [0, 0];
  } else if (rank.start > 1_024 && rank.start * 2 > jobs.length) {
    rank.jobs = jobs.slice(rank.start);
    rank.start = 0;
  }
}
