import type { Duration } from '@pgqueue/core';
import type { Page, PeekedJob, ScanOptions, Verdict, WaitingJob } from '@pgqueue/postgres';
import type { PulledJob } from './pulled-lease.ts';

/** What became of jobs that were named: `stale` ones were lost before, and nothing of them was changed. */
export interface Pulled {
  readonly accepted: readonly string[];
  readonly stale: readonly string[];
}

/** One job or several. */
export type Jobs = PulledJob | readonly PulledJob[];

/**
 * Jobs for code that is no handler, with Disque's verbs. A puller is a node like a worker: the same leases, tokens and
 * limits; it beats by itself from the first claim on. Its verbs repeat what meets a transient error, safely.
 */
export interface Puller {
  readonly node: string;
  /** Jobs that it holds. */
  readonly held: number;
  /**
   * Leases up to `max` jobs (default 1; a bundle that it takes whole counts as one), waiting up to `waitMs` (default 0) for the first.
   * The first call registers the node.
   * @throws {PgQueueError} `schema_version`, `node_id_in_use`
   */
  claim(wanted?: { readonly max?: number; readonly waitMs?: number }): Promise<readonly PulledJob[]>;
  /** Done, with a result that JSON can hold. */
  ack(jobs: Jobs, result?: unknown): Promise<Pulled>;
  /** Failed: tried again after its own backoff, or after `delay`; dead when its tries are used up. `stale`: the lease was lost. */
  nack(job: PulledJob, error: unknown, delay?: Duration): Promise<Exclude<Verdict, 'repeated'> | 'stale'>;
  /** Still working: the leases end this long from now. */
  extend(jobs: Jobs, by: Duration): Promise<Pulled>;
  /** Gives them back unrun; nothing is counted. */
  release(jobs: Jobs): Promise<Pulled>;
  /** The first waiting jobs of a queue by priority and age, without taking them, and without their payloads. */
  peek(queue?: string, max?: number): Promise<readonly PeekedJob[]>;
  /** How many jobs of a queue wait or run. */
  length(queue?: string): Promise<number>;
  /** All waiting jobs, page by page. */
  scan(options?: ScanOptions): Promise<Page<WaitingJob>>;
  /** Releases what it holds, and leaves. May be called again. */
  close(): Promise<void>;
}
