import type { NodeOptions, NodeSettings } from './node-options.ts';
import { isGiven, nodeSettings, nodeShape } from './node-options.ts';
import type { JobLogger, TaskHandler } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import { allObservers } from '@pgqueue/core';
import {
  aFunction,
  aListOf,
  aNumber,
  anObject,
  isIsolated,
  isTaskHandler,
  oneOf,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import type { HealthOptions } from '@pgqueue/postgres';
import type { NodeTasks } from '@pgqueue/postgres/internal';
import { healthShape } from '@pgqueue/postgres/internal';
import type { Metrics } from '@pgqueue/telemetry';
import { createMetrics } from '@pgqueue/telemetry';
import { concealing } from './codec/concealed.ts';
import { commandProblems, isExecutable } from './executable/executable.ts';
import { childModule, noChild } from './isolation/pool.ts';
import type { Around } from './run/around.ts';
import { aroundHandler } from './run/around.ts';
import { createLateWarnings } from './run/late-warnings.ts';

/** Options of {@link createWorker}. Names that end in `Ms` are milliseconds. */
export interface WorkerOptions extends NodeOptions {
  /** Tasks that this node can run, with their handlers; each task once. */
  readonly tasks: readonly TaskHandler[];
  /** Handlers that run at a time, 1 to 10,000; a handler of bundles counts once. Default 10. */
  readonly concurrency?: number;
  /** Milliseconds that a stop waits for running handlers before it aborts their signals. Default 30000. */
  readonly drainMs?: number;
  /** Middleware: is called around every call of a handler. Default: none. */
  readonly around?: Around;
  /**
   * Effect of a rejection in a handler that nobody handles (a promise that was not awaited). `fail`: its job
   * fails, unless it has ended before. `crash`: Node's default, which ends the process, and costs every
   * running job of it a crash. Default `fail`.
   */
  readonly floatingRejections?: 'fail' | 'crash';
  /**
   * Address of `GET /live`, `GET /ready` and `GET /metrics`, which are served from `start` on. Default: none.
   */
  readonly health?: HealthOptions;
  /** Target of `ctx.log`: a pino logger, or a logger of the same shape. Default: none. */
  readonly logger?: WorkerLogger;
}

/** The part of a pino logger that a worker needs for `ctx.log`. */
export interface WorkerLogger extends JobLogger {
  child?(bindings: object): JobLogger;
}

export interface WorkerSettings extends NodeSettings {
  /** Handlers by task, within `around`; isolated ones are as they were given. */
  readonly handlers: ReadonlyMap<string, TaskHandler>;
  readonly around: Around | undefined;
  readonly concurrency: number;
  readonly drainMs: number;
  readonly logger: WorkerLogger | undefined;
  readonly metrics: Metrics;
  /** True if an observer listens for each job that begins and ends. */
  readonly listens: () => boolean;
}

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

/** Rule for the milliseconds that a stop waits for running handlers. */
export const aDrain: Rule = optional(aNumber({ min: 0, max: 86_400_000, whole: true }));

const workerShape: Shape<WorkerOptions> = {
  ...nodeShape,
  tasks: aListOf(aHandler, 'a list of handlers, such as [implement(task, handler)]'),
  concurrency: optional(aNumber({ min: 1, max: 10_000, whole: true })),
  drainMs: aDrain,
  around: optional(aFunction),
  floatingRejections: optional(oneOf('fail', 'crash')),
  health: optional(anObject(healthShape)),
  // A logger has many other members of its own. A misspelt member is reported as missing.
  logger: optional({ ...anObject(logger, { own: true }), expected: 'a logger, such as pino() makes' }),
};

/**
 * Returns the settings of a worker.
 * @throws {PgQueueError} `configuration`, with everything that is wrong at once
 */
export function workerSettings(options: WorkerOptions): WorkerSettings {
  const wrong = optionProblems(options, workerShape);
  const given = isGiven(options) ? options : { tasks: [] };
  const { concurrency = 10, drainMs = 30_000, logger, around } = given;
  const tasks = Array.isArray(given.tasks) ? given.tasks.filter((task) => isTaskHandler(task)) : [];
  const names = tasks.map(({ task }) => task.name);
  const twice = new Set(names.filter((name, index) => names.indexOf(name) !== index));
  const node = nodeSettings(given, { slots: concurrency, tasks: tasksOfNode(tasks) });
  throwProblems('configuration', 'the worker', [
    ...wrong,
    ...node.problems,
    ...(isGiven(options) && options.tasks?.length === 0
      ? ['tasks is empty: a worker without tasks can run nothing']
      : []),
    ...tasks.flatMap(({ task, handler }) => commandProblems(task.name, handler)),
    ...(tasks.some(({ handler }) => isIsolated(handler)) && childModule() === undefined ? [noChild] : []),
    ...[...twice].map((name) => `task ${name} has more than one handler`),
  ]);
  const handlers = new Map(tasks.map((found) => [found.task.name, aroundHandler(around, found)]));
  const metrics = createMetrics({
    role: 'worker',
    prometheus: given.health?.metrics ?? given.health !== undefined,
  });
  const heard = given.observe ?? createLateWarnings();
  const observe = concealing(given.codec, allObservers(heard, metrics.observe));
  const listens = (): boolean => given.observe !== undefined || metrics.listens();
  return { ...node.settings, observe, handlers, around, concurrency, drainMs, logger, metrics, listens };
}

/**
 * Checks the options of a worker's stop: a time that no timer takes would end it at once.
 * @throws {PgQueueError} `configuration`
 */
export function checkStop(options: { readonly drainMs?: number } = {}): void {
  throwProblems('configuration', 'worker.stop', optionProblems(options, { drainMs: aDrain }));
}

/**
 * Describes the node's tasks to the scheduler: payload versions, timeout, and flags for handlers that take
 * bundles or run in other processes.
 */
function tasksOfNode(handlers: readonly TaskHandler[]): NodeTasks {
  return Object.fromEntries(
    handlers.map(({ kind, task, handler }) => [
      task.name,
      {
        min: task.minVersion,
        max: task.version,
        timeoutMs: task.timeoutMs,
        ...(kind === 'pgqueue.batch_handler' ? { batch: true } : {}),
        ...(isIsolated(handler) || isExecutable(handler) ? { isolated: true } : {}),
      },
    ]),
  );
}
