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
}

/** Where a job stands. The first four are in QUEUE and WORK_QUEUE, the others are terminal. */
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
 * At most one unfinished job of a task has a given unique key. When there is one already:
 * `keep` leaves it as it is; `replace` gives a waiting job the new payload, priority and attributes, at its old time;
 * `debounce` does so too, and sets its `runAfter` anew. A job that is already running can't take a new payload: it gives up
 * its key, and the new job is enqueued behind it.
 */
export interface Unique {
  readonly key: string;
  readonly onConflict?: 'keep' | 'replace' | 'debounce';
}

/** What can be said of a job at enqueue. What is left out comes from its task, then from the defaults named here. */
export interface JobOptions {
  /** A UUID of the caller's making: enqueuing the same id again changes nothing. Default: a new UUID v7. */
  readonly id?: string;
  /** The named line it waits in, 1 to 100 characters. Default `default`. */
  readonly queue?: string;
  /** Its fairness key (a tenant, a customer), up to 200 characters. Default `''`. */
  readonly key?: string;
  /** A whole number of 32 bits; smaller runs first, within its key. Default 0. */
  readonly priority?: number;
  readonly attributes?: Attributes;
  /** Not before this time (by the database's clock). Not together with `delay`. */
  readonly runAfter?: Date;
  /** Not before this long from now (by the database's clock). Not together with `runAfter`. */
  readonly delay?: Duration;
  /** If it was not started by then, it ends as expired. */
  readonly expiresAt?: Date;
  /** How long one attempt may take before its lease ends; the handler can extend it. Default 5 minutes. */
  readonly timeout?: Duration;
  readonly retry?: RetryOptions;
  /** A unique key alone means `{ key, onConflict: "keep" }`. */
  readonly uniqueKey?: string | Unique;
  readonly trace?: TraceContext;
}

/** A job that was built and not enqueued yet: what {@link Task.job} returns and `enqueueMany` takes. */
export interface NewJob {
  readonly task: string;
  readonly payloadVersion: number;
  readonly payload: unknown;
  readonly options: JobOptions;
  /** What is wrong with the payload; empty where nothing is. A promise only where its schema gives one. */
  readonly check: (payload: unknown) => readonly string[] | Promise<readonly string[]>;
}

/** A job as its QUEUE row wants it: validated, every default applied, durations in milliseconds. */
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
    readonly onConflict: 'keep' | 'replace' | 'debounce';
  } | null;
  /** JSON text. */
  readonly payload: string;
  readonly payloadVersion: number;
  readonly trace: TraceContext | null;
}

/** What became of one enqueue. `id` is the job that now stands for it: an older one where it was kept, replaced or debounced. */
export interface Enqueued {
  readonly id: string;
  readonly outcome: 'enqueued' | 'repeated' | 'kept' | 'replaced' | 'debounced';
}

/** A job as a node claims it: leased until `leaseMs` from the moment the claim was sent, under `token`. */
export interface ClaimedJob {
  readonly id: string;
  readonly token: string;
  readonly position: number;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly priority: number;
  readonly attributes: Attributes;
  readonly payload: unknown;
  readonly payloadVersion: number;
  /** Attempts that ran to an error before this one. */
  readonly tries: number;
  readonly maxTries: number;
  readonly crashes: number;
  readonly retry: Backoff | null;
  readonly trace: TraceContext | null;
  readonly created: Date;
  readonly leaseMs: number;
  /** Jobs that one handler call takes together share it: the id of the first. Null: it was scheduled alone. */
  readonly bundle: string | null;
  /** What an earlier attempt left for this one (`ctx.checkpoint`); null: nothing. */
  readonly checkpoint: unknown;
}
