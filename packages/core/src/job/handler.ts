import type { Duration } from '../options/duration.ts';
import { throwProblems } from '../errors.ts';
import type { Rule } from '../options/options.ts';
import { aFunction, optionProblems } from '../options/options.ts';
import type { IsolatedHandler } from './isolated.ts';
import { isIsolated } from './isolated.ts';
import type { Handler, JobContext, JobLogger, Settle, Task, TransactionClient } from './task.ts';

/** One job of a bundle: its checked payload, and what `ctx.job` tells of a job that runs alone. */
export type BatchJob<Payload = unknown, Saved = unknown> = JobContext<Saved>['job'] & {
  readonly payload: Payload;
  /** Aborts when this job alone is to stop: its lease was lost, or it was cancelled; and whenever the whole bundle is. */
  readonly signal: AbortSignal;
};

/** What a handler of bundles can do and know. */
export interface BatchContext<Saved = unknown> {
  /** Aborts with a reason (see {@link AbortReason}) when no job of the bundle is to go on: timed out, shutting down, all lost or cancelled. */
  readonly signal: AbortSignal;
  /** Moves the ends of all leases to this long from now. False: every one of them was lost. Those that were lost abort their job's signal. */
  readonly extend: (by: Duration) => Promise<boolean>;
  /** Replaces what is shown of each job while the bundle runs: up to 8 KiB of JSON. False: every lease was lost. */
  readonly progress: (value: unknown) => Promise<boolean>;
  /** Keeps resume data with one of the jobs: see {@link JobContext}. In the next attempt it may be in another bundle. */
  readonly checkpoint: (job: BatchJob, data: Saved | null) => Promise<boolean>;
  readonly log: JobLogger;
  /**
   * Runs `work` in one transaction with the settlement of the bundle: its writes and *done* of every job commit together, exactly
   * once. Throws, and rolls back, when the lease of any of them was lost: `work` may have written for that one, too. Begin again
   * with the others by naming them in `jobs`. What the handler returns is ignored for jobs that were settled so.
   */
  readonly transaction: <Result>(
    work: (client: TransactionClient) => Promise<Result>,
    options?: { readonly jobs?: readonly BatchJob[] },
  ) => Promise<Result>;
  /** The same in a transaction of your own library: see {@link JobContext}. */
  readonly settleIn: (
    run: (settle: Settle) => Promise<unknown>,
    options?: { readonly jobs?: readonly BatchJob[] },
  ) => Promise<void>;
}

/**
 * The code of a task that takes several jobs at once. What it returns says how they ended:
 * - a list with an element for each job, in their order, or a Map by job id (a job that is missing in it is done): each is that
 *   job's result or {@link Outcome}. One that is an Error, or a promise that rejects, fails that job alone.
 * - anything else is the result, or the {@link Outcome}, of every job.
 *
 * What it throws fails every job: each is tried again by its own retry policy, on its own count, and goes alone when it would be dead
 * the next time. So does a list of another length, and a Map that names other jobs: which of them had failed can't be known. It may run
 * more than once, with other jobs beside.
 */
export type BatchHandler<Output, Result, Saved = unknown> = (
  jobs: readonly BatchJob<Output, Saved>[],
  context: BatchContext<Saved>,
) => Promise<Result> | Result;

/** A task with the code that runs one job of it. Made by {@link implement}. */
export interface SingleTaskHandler {
  readonly kind: 'pgqueue.handler';
  // each handler has its own payload: what they have in common is only known when one is run
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly task: Task<any, any, any>;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly handler: Handler<any, unknown, any> | IsolatedHandler;
}

/** A task with the code that runs several jobs of it at once. Made by {@link implementBatch}. */
export interface BatchTaskHandler {
  readonly kind: 'pgqueue.batch_handler';
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly task: Task<any, any, any>;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly handler: BatchHandler<any, unknown, any>;
}

/** A task with the code that runs it: given to `createWorker`. */
export type TaskHandler = SingleTaskHandler | BatchTaskHandler;

/** Joins a task with its handler. A handler for another payload does not compile. @throws {PgQueueError} `configuration` */
export function implement<Input, Output, Result, Saved = unknown>(
  task: Task<Input, Output, Saved>,
  handler: Handler<Output, Result, Saved> | IsolatedHandler,
): SingleTaskHandler {
  checkHandler('implement', task, isIsolated(handler) ? () => {} : handler);
  return { kind: 'pgqueue.handler', task, handler };
}

/**
 * Joins a task with a handler of bundles: one call takes what the policy's `coalesce` has put together, in the order of dispatch. It
 * uses one of the node's slots. A job that was scheduled alone comes as a list of one.
 * @throws {PgQueueError} `configuration`
 */
export function implementBatch<Input, Output, Result, Saved = unknown>(
  task: Task<Input, Output, Saved>,
  handler: BatchHandler<Output, Result, Saved>,
): BatchTaskHandler {
  checkHandler('implementBatch', task, handler);
  return { kind: 'pgqueue.batch_handler', task, handler };
}

function checkHandler(by: string, task: unknown, handler: unknown): void {
  const rules = { task: aTask, handler: aFunction };
  const name = isTask(task) ? ` of task ${JSON.stringify(task.name)}` : '';
  throwProblems('configuration', `${by}(task, handler)${name}`, optionProblems({ task, handler }, rules));
}

const aTask: Rule = { expected: 'made by defineTask', judge: isTask };

/** Whether a value was made by {@link defineTask}. */
export function isTask(value: unknown): value is Task {
  if (typeof value !== 'object' || value === null) return false;
  const { name, job, parse } = value as Partial<Task>;
  return typeof name === 'string' && typeof job === 'function' && typeof parse === 'function';
}

/** Whether a value was made by {@link implement} or {@link implementBatch}. */
export function isTaskHandler(value: unknown): value is TaskHandler {
  if (typeof value !== 'object' || value === null) return false;
  const { kind } = value as { readonly kind?: unknown };
  return kind === 'pgqueue.handler' || kind === 'pgqueue.batch_handler';
}
