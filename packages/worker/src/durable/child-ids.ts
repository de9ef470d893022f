import type { EndedJob } from '@pgqueue/core';
import type { EndInStep } from '@pgqueue/postgres/internal';
import { resultOf } from '../flow/needs.ts';

/** Hexadecimal digits of an id that hold the place of a job. */
const placeDigits = 8;

/**
 * Returns the id of a job that a job waits for: that of the flow, with the place of the job in its last 32 bits. So
 * ids need not be kept to tell the order of thousands of jobs. The other 42 random bits, and the time, come from the
 * flow's own id, a UUID v7.
 */
export function childId(flow: string, index: number): string {
  return flow.slice(0, -placeDigits) + (index + 1).toString(16).padStart(placeDigits, '0');
}

/**
 * Returns the ends of all jobs in their order. A job without an end in the list is done, and has no result: the
 * flow has ended, and all other ends are stored.
 * @throws {PgQueueError} `result_lost`
 */
export function inOrder(flow: string, count: number, ends: readonly EndInStep[]): readonly EndedJob[] {
  const byId = new Map(ends.map((end) => [end.job, end]));
  return Array.from({ length: count }, (_, index): EndedJob => {
    const job = childId(flow, index);
    const end = byId.get(job);
    if (end === undefined) return { job, outcome: 'done', result: null };
    const { outcome } = end;
    return outcome === 'done' ? { job, outcome, result: resultOf(end) } : { job, outcome, result: null };
  });
}
