import type { BatchTaskHandler, PgQueueEvent, SingleTaskHandler, TaskHandler } from '@pgqueue/core';
import { errorData, errorLine, isIsolated, isOutcome } from '@pgqueue/core/internal';
import { noteTransactions } from './transaction-results.ts';

/** One attempt that a drain ran. */
export interface DrainedJob {
  readonly id: string;
  readonly task: string;
  readonly key: string;
  /**
   * Outcome of the attempt. `done`, `retry`, `snooze`, `dead`, `cancelled`: as it was settled. `crashed`: the
   * process of its isolated handler died. `lost`: its lease was lost, and nothing was changed.
   */
  readonly outcome: 'done' | 'retry' | 'snooze' | 'dead' | 'cancelled' | 'crashed' | 'lost';
  /**
   * Result of the job, before it became JSON: what its handler returned, or gave to `fanOut` or to its own transaction.
   * Missing for bundles and isolated handlers.
   */
  readonly result?: unknown;
  /**
   * The very error that the handler threw, or a description of the problem. For a job that is done: the error
   * that its handler threw after its own transaction had settled it. With a codec that encrypts errors, those of bundles and of
   * isolated handlers, and descriptions, have no text.
   */
  readonly error?: unknown;
  readonly durationMs: number;
}

/** Notes of a drain while it runs. */
export interface DrainRecord {
  readonly jobs: readonly DrainedJob[];
  /** Tasks of the jobs whose handlers run, by job id. */
  readonly running: ReadonlyMap<string, string>;
  /**
   * Failure that production would report, and go on: of a policy, or of a schedule that cannot be read.
   * Undefined: none.
   */
  readonly fault: () => Error | undefined;
  /** Last failure that is retried: of the database, or of data that the policy fetches. Undefined: none. */
  readonly trouble: () => Error | undefined;
  /** Wraps handlers so that their results are noted. */
  readonly noted: (tasks: readonly TaskHandler[]) => readonly TaskHandler[];
  readonly observe: (event: PgQueueEvent) => void;
}

/** @param conceals events have no texts of handlers' errors, since the codec encodes them */
export function createRecord(conceals = false): DrainRecord {
  const jobs: DrainedJob[] = [];
  const running = new Map<string, string>();
  const keys = new Map<string, string>();
  const results = new Map<string, unknown>();
  const thrown = createThrown(conceals);
  const problems = new Map<string, readonly string[]>();
  let fault: Error | undefined;
  let trouble: Error | undefined;

  const end = (job: string, ended: Pick<DrainedJob, 'task' | 'outcome'> & Partial<DrainedJob>): void => {
    const wrong = problems.get(job);
    const { durationMs = 0 } = ended;
    const result = ended.outcome === 'done' && results.has(job) ? { result: results.get(job) } : {};
    const own = 'error' in ended ? { error: thrown.told(job, ended.error) } : {};
    const error =
      wrong === undefined ? own : { error: new Error(`the payload does not fit: ${wrong.join('; ')}`) };
    jobs.push({ id: job, key: keys.get(job) ?? '', ...ended, durationMs, ...result, ...error });
    for (const map of [running, keys, results, problems]) map.delete(job);
  };

  const note = ({ task, handler }: SingleTaskHandler): SingleTaskHandler['handler'] => {
    if (isIsolated(handler)) return handler;
    return async (payload, context) => {
      const { id } = context.job;
      const noted = noteTransactions(context, task, (result) => results.set(id, result));
      const keep = (ended: unknown): void => {
        // settled before by a transaction of the handler
        if (!running.has(id)) return;
        if (!isOutcome(ended)) results.set(id, ended);
        else if (ended.kind === 'fan_out') results.set(id, ended.result);
        else if ('error' in ended) thrown.note(id, ended.error);
      };
      try {
        const result: unknown = await handler(payload, noted);
        keep(result);
        return result;
      } catch (error) {
        if (isOutcome(error)) keep(error);
        else thrown.note(id, error);
        throw error;
      }
    };
  };

  return {
    jobs,
    running,
    fault: () => fault,
    trouble: () => trouble,
    noted: (tasks) =>
      tasks.map((found: SingleTaskHandler | BatchTaskHandler) =>
        found.kind === 'pgqueue.handler' ? { ...found, handler: note(found) } : found,
      ),
    observe: (event) => {
      fault ??= faultOf(event);
      if (event.type === 'job.started') {
        running.set(event.job, event.task);
        keys.set(event.job, event.key);
      } else if (event.type === 'job.invalid') {
        problems.set(event.job, event.problems);
      } else if (event.type === 'job.settled') {
        const { job, task, verdict, durationMs } = event;
        end(job, { task, outcome: verdict, durationMs, ...('error' in event ? { error: event.error } : {}) });
      } else if (event.type === 'job.crashed') {
        const { job, task, durationMs, error } = event;
        end(job, { task, outcome: 'crashed', durationMs, error });
      } else if (event.type === 'job.late_error') {
        const index = jobs.findLastIndex(({ id }) => id === event.job);
        const job = jobs[index];
        if (job !== undefined) jobs[index] = { ...job, error: thrown.told(event.job, event.error) };
      } else if (event.type === 'job.stale') {
        end(event.job, { task: event.task, outcome: 'lost' });
      } else {
        trouble = troubleOf(event) ?? trouble;
      }
    },
  };
}

/** Keeps the errors that handlers threw, if those of events are concealed. */
function createThrown(conceals: boolean): {
  readonly note: (job: string, error: unknown) => void;
  /** Returns the error that the handler of a job threw in place of the concealed one of an event, once. */
  readonly told: (job: string, error: unknown) => unknown;
} {
  const thrown = new Map<string, unknown>();
  return {
    note: (job, error) => {
      if (conceals) thrown.set(job, error);
    },
    told: (job, error) => {
      const own = thrown.get(job);
      thrown.delete(job);
      const name = own instanceof Error ? own.name : 'Error';
      return own !== undefined && error instanceof Error && error.name === name ? own : error;
    },
  };
}

function troubleOf(event: PgQueueEvent): Error | undefined {
  if (event.type !== 'database.error' && event.type !== 'policy.prepare_failed') return undefined;
  const message = errorLine(errorData(event.error));
  const what =
    event.type === 'database.error'
      ? 'the database failed'
      : `the policy waits for what ${event.part} prepares, which failed`;
  return new Error(`${what}: ${message}`, { cause: event.error });
}

function faultOf(event: PgQueueEvent): Error | undefined {
  if (event.type !== 'policy.failed' && event.type !== 'schedule.failed') return undefined;
  const message = errorLine(errorData(event.error));
  const what =
    event.type === 'schedule.failed'
      ? `schedule ${JSON.stringify(event.schedule)}`
      : `policy ${JSON.stringify(event.policy)}, ${event.part}`;
  return new Error(`${what} failed: ${message}`, { cause: event.error });
}
