import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Duration } from '../options/duration.ts';
import type { NewJob } from './job.ts';
import type { NeedFailure, NeedResult } from './needs.ts';

/** End of a job that a handler has waited for with `ctx.all`. */
export type EndedJob<Result = unknown> =
  /** Null: it is done without a result. */
  NeedResult<Result> | (NeedFailure & { readonly result: null });

/** Ends of several jobs, in their order, each with the type of its result. */
export type EndedJobs<Jobs extends readonly NewJob[]> = {
  readonly [Index in keyof Jobs]: EndedJob<Jobs[Index] extends NewJob<infer Result> ? Result : unknown>;
};

/** Options of `ctx.all`. */
export interface AllOptions {
  /**
   * Allows jobs in the queue of the waiting job with the same key. Without it, they are refused: where the policy
   * is `ordered`, they would wait for the end of the job that waits for them. Default false.
   */
  readonly sameKey?: boolean;
}

/** Options of `ctx.waitForSignal`. */
export interface SignalOptions<Schema extends StandardSchemaV1 = StandardSchemaV1> {
  /** Schema of the value, any Standard Schema. Default: any JSON. */
  readonly schema?: Schema;
  /** Longest wait, counted from the first call of any attempt. Default: none. */
  readonly timeout?: Duration;
}

/**
 * Steps of a handler that outlive an attempt. The results of steps, and the names of waits, are kept with the job's
 * checkpoint, so an attempt after an error, a crash or a wait runs the handler from its beginning, and each of
 * these calls returns what it did before.
 *
 * Names are 1 to 100 characters, each used once in an attempt. A job has at most 100 of them, and with its checkpoint
 * 256 KiB of JSON. A name that the handler no longer uses is left alone. A name must not change its kind.
 *
 * A wait gives the slot back. It ends the attempt by throwing a value of the class `Suspended`, which a handler must
 * let pass: the attempt is over even if it does not. Waits take turns: of two that run at once, the second begins
 * when the first is over. A step that runs beside a wait runs again.
 */
export interface DurableContext {
  /**
   * Runs `work` once, and keeps its result: later attempts get it without running `work`. Resolves to the result
   * as JSON gives it back. When `work` throws, nothing is kept, and its error is thrown. A crash right
   * after `work` runs it again.
   * @throws {PgQueueError} `configuration`: the name, or too many or too long results
   * @throws {AbortedError} the lease was lost
   */
  readonly step: <Value>(name: string, work: () => Promise<Value> | Value) => Promise<Value>;
  /**
   * Waits without a slot. The time counts from the first call of any attempt, by the database's clock.
   * @throws {PgQueueError} `configuration`
   */
  readonly sleep: (name: string, duration: Duration) => Promise<void>;
  /**
   * Enqueues jobs, and waits without a slot until all of them have ended. Resolves to their ends, in the order of
   * the jobs. The jobs are those of the first call: later attempts do not enqueue again. They are steps of a flow of
   * their own, named after the task and `name`, which is cancelled some time after this job has ended without them.
   * Up to 50,000 jobs and 64 MiB of payloads, without ids, unique keys and needs; all of them are checked before
   * any I/O.
   * @throws {PgQueueError} `invalid_job`, `configuration`, `too_many_pending`; `result_lost`: one is done, and its result could
   * not be stored
   */
  readonly all: <const Jobs extends readonly NewJob[]>(
    name: string,
    jobs: Jobs,
    options?: AllOptions,
  ) => Promise<EndedJobs<Jobs>>;
  /**
   * Waits without a slot until somebody gives this job the signal: `producer.signalJob(jobId, name, value)`. The
   * first value wins, also when it came before this call.
   * @throws {PgQueueError} `signal_timeout`: no value came in time, or the wait was cancelled; `configuration`
   * @throws {Error} of the name `ResultError`: the value does not fit the schema
   */
  readonly waitForSignal: <Schema extends StandardSchemaV1 = StandardSchemaV1>(
    name: string,
    options?: SignalOptions<Schema>,
  ) => Promise<StandardSchemaV1.InferOutput<Schema>>;
}
