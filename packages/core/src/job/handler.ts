import type { Duration } from '../options/duration.ts';
import { throwProblems } from '../errors.ts';
import type { Rule } from '../options/options.ts';
import { aFunction, optionProblems } from '../options/options.ts';
import type { IsolatedHandler } from './isolated.ts';
import { isIsolated } from './isolated.ts';
import type { Outcome } from './outcome.ts';
import type { Handler, JobContext, JobLogger, Settle, Task, TransactionClient } from './task.ts';

/** One job of a bundle: its checked payload, and the facts that `ctx.job` has for a job that runs alone. */
export type BatchJob<Payload = unknown, Saved = unknown> = JobContext<Saved>['job'] & {
  readonly payload: Payload;
  /**
   * Aborts when this job must stop because its lease was lost or it was cancelled, and when the whole bundle
   * must stop.
   */
  readonly signal: AbortSignal;
};

/** Context of a running handler of bundles. */
export interface BatchContext<Saved = unknown> {
  /**
   * Aborts with a reason (see {@link AbortReason}) when the whole bundle must stop: timed out, shutting down,
   * or every job lost or cancelled.
   */
  readonly signal: AbortSignal;
  /**
   * Moves the ends of all leases to `by` from now. Resolves to false when every lease was lost. A job whose
   * lease was lost has its own signal aborted.
   */
  readonly extend: (by: Duration) => Promise<boolean>;
  /**
   * Replaces the progress that is shown of each job while the bundle runs: up to 8 KiB of JSON. Resolves to
   * false when every lease was lost.
   * @throws {PgQueueError} `invalid_job`: as that of {@link JobContext}
   */
  readonly progress: (value: unknown) => Promise<boolean>;
  /**
   * Saves resume data for one of the jobs: see {@link JobContext}. The next attempt of the job may be in
   * another bundle.
   */
  readonly checkpoint: (job: BatchJob, data: Saved | null) => Promise<boolean>;
  readonly log: JobLogger;
  /**
   * Runs `work` in one transaction with the settlement of the bundle: its writes and *done* of every job
   * commit together, exactly once. Throws, and rolls back, when the lease of any job was lost, since `work`
   * may have written for that job too. Call it again with the remaining jobs in `jobs`. For jobs settled this
   * way, the handler's return value is ignored. If the task has a schema for results, the value of `work` has
   * the results, as the return value of a {@link BatchHandler} has, but no outcomes and no errors.
   */
  readonly transaction: <Value>(
    work: (client: TransactionClient) => Promise<Value>,
    options?: { readonly jobs?: readonly BatchJob[] },
  ) => Promise<Value>;
  /** Same as `transaction`, in a transaction of your own library: see {@link JobContext}. */
  readonly settleIn: (
    run: (settle: Settle) => Promise<unknown>,
    options?: { readonly jobs?: readonly BatchJob[] },
  ) => Promise<void>;
}

/**
 * The code of a task that takes several jobs at once. Its return value says how the jobs ended:
 * - a list with an element for each job, in their order, or a Map by job id (a job missing from the Map is
 *   done): each element is that job's result or {@link Outcome}. An element that is an Error, or a promise
 *   that rejects, fails that job alone.
 * - anything else is the result, or the {@link Outcome}, of every job.
 *
 * An error that it throws fails every job: each is retried by its own retry policy, on its own count, and
 * runs alone when its next failure would be its last. The same happens for a list of another length, and for
 * a Map that names other jobs, since nothing tells which jobs failed. It may run more than once for a job,
 * with other jobs in the bundle.
 */
export type BatchHandler<Output, Result, Saved = unknown> = (
  jobs: readonly BatchJob<Output, Saved>[],
  context: BatchContext<Saved>,
) => Promise<BatchReturn<Result>> | BatchReturn<Result>;

/**
 * Values that a handler of bundles may return: see {@link BatchHandler}. A result that is a list itself can't
 * be given for all jobs at once.
 */
export type BatchReturn<Result> =
  | (Result extends readonly unknown[] | ReadonlyMap<unknown, unknown> ? never : Result)
  | Outcome<Result>
  | readonly BatchEnd<Result>[]
  | ReadonlyMap<string, BatchEnd<Result>>;

type BatchEnd<Result> = Result | Outcome<Result> | Error | Promise<Result | Outcome<Result>>;

/**
 * A task with the code that runs one job of it. Made by {@link implement}. `Input`: the payload that an
 * enqueue takes. `Result`: the job's result. Left out, they are any, so that handlers of different tasks fit
 * into one list.
 */
// oxlint-disable-next-line typescript/no-explicit-any
export interface SingleTaskHandler<Input = any, Result = any> {
  readonly kind: 'pgqueue.handler';
  // the handler's own payload type is only known when it runs
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly task: Task<Input, any, any, Result>;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly handler: Handler<any, any, any, any> | IsolatedHandler;
}

/** A task with the code that runs several jobs of it at once. Made by {@link implementBatch}. */
export interface BatchTaskHandler {
  readonly kind: 'pgqueue.batch_handler';
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly task: Task<any, any, any, any>;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly handler: BatchHandler<any, any, any>;
}

/** A task with the code that runs it, for `createWorker`. */
export type TaskHandler = SingleTaskHandler | BatchTaskHandler;

/**
 * Joins a task with its handler. A handler for another payload, or with another result, does not compile.
 * @throws {PgQueueError} `configuration`
 */
export function implement<Input, Output, Result, Saved = unknown, Needs = unknown>(
  task: Task<Input, Output, Saved, Result, string, Needs>,
  handler: Handler<Output, NoInfer<Result>, Saved, NoInfer<Needs>> | IsolatedHandler,
): SingleTaskHandler<Input, Result> {
  checkHandler('implement', task, isIsolated(handler) ? () => {} : handler);
  return { kind: 'pgqueue.handler', task, handler };
}

/**
 * Joins a task with a handler of bundles. One call takes the jobs that the policy's `coalesce` has put
 * together, in the order of dispatch, and uses one of the node's slots. A job that was scheduled alone comes
 * as a list of one.
 * @throws {PgQueueError} `configuration`
 */
export function implementBatch<Input, Output, Result, Saved = unknown>(
  task: Task<Input, Output, Saved, Result>,
  handler: BatchHandler<Output, NoInfer<Result>, Saved>,
): BatchTaskHandler {
  checkHandler('implementBatch', task, handler);
  return { kind: 'pgqueue.batch_handler', task, handler };
}

function checkHandler(by: string, task: unknown, handler: unknown): void {
  const rules = { task: aTask, handler: aHandler };
  const name = isTask(task) ? ` of task ${JSON.stringify(task.name)}` : '';
  throwProblems('configuration', `${by}(task, handler)${name}`, optionProblems({ task, handler }, rules));
}

const aHandler: Rule = {
  ...aFunction,
  judge: (value, path) =>
    typeof value === 'function' &&
    (isHandlerFunction(value) || [`${path} must not be a generator: a call of one runs nothing`]),
};

/** Reports whether a call of a value runs it: a generator's call only returns an iterator, and its job would be done on nothing. */
export function isHandlerFunction(value: unknown): boolean {
  return typeof value === 'function' && !Object.prototype.toString.call(value).includes('Generator');
}

const aTask: Rule = { expected: 'made by defineTask', judge: isTask };

/** Reports whether a value was made by {@link defineTask}. */
export function isTask(value: unknown): value is Task {
  if (typeof value !== 'object' || value === null) return false;
  const { name, job, parse } = value as Partial<Task>;
  return typeof name === 'string' && typeof job === 'function' && typeof parse === 'function';
}

/** Reports whether a value was made by {@link implement} or {@link implementBatch}. */
export function isTaskHandler(value: unknown): value is TaskHandler {
  if (typeof value !== 'object' || value === null) return false;
  const { kind } = value as { readonly kind?: unknown };
  return kind === 'pgqueue.handler' || kind === 'pgqueue.batch_handler';
}
