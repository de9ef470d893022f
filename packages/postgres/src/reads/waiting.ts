import { isUuid } from '@pgqueue/core/internal';
import type { Target } from '../connection/target.ts';
import { ask } from '../connection/target.ts';
import type { Page } from './page.ts';
import { badCursor, checkLimit, pageOf } from './page.ts';

/** A waiting job in a scan. */
export interface WaitingJob {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly priority: number;
  readonly created: Date;
  /** Earliest start; null: it waits for its turn. */
  readonly runAfter: Date | null;
}

/** A waiting job in a peek into its queue. */
export type PeekedJob = Omit<WaitingJob, 'queue'>;

/** Counts the waiting and running jobs of a queue, by the SQL function `queue_length`. */
export async function queueLength(target: Target, queue: string): Promise<number> {
  return (await ask<number>(target, 'queue_length($1)::float8', [queue])) ?? 0;
}

/**
 * Returns the first waiting jobs of a queue by priority and age, without taking them. Reads the SQL function
 * `peek`.
 */
export function peekJobs(target: Target, queue: string, max: number): Promise<readonly PeekedJob[]> {
  return target.query<PeekedJob>(
    `select id, task, key, priority, created, run_after as "runAfter" from ${target.schema}.peek($1, $2)`,
    [queue, max],
  );
}

/** One page of the waiting jobs that match. */
export interface ScanOptions {
  /** Default: all queues. */
  readonly queue?: string;
  /** The `next` of the previous page. */
  readonly after?: string;
  /** 1 to 1000. Default 100. */
  readonly limit?: number;
}

/**
 * Lists waiting jobs page by page, in the order of their ids. Reads the SQL function `scan`.
 * @throws {PgQueueError} `configuration`
 */
export async function scanJobs(target: Target, options: ScanOptions = {}): Promise<Page<WaitingJob>> {
  const { queue = null, after = null, limit = 100 } = options;
  checkLimit(limit);
  if (after !== null && !isUuid(after)) throw badCursor(after);
  const rows = await target.query<WaitingJob>(
    `select id, queue, task, key, priority, created, run_after as "runAfter" from ${target.schema}.scan($1, $2::uuid, $3)`,
    [queue, after, limit + 1],
  );
  return pageOf(rows, limit, { toItem: (row) => row, cursor: ({ id }) => id });
}
