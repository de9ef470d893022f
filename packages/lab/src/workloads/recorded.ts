import type { Attributes } from '@pgqueue/core';
import type { Arrival } from './workload.ts';

/** A job of the recorded past, as `createOperator(…).recorded()` gives it. */
export interface Recorded {
  readonly id: string;
  readonly queue: string;
  readonly key: string;
  readonly task: string;
  readonly version: number;
  readonly priority: number;
  readonly attributes: Attributes;
  readonly tries: number;
  readonly created: Date;
  readonly started: Date;
  readonly finished: Date;
}

/**
 * The job as it would arrive again: it takes what its last attempt took, and fails as often as it did. What a schedule or a delay kept
 * back is not recorded: such a job is taken to have been due when it was enqueued.
 */
export function toArrival({ created, started, finished, tries, ...job }: Recorded): Arrival {
  const { id, queue, key, task, version, priority, attributes } = job;
  return {
    id,
    queue,
    key,
    task,
    version,
    priority,
    attributes,
    atMs: created.getTime(),
    durationMs: Math.max(0, finished.getTime() - started.getTime()),
    failures: tries,
  };
}
