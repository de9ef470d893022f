import type { Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { aFunction, anything, oneOf, optional, optionProblems, throwProblems } from '@pgqueue/core/internal';
import { countFound, findJobs } from '../dashboard/find-jobs.ts';
import type { Database } from '../connection/database.ts';
import type { FindFilter } from '../reads/job-sources.ts';

/** A filter of unfinished jobs: a job must match every given field. At least one field is required. */
export interface UnfinishedFilter {
  readonly queue?: string;
  readonly task?: string;
  readonly key?: string;
  readonly status?: 'delayed' | 'pending' | 'ready' | 'running';
}

/** Number of jobs that match a filter. */
export interface JobCount {
  readonly count: number;
  /** There may be more: the count stops after 100,000 jobs read. */
  readonly more: boolean;
}

/** Jobs of a bulk cancellation so far, by outcome. */
export interface CancelledJobs {
  /** Waiting jobs that ended at once. */
  readonly cancelled: number;
  /** Running jobs whose signal aborts soon. */
  readonly signalled: number;
  /** Jobs that were being claimed or settled at each of five tries. */
  readonly busy: number;
  /** Jobs that ended by themselves meanwhile. */
  readonly missing: number;
}

/** Options of a bulk cancellation. */
export interface CancelAllOptions {
  /**
   * Called after each page of up to 500 jobs, which is committed by then: a stopped cancellation can be
   * repeated.
   */
  readonly onProgress?: (soFar: CancelledJobs) => void;
}

const countMax = 100_000;
const chunkMax = 500;
const walkMax = 10_000;

const filterShape: Shape<UnfinishedFilter> = {
  queue: optional(anything),
  task: optional(anything),
  key: optional(anything),
  status: optional(oneOf('delayed', 'pending', 'ready', 'running')),
};
const optionsShape: Shape<CancelAllOptions> = { onProgress: optional(aFunction) };

export async function countUnfinished(database: Database, filter: UnfinishedFilter): Promise<JobCount> {
  return countFound(database, { ...checked(filter), max: countMax, walkMax: countMax });
}

/** Cancels page by page, newest first. Jobs enqueued meanwhile are not included. */
export async function cancelUnfinished(
  database: Database,
  filter: UnfinishedFilter,
  {
    cancel,
    ...options
  }: CancelAllOptions & {
    readonly cancel: (
      ids: readonly string[],
    ) => Promise<readonly { readonly verdict: keyof CancelledJobs }[]>;
  },
): Promise<CancelledJobs> {
  throwProblems('configuration', 'a cancellation', optionProblems(options, optionsShape));
  const wanted = checked(filter);
  const counts = { cancelled: 0, signalled: 0, busy: 0, missing: 0 };
  let after: string | undefined;
  do {
    const page = { limit: chunkMax, walkMax, ...(after === undefined ? {} : { after }) };
    const { ids, next } = await findJobs(database, { ...wanted, ...page });
    for (const { verdict } of ids.length === 0 ? [] : await cancel(ids)) counts[verdict] += 1;
    options.onProgress?.({ ...counts });
    after = next ?? undefined;
  } while (after !== undefined);
  return counts;
}

/** Checks a filter: an empty or misspelt one would match every unfinished job. */
function checked(filter: UnfinishedFilter): FindFilter {
  throwProblems('configuration', 'a filter of jobs', optionProblems(filter, filterShape));
  if (Object.values(filter).every((part) => part === undefined))
    throw new PgQueueError('configuration', 'say which jobs are meant: a queue, a task, a key or a status');
  return { ...filter, unfinished: true };
}
