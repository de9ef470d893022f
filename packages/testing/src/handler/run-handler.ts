import type {
  AbortReason,
  JobOptions,
  NewJob,
  PgQueueEvent,
  SingleTaskHandler,
  TaskHandler,
} from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import {
  aFunction,
  aNumber,
  anObject,
  anything,
  aListOf,
  aRecordOf,
  isTaskHandler,
  oneOf,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import type { Around } from '@pgqueue/worker';
import { runAttempt } from '@pgqueue/worker/internal/steps';
import type { TestedDatabase } from '../drain/options.ts';
import { aTestedDatabase } from '../drain/options.ts';
import { leaseFrom, leaseInMemory } from './leased.ts';
import type { LoggedLine, Notes } from './noted-context.ts';
import { newNotes, notedHandler, notedLogger, notedTarget } from './noted-context.ts';

/** Options of {@link runHandler}. */
export interface RunHandlerOptions {
  /**
   * Database in which the job is enqueued, leased and settled; `ctx.transaction` and `ctx.settleIn` need one.
   * Default: in memory only.
   */
  readonly database?: TestedDatabase;
  /**
   * Options of the job, as at enqueue: key, attributes, timeout (in real time) and so on. A delay is not
   * waited for.
   */
  readonly job?: JobOptions;
  /** Number of attempts that ran to an error before this one. Default 0. */
  readonly tries?: number;
  /** Number of leases that were lost with their node before. Default 0. */
  readonly crashes?: number;
  /** Checkpoint of an earlier attempt. Default: none. */
  readonly checkpoint?: unknown;
  /**
   * Results of the steps that the task needs, by name: those of a step's jobs, or a list with the value of a
   * signal. Not together with a database.
   */
  readonly needs?: Readonly<Record<string, readonly unknown[]>>;
  /** Middleware around the handler, as in your worker. Default: none. */
  readonly around?: Around;
  /** Aborts the attempt for a reason, when `when` settles; without `when`, before the handler begins. */
  readonly abort?: {
    readonly reason: Exclude<AbortReason, 'timeout'>;
    readonly when?: PromiseLike<unknown>;
  };
}

/** Result of one attempt: how it ended, and what its handler did. */
export interface HandlerRun<Result = unknown> {
  /**
   * Outcome of the attempt, as it was settled. `suspended`: its job waits, by `ctx.sleep`, `ctx.all` or
   * `ctx.waitForSignal`. `released`: given back, since its node was stopping. `lost`:
   * its lease was lost, and nothing was settled.
   */
  readonly outcome: 'done' | 'retry' | 'snooze' | 'suspended' | 'dead' | 'cancelled' | 'released' | 'lost';
  /**
   * Result of the job, before it became JSON: what the handler returned, or gave to `fanOut` or to its own transaction;
   * undefined unless the job is done.
   */
  readonly result: Result | undefined;
  /** The very error that the handler threw, or a description of the problem; undefined: none. */
  readonly error: unknown;
  /** Milliseconds until the next attempt, after a retry, a snooze or `ctx.sleep`; otherwise null. */
  readonly delayMs: number | null;
  /** Values that were shown as progress, in order. */
  readonly progress: readonly unknown[];
  /** Checkpoints that were kept, in order; a next attempt would find the last one. */
  readonly checkpoints: readonly unknown[];
  /** Jobs that were added, in order: by `ctx.addJobs`, then by the outcome `fanOut`. */
  readonly added: readonly NewJob[];
  /** Extensions of the lease, in milliseconds, in order. */
  readonly extended: readonly number[];
  readonly logs: readonly LoggedLine[];
  readonly durationMs: number;
}

const shape: Shape<RunHandlerOptions> = {
  database: optional(aTestedDatabase),
  job: optional(anything),
  tries: optional(aNumber({ min: 0, max: 1_000, whole: true })),
  crashes: optional(aNumber({ min: 0, max: 1_000, whole: true })),
  checkpoint: optional(anything),
  needs: optional(aRecordOf(aListOf(anything))),
  around: optional(aFunction),
  abort: optional(
    anObject({
      reason: oneOf('cancelled', 'shutdown', 'lease_lost', 'node_silent'),
      when: optional(anything),
    }),
  ),
};

const aSingleHandler: Rule = {
  expected: 'made by implement (handlers of bundles run in a drain)',
  judge: (value) => isTaskHandler(value) && value.kind === 'pgqueue.handler',
};

/**
 * Runs one attempt of one handler as a worker does, with the whole context: checks of payload and upcasters,
 * timeout, checkpoint, progress, log, cancellation, and its outcome as a value. Errors of the handler are
 * part of the result. A payload that does not fit is refused as at enqueue: `task.parse` says why.
 * @throws {PgQueueError} `configuration`, `invalid_job`; with a database `leadership_lost`, if a scheduler
 * leads there
 */
export async function runHandler<Input, Result = unknown>(
  handler: SingleTaskHandler<Input, Result> | TaskHandler,
  payload: NoInfer<Input>,
  options: RunHandlerOptions = {},
): Promise<HandlerRun<Result>> {
  throwProblems('configuration', 'runHandler(handler, payload, options)', [
    ...optionProblems({ handler }, { handler: aSingleHandler }),
    ...optionProblems(options, shape),
  ]);
  const found = handler as SingleTaskHandler;
  const { database, job = {}, tries = 0, crashes = 0, checkpoint = null, needs = {} } = options;
  if (database !== undefined && options.needs !== undefined) {
    throw new PgQueueError(
      'configuration',
      'runHandler: give needs or a database: in a database, start a flow, and drain it',
    );
  }
  const notes = newNotes();
  const noted = notedHandler(found, notes);
  const input = { handler: noted, payload, options: job, before: { tries, crashes, checkpoint }, needs };
  const leased = await (database === undefined ? leaseInMemory(input) : leaseFrom(database, input));
  const ends = createEnds();
  try {
    const attempt = runAttempt({
      ...leased,
      ...(options.around === undefined ? {} : { around: options.around }),
      handler: noted,
      database: notedTarget(leased.database, notes),
      logger: notedLogger(notes),
      observe: ends.observe,
    });
    if (options.abort !== undefined) abortWhen(attempt, options.abort);
    await attempt.ended;
  } finally {
    await leased.end();
  }
  return summary(ends, notes, options.abort?.reason) as HandlerRun<Result>;
}

interface Ends {
  readonly observe: (event: PgQueueEvent) => void;
  readonly settled: () => Extract<PgQueueEvent, { readonly type: 'job.settled' }> | undefined;
  readonly problems: () => readonly string[] | undefined;
  readonly lost: () => boolean;
  readonly lateError: () => unknown;
  readonly startedAt: number;
}

function createEnds(): Ends {
  const seen: PgQueueEvent[] = [];
  return {
    observe: (event) => void seen.push(event),
    settled: () => seen.find((event) => event.type === 'job.settled'),
    problems: () => seen.find((event) => event.type === 'job.invalid')?.problems,
    lost: () => seen.some(({ type }) => type === 'job.stale'),
    lateError: () => seen.find((event) => event.type === 'job.late_error')?.error,
    startedAt: performance.now(),
  };
}

function abortWhen(
  attempt: { readonly abort: (reason: AbortReason) => void },
  { reason, when }: NonNullable<RunHandlerOptions['abort']>,
): void {
  const abort = (): void => attempt.abort(reason);
  if (when === undefined) abort();
  else void Promise.resolve(when).then(abort, abort);
}

function summary(ends: Ends, notes: Notes, aborted: AbortReason | undefined): HandlerRun {
  const settled = ends.settled();
  const problems = ends.problems();
  const lost = ends.lost() || aborted === 'lease_lost';
  const verdict = settled?.verdict ?? (lost ? 'lost' : 'released');
  const outcome = verdict === 'snooze' && notes.suspended ? 'suspended' : verdict;
  const { result, delayMs, progress, checkpoints, added, fanned, extended, logs } = notes;
  const waits = outcome === 'retry' || outcome === 'snooze' || outcome === 'suspended';
  return {
    outcome,
    result: outcome === 'done' ? result : undefined,
    error:
      problems === undefined
        ? (settled?.error ?? ends.lateError())
        : new Error(`the payload does not fit: ${problems.join('; ')}`),
    delayMs: waits ? delayMs : null,
    progress,
    checkpoints,
    added: outcome === 'done' ? [...added, ...fanned] : added,
    extended,
    logs,
    durationMs: settled?.durationMs ?? performance.now() - ends.startedAt,
  };
}
