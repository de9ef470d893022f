import type {
  AbortReason,
  JobOptions,
  PgQueueEvent,
  Rule,
  Shape,
  SingleTaskHandler,
  TaskHandler,
} from '@pgqueue/core';
import {
  aNumber,
  anObject,
  anything,
  isTaskHandler,
  oneOf,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core';
import { runAttempt } from '@pgqueue/worker/steps';
import type { TestedDatabase } from '../drain/options.ts';
import { aTestedDatabase } from '../drain/options.ts';
import { leaseFrom, leaseInMemory } from './leased.ts';
import type { LoggedLine, Notes } from './noted-context.ts';
import { newNotes, notedHandler, notedLogger, notedTarget } from './noted-context.ts';

/** What {@link runHandler} takes beside the handler and its payload. */
export interface RunHandlerOptions {
  /** Where the job is enqueued, leased and settled; `ctx.transaction` and `ctx.settleIn` need one. Default: in memory only. */
  readonly database?: TestedDatabase;
  /** As at enqueue: key, attributes, timeout (in real time) and so on. A delay is not waited for. */
  readonly job?: JobOptions;
  /** Attempts that ran to an error before this one. Default 0. */
  readonly tries?: number;
  /** Leases that were lost with their node before. Default 0. */
  readonly crashes?: number;
  /** What an earlier attempt kept. Default: nothing. */
  readonly checkpoint?: unknown;
  /** Aborts the attempt, for a reason and when that resolves; without `when`, before the handler begins. */
  readonly abort?: {
    readonly reason: Exclude<AbortReason, 'timeout'>;
    readonly when?: PromiseLike<unknown>;
  };
}

/** How one attempt of a handler ended, and what it did. */
export interface HandlerRun {
  /** As it was settled. `released`: given back, since its node was stopping. `lost`: its lease was, and nothing was settled. */
  readonly outcome: 'done' | 'retry' | 'snooze' | 'dead' | 'cancelled' | 'released' | 'lost';
  /** What the handler returned, before it became JSON. */
  readonly result: unknown;
  /** The very error that it threw, or what was wrong; undefined: nothing. */
  readonly error: unknown;
  /** Until the next attempt, of a retry or a snooze. */
  readonly delayMs: number | null;
  /** What was shown as progress, in order. */
  readonly progress: readonly unknown[];
  /** What was kept, in order: a next attempt would find the last. */
  readonly checkpoints: readonly unknown[];
  /** By how much the lease was extended, in milliseconds, in order. */
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
  abort: optional(
    anObject({ reason: oneOf('cancelled', 'shutdown', 'lease_lost', 'node_lost'), when: optional(anything) }),
  ),
};

const aSingleHandler: Rule = {
  expected: 'made by implement (handlers of bundles run in a drain)',
  judge: (value) => isTaskHandler(value) && value.kind === 'pgqueue.handler',
};

/**
 * Runs one attempt of one handler as a worker does, with the whole context: payload and upcasters checked, timeout, checkpoint,
 * progress, log, cancellation, and its outcome as a value. Throws nothing that the handler throws.
 * @throws {PgQueueError} `configuration`, `invalid_job`; with a database `leadership_lost`, where a scheduler leads there
 */
export async function runHandler(
  handler: SingleTaskHandler | TaskHandler,
  payload: unknown,
  options: RunHandlerOptions = {},
): Promise<HandlerRun> {
  throwProblems('configuration', 'runHandler(handler, payload, options)', [
    ...optionProblems({ handler }, { handler: aSingleHandler }),
    ...optionProblems(options, shape),
  ]);
  const found = handler as SingleTaskHandler;
  const { database, job = {}, tries = 0, crashes = 0, checkpoint = null } = options;
  const notes = newNotes();
  const noted = notedHandler(found, notes);
  const input = { handler: noted, payload, options: job, before: { tries, crashes, checkpoint } };
  const leased = await (database === undefined ? leaseInMemory(input) : leaseFrom(database, input));
  const ends = createEnds();
  try {
    const attempt = runAttempt({
      ...leased,
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
  return summary(ends, notes, options.abort?.reason);
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
  const outcome = settled?.verdict ?? (lost ? 'lost' : 'released');
  const { result, delayMs, progress, checkpoints, extended, logs } = notes;
  const waits = outcome === 'retry' || outcome === 'snooze';
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
    extended,
    logs,
    durationMs: settled?.durationMs ?? performance.now() - ends.startedAt,
  };
}
