import type { BatchContext, BatchJob, JobContext, JobLogger, TaskHandler } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { isIsolated } from '@pgqueue/core/internal';
import type { Isolation } from '../isolation/isolation.ts';
import type { Ending } from '../lease/ending.ts';

/** A job whose handler is called: the facts of `ctx.job`, and its payload. */
export type CalledJob = JobContext['job'] & {
  /** Number of this attempt, from 1: earlier tries and crashes count. */
  readonly attempt: number;
  /** Payload as the handler gets it: checked, and of the current version. */
  readonly payload: unknown;
};

/**
 * One call of a handler, as {@link Around} sees it. For a bundle: its first job; the queue, the task and the
 * key are those of all its jobs.
 */
export type AroundJob = CalledJob & {
  /** Jobs of this call: one, or all of a bundle. */
  readonly jobs: readonly CalledJob[];
  /** Same as `ctx.signal`. */
  readonly signal: AbortSignal;
  /** Same as `ctx.log`. */
  readonly log: JobLogger;
};

/**
 * Middleware around handlers. It is called once per call of a handler (also for a bundle, and for an isolated
 * handler in the node's own process), after the payload was checked, within the attempt's timeout. It calls
 * `next()` once, which runs the handler, and returns or awaits its promise.
 *
 * The attempt ends as the handler does: the value that this returns is ignored, and so is a caught error. To
 * end it differently, throw: an error, or an outcome such as `snooze('1m')`, also in place of
 * `next()`. An attempt fails if this neither calls `next()` nor throws, or returns before `next()` has ended.
 */
export type Around = (job: AroundJob, next: () => Promise<unknown>) => Promise<unknown>;

/** Wraps a handler; an isolated one is wrapped by {@link aroundIsolation}. */
export function aroundHandler(around: Around | undefined, found: TaskHandler): TaskHandler {
  if (around === undefined) return found;
  if (found.kind === 'pgqueue.batch_handler') {
    const { handler } = found;
    const wrapped: typeof handler = (jobs, context) =>
      through(around, ofBundle(jobs, context), () => handler(jobs, context));
    return { ...found, handler: wrapped };
  }
  const { handler } = found;
  if (isIsolated(handler)) return found;
  const wrapped: typeof handler = (payload: unknown, context) =>
    through(around, ofJob(payload, context), () => handler(payload, context));
  return { ...found, handler: wrapped };
}

/** Wraps the runs of isolated handlers. A process that died stays a crash, whatever `around` throws. */
export function aroundIsolation(around: Around | undefined, isolation: Isolation): Isolation {
  if (around === undefined) return isolation;
  return {
    ...isolation,
    run: async (handler, payload, context, rejections) => {
      let ending: Ending | undefined;
      try {
        const value = await through(around, ofJob(payload, context), async () => {
          ending = await isolation.run(handler, payload, context, rejections);
          return valueOf(ending);
        });
        return ending?.kind === 'fan_out' ? ending : { kind: 'returned', value };
      } catch (error) {
        return ending?.kind === 'crashed' ? ending : { kind: 'threw', error };
      }
    },
  };
}

/** Returns what an isolated handler returned, or throws what it threw. */
function valueOf(ending: Ending): unknown {
  if (ending.kind === 'returned') return ending.value;
  if (ending.kind === 'fan_out') return undefined;
  throw ending.kind === 'threw'
    ? ending.error
    : new Error(`its process died: ${'why' in ending ? ending.why : ending.kind}`);
}

function called(job: JobContext['job'], payload: unknown): CalledJob {
  return { ...job, attempt: job.tries + job.crashes + 1, payload };
}

function ofJob(payload: unknown, context: JobContext): AroundJob {
  const job = called(context.job, payload);
  return call(job, [job], context);
}

function ofBundle(bundle: readonly BatchJob[], context: BatchContext): AroundJob {
  const jobs = bundle.map((job) => called(job, job.payload));
  return call(jobs[0] as CalledJob, jobs, context);
}

function call(
  first: CalledJob,
  jobs: readonly CalledJob[],
  context: Pick<JobContext, 'signal' | 'log'>,
): AroundJob {
  return {
    ...first,
    jobs,
    get signal() {
      return context.signal;
    },
    get log() {
      return context.log;
    },
  };
}

const rules = {
  none: "around did not call next(), so the handler did not run: call it, or throw an outcome such as snooze('1m')",
  early: 'around returned before next() had ended: return its promise, or await it',
  twice: 'around called next() a second time: a handler runs once an attempt',
  late: 'around called next() after it had returned: the attempt is over',
} as const;

function broken(rule: keyof typeof rules): PgQueueError {
  return new PgQueueError('configuration', rules[rule]);
}

/** Runs a handler through `around`, and resolves when both have ended: until then the slot is in use. */
async function through(around: Around, job: AroundJob, run: () => unknown): Promise<unknown> {
  let ran: Promise<unknown> | undefined;
  let state: 'open' | 'ran' | 'closed' = 'open';
  const ended = (): void => {
    state = 'ran';
  };
  const next = (): Promise<unknown> => {
    if (state === 'closed') return Promise.reject(broken('late'));
    if (ran !== undefined) return Promise.reject(broken('twice'));
    ran = new Promise((resolve) => resolve(run()));
    ran.then(ended, ended);
    return ran;
  };
  try {
    await around(job, next);
    if (ran === undefined) throw broken('none');
    if (state === 'open') throw broken('early');
  } finally {
    state = 'closed';
    await Promise.allSettled([ran]);
  }
  return ran;
}
