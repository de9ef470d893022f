import type { Attributes } from '@pgqueue/core';
import type { Arrival } from './arrival.ts';

/** A recorded job, as returned by `createOperator(…).recorded()`. */
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
 * Converts a recorded job to an arrival with the duration of its last attempt and the same number of
 * failures. Delays by a schedule or by `run_after` are not recorded: such a job counts as due when it was
 * enqueued.
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
