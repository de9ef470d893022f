import type { Rule, Shape } from '@pgqueue/core';
import {
  aFlag,
  aFunction,
  aListOf,
  aNumber,
  anObject,
  aText,
  either,
  isTaskHandler,
  oneOf,
  optional,
  orNull,
} from '@pgqueue/core';
import { aConnectionString, databaseShape, healthShape } from '@pgqueue/postgres';
import type { NodeOptions, WorkerLogger, WorkerOptions } from './options.ts';
import type { PulledTask, PullerOptions } from './pull/puller-options.ts';

const { pool: _pool, ...connection } = databaseShape;

const aUrl: Rule = { expected: 'the URL of a file', judge: (value) => value instanceof URL };

const blockedMs = aNumber({ min: 50, max: 3_600_000, whole: true });

const node: Shape<NodeOptions> = {
  ...connection,
  connectionString: aConnectionString,
  node: optional(aText({ max: 200 })),
  pool: optional(aText({ max: 100 })),
  heartbeatMs: optional(aNumber({ min: 50, max: 3_600_000, whole: true })),
  lostAfterMs: optional(aNumber({ min: 100, max: 86_400_000, whole: true })),
  heartbeatThread: optional(either(aFlag, aUrl)),
  blockedMs: optional({
    expected: `${blockedMs.expected}, or 0`,
    judge: (value, path) => value === 0 || blockedMs.judge(value, path),
  }),
  listen: optional(aFlag),
  observe: optional(aFunction),
};

const aHandler: Rule = {
  expected: 'made by implement(task, handler) or implementBatch(task, handler)',
  judge: isTaskHandler,
};

const logger: Shape<WorkerLogger> = {
  debug: aFunction,
  info: aFunction,
  warn: aFunction,
  error: aFunction,
  child: optional(aFunction),
};

/** A rule for each option of a worker. */
export const workerShape: Shape<WorkerOptions> = {
  ...node,
  tasks: aListOf(aHandler, 'a list of handlers, such as [implement(task, handler)]'),
  concurrency: optional(aNumber({ min: 1, max: 10_000, whole: true })),
  drainMs: optional(aNumber({ min: 0, max: 86_400_000, whole: true })),
  floatingRejections: optional(oneOf('fail', 'crash')),
  health: optional(anObject(healthShape)),
  // a logger has much more of its own, and what of it is misspelt is missing
  logger: optional({ ...anObject(logger, { own: true }), expected: 'a logger, such as pino() makes' }),
};

const pulled: Shape<Exclude<PulledTask, string>> = {
  name: aText({ max: 200 }),
  version: optional(aNumber({ min: 1, whole: true })),
  minVersion: optional(aNumber({ min: 1, whole: true })),
  timeoutMs: optional(orNull(aNumber({ above: 0 }))),
  batch: optional(aFlag),
};

/** A rule for each option of a puller. */
export const pullerShape: Shape<PullerOptions> = {
  ...node,
  tasks: aListOf(
    // a task that defineTask made has more
    either(aText({ max: 200 }), anObject(pulled, { what: 'a task', own: true })),
    'a list of tasks, or of their names',
  ),
  slots: optional(aNumber({ min: 1, max: 100_000, whole: true })),
};
