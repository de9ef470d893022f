import type { BatchContext, BatchJob, JobLogger, Task } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { durationMs, isOutcome } from '@pgqueue/core/internal';
import { AbortedError } from '../lease/timing.ts';
import type { Attempt } from '../attempt/attempt.ts';
import { jobOf } from '../attempt/context.ts';
import { keepCheckpoint } from '../attempt/checkpoint.ts';
import { encodedResult } from '../codec/encoding.ts';
import type { Ending } from '../lease/ending.ts';
import { batchEndings } from './bundle-ending.ts';
import { resultData } from '../lease/result.ts';
import type { Attempts, LeaseParts, ResultsOf } from '../attempt/lease-calls.ts';
import { extendLeases, loggerWith, settleIn, settleWith } from '../attempt/lease-calls.ts';
import type { Progress } from '../attempt/progress.ts';
import { createProgress } from '../attempt/progress.ts';

/** Returns a job as its bundle's handler sees it. */
export function batchJob(
  attempt: Attempt,
  { payload, checkpoint }: { readonly payload: unknown; readonly checkpoint: unknown },
): BatchJob {
  return {
    ...jobOf(attempt),
    payload,
    checkpoint,
    get signal() {
      return attempt.signal;
    },
  };
}

/** Signal of a whole bundle. It aborts when no job is to go on, with the reason of the last one. */
export interface BatchSignal {
  readonly signal: AbortSignal;
  /** Call when one of its attempts was aborted. */
  readonly check: () => void;
}

export function createBatchSignal(attempts: () => Attempts): BatchSignal {
  const controller = new AbortController();
  return {
    signal: controller.signal,
    check: () => {
      if (controller.signal.aborted) return;
      const stopped = attempts().filter(({ aborted }) => aborted !== undefined);
      // Attempts that the handler's own transactions have settled are over, too.
      if (attempts().some(({ over, aborted }) => !over && aborted === undefined)) return;
      const reason = stopped.at(-1)?.aborted;
      if (reason !== undefined) controller.abort(new AbortedError(reason));
    },
  };
}

/** Returns the context of a handler of bundles. */
export function batchContextOf(
  parts: LeaseParts,
  bundle: {
    readonly task: Task;
    readonly attempts: Attempts;
    readonly jobs: readonly BatchJob[];
    readonly signal: AbortSignal;
  },
): BatchContext {
  const { task, attempts, jobs, signal } = bundle;
  let log: JobLogger | undefined;
  let progress: Progress | undefined;
  const settled = new Set<Attempt>();

  const named = (some: readonly BatchJob[] | undefined): Attempts => {
    // Lost jobs are included, too: `work` may write for any of them.
    if (some === undefined) return attempts.filter((attempt) => !settled.has(attempt));
    const chosen = attempts.filter((_attempt, index) => some.includes(jobs[index] as BatchJob));
    if (chosen.length === some.length && chosen.length > 0) return chosen;
    throw new PgQueueError('configuration', 'ctx.transaction: jobs must be some of this call, each once');
  };

  return {
    signal,
    get log() {
      const [first] = attempts;
      return (log ??= loggerWith(parts.logger, {
        task: first?.job.task,
        bundle: first?.job.bundle ?? first?.job.id,
        jobs: attempts.length,
      }));
    },
    extend: async (by) => extendLeases(parts, attempts, durationMs(by, 'extend')),
    progress: async (value) => (progress ??= createProgress(parts, attempts))(value),
    checkpoint: async (job, data) => {
      const attempt = attempts[jobs.indexOf(job)];
      if (attempt !== undefined) return keepCheckpoint(parts, { task, attempt }, data);
      throw new PgQueueError('configuration', 'ctx.checkpoint: give one of the jobs of this call');
    },
    transaction: async (work, options = {}) => {
      const ours = named(options.jobs);
      const results = task.checkResult === undefined ? undefined : resultsFor(parts, task, ours);
      const result = await settleWith(parts, ours, { work, results });
      for (const attempt of ours) settled.add(attempt);
      return result;
    },
    settleIn: async (run, options = {}) => {
      const ours = named(options.jobs);
      await settleIn(parts, ours, { run, results: resultsFor(parts, task, ours) });
      for (const attempt of ours) settled.add(attempt);
    },
  };
}

/** Returns the results that a transaction of a bundle settles its jobs with, from one value for all. */
function resultsFor({ codec }: LeaseParts, task: Task, attempts: Attempts): ResultsOf {
  const ids = attempts.map(({ job }) => job.id);
  const strict = task.checkResult !== undefined;
  const all = async (value: unknown): Promise<readonly (string | null)[]> => {
    const endings = await batchEndings(ids, value);
    const texts = await Promise.all(endings.map((ending) => dataOf(task, ending)));
    return attempts.map(
      ({ job }, index) => encodedResult(codec, job, { text: texts[index] ?? null, strict }).data,
    );
  };
  return (value) => (value === undefined && task.checkResult === undefined ? [] : all(value));
}

async function dataOf(
  task: Task,
  ending: Extract<Ending, { readonly kind: 'returned' | 'threw' }>,
): Promise<string | null> {
  if (ending.kind === 'threw') throw ending.error;
  if (!isOutcome(ending.value)) return resultData(task, ending.value);
  throw new PgQueueError('configuration', notResults);
}

const notResults = 'a transaction settles its jobs as done: give results, and no outcomes';
