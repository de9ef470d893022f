import type { Codec, Duration, Observer, Policy, TaskHandler } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import type { Around } from '@pgqueue/worker';
import {
  aCodec,
  aDuration,
  aFlag,
  aFunction,
  aListOf,
  aNumber,
  anObject,
  anything,
  aText,
  isTaskHandler,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';

/** A database to test: one of `createTestDatabase`, or one of your own by its connection string. */
export interface TestedDatabase {
  readonly url: string;
  /** Schema of pgqueue. Default `pgqueue`. */
  readonly schema?: string;
}

/** Options of {@link drain}. */
export interface DrainOptions {
  readonly database: TestedDatabase;
  /** Handlers that can run. Jobs of other tasks wait. */
  readonly tasks: readonly TaskHandler[];
  /** Policy of the scheduler: the order of jobs, and which are held. Default: the scheduler's default. */
  readonly policy?: Policy;
  /** Pool whose queues are served. Default `default`. */
  readonly pool?: string;
  /** Handlers that run at a time, 1 to 1,000. Default 1: one after the other, in dispatch order. */
  readonly concurrency?: number;
  /** Middleware around handlers, as in your worker. Default: none. */
  readonly around?: Around;
  /** Codec of payloads and results, as in your worker and your producer. Default: none. */
  readonly codec?: Codec;
  /** Runs retries at once, too, whatever their backoff. Default false: they wait. */
  readonly retries?: boolean;
  /** Runs delayed and snoozed jobs at once, too. Default false: they wait. Timers of flows, and jobs that sleep in their handlers (`ctx.sleep`), wait in any case. */
  readonly delayed?: boolean;
  /**
   * Puts the database's clock forward by this much, from one due time to the next, and runs what is due then,
   * too.
   */
  readonly ahead?: Duration;
  /** Ends after this many attempts. Default: 1000, and then it is an error. 1: one step. */
  readonly maxJobs?: number;
  /**
   * Milliseconds after which the drain fails; running jobs are aborted, and given back. Default:
   * `PGQUEUE_TEST_TIMEOUT_MS` of the environment, or 4500, which is within the time that runners give a test.
   */
  readonly timeoutMs?: number;
  readonly observe?: Observer;
}

const aTaskHandler: Rule = { expected: 'made by implement or implementBatch', judge: isTaskHandler };

/** Checks a {@link TestedDatabase}; a TestDatabase has more members. */
export const aTestedDatabase: Rule = anObject(
  { url: aText(), schema: optional(aText()) },
  { what: 'a test database: from createTestDatabase, or { url }', own: true },
);

const shape: Shape<DrainOptions> = {
  database: aTestedDatabase,
  tasks: aListOf(aTaskHandler, 'a list of handlers, made by implement or implementBatch'),
  policy: optional(anything),
  pool: optional(aText()),
  concurrency: optional(aNumber({ min: 1, max: 1_000, whole: true })),
  around: optional(aFunction),
  codec: optional(aCodec),
  retries: optional(aFlag),
  delayed: optional(aFlag),
  ahead: optional(aDuration),
  maxJobs: optional(aNumber({ min: 1, max: 1_000_000, whole: true })),
  timeoutMs: optional(aNumber({ min: 1, max: 3_600_000 })),
  observe: optional(aFunction),
};

/**
 * Checks the options of a drain.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function checkDrain(options: DrainOptions): void {
  throwProblems('configuration', 'drain', optionProblems(options, shape));
}

const usualTimeoutMs = 4_500;

/**
 * Returns the time limit of a drain, in milliseconds.
 * @throws {PgQueueError} `configuration` for a variable that is no number
 */
export function timeoutOf({ timeoutMs }: DrainOptions): number {
  const said = process.env['PGQUEUE_TEST_TIMEOUT_MS'];
  if (timeoutMs !== undefined || said === undefined || said === '') return timeoutMs ?? usualTimeoutMs;
  const rule = aNumber({ min: 1, max: 3_600_000 });
  const PGQUEUE_TEST_TIMEOUT_MS = Number(said);
  throwProblems(
    'configuration',
    'the environment',
    optionProblems({ PGQUEUE_TEST_TIMEOUT_MS }, { PGQUEUE_TEST_TIMEOUT_MS: rule }),
  );
  return PGQUEUE_TEST_TIMEOUT_MS;
}
