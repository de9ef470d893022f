import type { Duration } from '@pgqueue/core';
import type { Page, PeekedJob, ScanOptions, WaitingJob } from '@pgqueue/postgres';
import type { SettleVerdict } from '@pgqueue/postgres/internal';
import type { PulledJob } from './pulled-lease.ts';

/** Ids of the jobs of a call, by result. `stale`: the lease had been lost before, and nothing was changed. */
export interface Pulled {
  readonly accepted: readonly string[];
  readonly stale: readonly string[];
}

/** One job or several. */
export type Jobs = PulledJob | readonly PulledJob[];

/**
 * Takes jobs for code that is no handler, with Disque's verbs. A puller is a node like a worker: the same
 * leases, tokens and limits. It sends heartbeats by itself from the first claim on. Its verbs repeat safely
 * after transient errors.
 */
export interface Puller {
  readonly node: string;
  /** Number of jobs that the puller holds. */
  readonly held: number;
  /**
   * Leases up to `max` jobs (default 1; a bundle that the puller takes whole counts as one), and waits up to
   * `waitMs` (default 0, up to 86,400,000) for the first; a statement under way is waited for. The first call
   * registers the node. A database that cannot be reached is tried again until then, and its error is thrown.
   * @throws {PgQueueError} `configuration`, `schema_version`, `node_id_in_use`; `node_ended`: it was closed
   */
  claim(wanted?: { readonly max?: number; readonly waitMs?: number }): Promise<readonly PulledJob[]>;
  /**
   * Settles jobs as done, with a result that JSON can hold.
   * @throws {PgQueueError} `configuration`: the result is an Error, or there is no job, as in the other verbs
   */
  ack(jobs: Jobs, result?: unknown): Promise<Pulled>;
  /**
   * Settles a job as failed. It is tried again after its own backoff, or after `delay`, and is dead when its
   * tries are used up. `stale`: the lease was lost.
   */
  nack(
    job: PulledJob,
    error: unknown,
    delay?: Duration,
  ): Promise<Exclude<SettleVerdict, 'repeated'> | 'stale'>;
  /** Moves the ends of the leases to this long from now. */
  extend(jobs: Jobs, by: Duration): Promise<Pulled>;
  /** Gives jobs back unrun; nothing is counted. */
  release(jobs: Jobs): Promise<Pulled>;
  /**
   * Returns the first waiting jobs of a queue by priority and age, without taking them, and without their
   * payloads. Default: 10 jobs of the queue `default`.
   */
  peek(queue?: string, max?: number): Promise<readonly PeekedJob[]>;
  /** Returns how many jobs of a queue wait or run. */
  length(queue?: string): Promise<number>;
  /** Returns all waiting jobs, page by page. */
  scan(options?: ScanOptions): Promise<Page<WaitingJob>>;
  /** Releases all jobs that the puller holds, and leaves. May be called again. */
  close(): Promise<void>;
}

/** Result of one claim. */
export interface AskedJobs {
  readonly jobs: readonly PulledJob[];
  /** Slots that it asked for; 0: all of them are taken, and nobody was asked. */
  readonly room: number;
}

/** A puller whose caller decides when to claim: it pulls from several. */
export interface AskedPuller {
  readonly puller: Puller;
  /**
   * Registers the node.
   * @throws {PgQueueError} `schema_version`, `node_id_in_use`
   */
  start(): Promise<void>;
  /**
   * Claims once, after `start`.
   * @throws {PgQueueError} `node_ended`: it was closed, or is not registered at this moment; `node_id_in_use`
   */
  ask(max: number): Promise<AskedJobs>;
  /** True while hints of work are received. */
  hearing(): boolean;
}
