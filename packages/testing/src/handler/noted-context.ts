import type { JobContext, NewJob, Outcome, SingleTaskHandler } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { durationMs, isIsolated, isOutcome } from '@pgqueue/core/internal';
import type { Target } from '@pgqueue/postgres/internal';
import type { WorkerLogger } from '@pgqueue/worker';
import { Suspended } from '@pgqueue/worker';
import { noteTransactions } from '../drain/transaction-results.ts';

/** A line of `ctx.log`. */
export interface LoggedLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly data: Readonly<Record<string, unknown>>;
  readonly message: string | undefined;
}

/** Notes of a handler's calls to its context, taken while it runs. */
export interface Notes {
  readonly extended: number[];
  readonly progress: unknown[];
  readonly logs: LoggedLine[];
  readonly checkpoints: unknown[];
  readonly added: NewJob[];
  /** Jobs that the handler adds as it ends. */
  fanned: readonly NewJob[];
  /** True once a wait has suspended the job. */
  suspended: boolean;
  /** True once a transaction of the handler has settled the job. */
  settled: boolean;
  result: unknown;
  delayMs: number | null;
}

export function newNotes(): Notes {
  return {
    extended: [],
    progress: [],
    logs: [],
    checkpoints: [],
    added: [],
    fanned: [],
    suspended: false,
    settled: false,
    result: undefined,
    delayMs: null,
  };
}

/** Wraps a handler so that its calls to the context, and its result, are noted. */
export function notedHandler({ task, handler, kind }: SingleTaskHandler, notes: Notes): SingleTaskHandler {
  if (isIsolated(handler)) {
    throw new PgQueueError('configuration', 'runHandler runs functions; an isolated handler runs in a drain');
  }
  return {
    kind,
    task,
    handler: async (payload, context: JobContext) => {
      try {
        const result: unknown = await handler(payload, notedContext(context, task, notes));
        if (isOutcome(result)) noteFanOut(result, notes);
        else if (!notes.settled) notes.result = result;
        return result;
      } catch (error) {
        if (isOutcome(error)) noteFanOut(error, notes);
        throw error;
      }
    },
  };
}

async function noteSettled<Value>(settling: Promise<Value>, notes: Notes): Promise<Value> {
  const value = await settling;
  notes.settled = true;
  return value;
}

async function noteWait<Value>(wait: Promise<Value>, notes: Notes): Promise<Value> {
  try {
    return await wait;
  } catch (error) {
    if (error instanceof Suspended) notes.suspended = true;
    throw error;
  }
}

function noteFanOut(outcome: Outcome<unknown>, notes: Notes): void {
  if (outcome.kind === 'fan_out') [notes.fanned, notes.result] = [outcome.jobs, outcome.result];
}

function notedContext(context: JobContext, task: SingleTaskHandler['task'], notes: Notes): JobContext {
  const { transaction, settleIn } = noteTransactions(context, task, (result) => (notes.result = result));
  return {
    get job() {
      return context.job;
    },
    get needs() {
      return context.needs;
    },
    get log() {
      return context.log;
    },
    get signal() {
      return context.signal;
    },
    extend: async (by) => {
      const held = await context.extend(by);
      if (held) notes.extended.push(durationMs(by, 'extend'));
      return held;
    },
    progress: async (value) => {
      const held = await context.progress(value);
      if (held) notes.progress.push(value);
      return held;
    },
    checkpoint: async (data) => {
      const held = await context.checkpoint(data);
      if (held) notes.checkpoints.push(data);
      return held;
    },
    addJobs: async (jobs) => {
      const held = await context.addJobs(jobs);
      if (held) notes.added.push(...jobs);
      return held;
    },
    step: async (name, work) => context.step(name, work),
    sleep: async (name, duration) => noteWait(context.sleep(name, duration), notes),
    all: async (name, jobs, options) => noteWait(context.all(name, jobs, options), notes),
    waitForSignal: async (name, options) => noteWait(context.waitForSignal(name, options), notes),
    transaction: async (work) => noteSettled(transaction(work), notes),
    settleIn: async (run) => noteSettled(settleIn(run), notes),
  };
}

/**
 * Returns the target of `ctx.log`. It leaves out the bindings that a worker adds to each line: the job and
 * its task.
 */
export function notedLogger(notes: Notes): WorkerLogger {
  const at =
    (level: LoggedLine['level']) =>
    (data: object, message?: string): void => {
      notes.logs.push({ level, data: { ...data }, message });
    };
  const logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  return { ...logger, child: () => logger };
}

/** Wraps a target so that the delay of a settlement is noted. */
export function notedTarget({ schema, query }: Target, notes: Notes): Target {
  return {
    schema,
    query: (text, values) => {
      if (/\.settle\(/.test(text)) notes.delayMs = (values[3] as readonly (number | null)[])[0] ?? null;
      return query(text, values);
    },
  };
}
