import type { Duration } from '../options/duration.ts';
import type { Backoff, RetryOptions } from './retry-policy.ts';

/** A value that survives JSON unchanged. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };

/** Small flat JSON on a job that gates and orders may read. */
export type Attributes = Readonly<Record<string, string | number | boolean | null>>;

/** W3C trace context, carried from enqueue to handler. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
  /** Id of the flow, and name of its step, that a job was started with. */
  readonly flow?: string;
  readonly step?: string;
}

/** Status of a job. The first four are in QUEUE and WORK_QUEUE, the others are terminal. */
export type JobStatus =
  | 'delayed'
  | 'pending'
  | 'ready'
  | 'running'
  | 'done'
  | 'cancelled'
  | 'expired'
  | 'dead';

/** Every status, in the order of a job's life. */
export const jobStatuses: readonly JobStatus[] = [
  'delayed',
  'pending',
  'ready',
  'running',
  'done',
  'cancelled',
  'expired',
  'dead',
];

/**
 * Unique key of a job: at most one unfinished job of a task has it. `onConflict` says what an enqueue does
 * with the job that has it already:
 *
 * - `keep` leaves that job as it is.
 * - `replace` gives a waiting job the new payload, priority, attributes and `expiresAt`, and the new trace if
 *   there is one, at its old time. A running job can't take a new payload, nor can one whose handler waits for a signal
 *   or for other jobs: it gives up its key, and the new job is enqueued behind it. One that sleeps, or waits for its
 *   next try, takes it, and begins anew.
 * - `debounce` does the same, and sets a new `runAfter`.
 * - `supersede` enqueues the new job under its own id, and cancels the older one: a waiting job ends as
 *   cancelled; a running job gives up its key, and its signal aborts as cancelled. The new job may start before
 *   the handler of the older one has returned. For one at a time, add a `key` and the policy `ordered`.
 */
export interface Unique {
  readonly key: string;
  readonly onConflict?: 'keep' | 'replace' | 'debounce' | 'supersede';
  /**
   * With `debounce` only: longest time from a job's first enqueue until it is due, however often it is
   * debounced. Positive. Default: no limit.
   */
  readonly maxWait?: Duration;
}

/**
 * Options of a job at enqueue. An option that is left out comes from the job's task, then from the default
 * named here.
 */
export interface JobOptions {
  /**
   * UUID made by the caller: enqueuing the same id again changes nothing. A transaction that this is done in must be READ
   * COMMITTED. Default: a new UUID v7.
   */
  readonly id?: string;
  /** Name of the queue, 1 to 100 characters. Default `default`. */
  readonly queue?: string;
  /** Fairness key (a tenant, a customer), up to 200 characters. Default `''`. */
  readonly key?: string;
  /** A whole number of 32 bits. Smaller runs first, within its key. Default 0. */
  readonly priority?: number;
  readonly attributes?: Attributes;
  /** Earliest start, by the database's clock. Not together with `delay`. */
  readonly runAfter?: Date;
  /** Time from now to the earliest start, by the database's clock. Not together with `runAfter`. */
  readonly delay?: Duration;
  /** Latest start, also of a later try. A job that was not started by then ends as expired. One that pauses between its steps does not. */
  readonly expiresAt?: Date;
  /** Longest time of one attempt before its lease ends. The handler can extend it. Default 5 minutes. */
  readonly timeout?: Duration;
  readonly retry?: RetryOptions;
  /** Unique key. A text means `{ key, onConflict: "keep" }` with that text as the key. */
  readonly uniqueKey?: string | Unique;
  readonly trace?: TraceContext;
}

/** Names a member that no object has: it carries the type of a job's result from its task to whoever awaits it. */
declare const resultOf: unique symbol;

/**
 * A job that is built but not enqueued: returned by {@link Task.job}, taken by `enqueueMany` and by the steps
 * of a flow.
 */
export interface NewJob<Result = unknown, Name extends string = string, Needs = unknown> {
  /** Exists in types only. */
  readonly [resultOf]?: () => Result;
  readonly task: Name;
  /** Steps whose results the task reads: see `needs` of {@link TaskDefinition}. */
  readonly needs?: Needs;
  readonly payloadVersion: number;
  readonly payload: unknown;
  readonly options: JobOptions;
  /**
   * Returns the problems of the payload; empty when there are none. A promise only when its schema returns
   * one.
   */
  readonly check: (payload: unknown) => readonly string[] | Promise<readonly string[]>;
}

/**
 * A job in the form of its QUEUE row: validated, with every default applied and durations in milliseconds.
 */
export interface JobRow {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly priority: number;
  readonly attributes: Attributes;
  readonly runAfter: Date | null;
  readonly delayMs: number | null;
  readonly expiresAt: Date | null;
  readonly timeoutMs: number | null;
  readonly maxTries: number;
  readonly maxCrashes: number;
  readonly retry: Backoff | null;
  readonly unique: {
    readonly key: string;
    readonly onConflict: NonNullable<Unique['onConflict']>;
    readonly maxWaitMs: number | null;
  } | null;
  /** JSON text. */
  readonly payload: string;
  readonly payloadVersion: number;
  readonly trace: TraceContext | null;
}

/**
 * Outcome of one enqueue. `id` is the job that stands for it: the older one when that was kept, replaced or
 * debounced, otherwise the new one. `superseded`: the new job was enqueued, and an older one was cancelled.
 * `Result`: the type that `producer.result` resolves to.
 */
export interface Enqueued<Result = unknown> {
  /** Exists in types only. */
  readonly [resultOf]?: () => Result;
  readonly id: string;
  readonly outcome: 'enqueued' | 'repeated' | 'kept' | 'replaced' | 'debounced' | 'superseded';
}

/** A job as a node claims it: leased under `token` for `leaseMs` from the moment the claim was sent. */
export interface ClaimedJob extends Omit<
  JobRow,
  'payload' | 'runAfter' | 'delayMs' | 'expiresAt' | 'timeoutMs' | 'maxCrashes' | 'unique'
> {
  readonly token: string;
  readonly position: number;
  readonly payload: unknown;
  /** Attempts that ran to an error before this one. */
  readonly tries: number;
  readonly crashes: number;
  readonly created: Date;
  readonly leaseMs: number;
  /**
   * Id of the first job of its bundle, which one handler call takes together. Null: it was scheduled alone.
   */
  readonly bundle: string | null;
  /** Data that an earlier attempt saved with `ctx.checkpoint`. Null: none. */
  readonly checkpoint: unknown;
}
