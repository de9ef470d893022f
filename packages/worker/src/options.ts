import { hostname } from 'node:os';
import { randomBytes } from 'node:crypto';
import type { JobLogger, Observer, TaskHandler } from '@pgqueue/core';
import { allObservers, isIsolated, isTaskHandler, optionProblems, throwProblems } from '@pgqueue/core';
import type { DatabaseOptions, HealthOptions, NodeTasks } from '@pgqueue/postgres';
import type { Metrics } from '@pgqueue/telemetry';
import { createMetrics } from '@pgqueue/telemetry';
import { workerShape } from './shapes.ts';

/**
 * What every node can say of itself. A connection string is needed: a node makes its own connections, so that handlers who
 * hold all of theirs cannot keep it from renewing and settling.
 */
export interface NodeOptions extends Omit<DatabaseOptions, 'pool'> {
  /** The node id, by which it can be reset; no two live nodes share one. Default: host name, process id and chance. */
  readonly node?: string;
  /** The pool whose queues it serves. Default `default`. */
  readonly pool?: string;
  /** How often the node says that it lives. Default 5000. */
  readonly heartbeatMs?: number;
  /** Without a heartbeat for so long it counts as lost, and its jobs go to others. At least two heartbeats. Default 30000. */
  readonly lostAfterMs?: number;
  /**
   * Where heartbeats come from: true, a thread with a connection of its own, so that a handler which keeps the event loop does not
   * lose the node; the thread's file, where a bundler has put it elsewhere (`@pgqueue/worker/heartbeat-thread`, as an entry of its
   * own); false, the event loop. Default true.
   */
  readonly heartbeatThread?: boolean | URL;
  /**
   * A handler that keeps the event loop for so long is named: on stderr while it does, and then by the event `node.blocked`. 50 to
   * 3,600,000; 0: not at all. Default 2000.
   */
  readonly blockedMs?: number;
  /** Whether to LISTEN for hints, on a connection of its own; false behind PgBouncer in transaction mode. Default true. */
  readonly listen?: boolean;
  readonly observe?: Observer;
}

/** What {@link createWorker} takes. Milliseconds where a name ends in Ms. */
export interface WorkerOptions extends NodeOptions {
  /** What this node can run: tasks with their handlers, each task once. */
  readonly tasks: readonly TaskHandler[];
  /** Handlers at a time, 1 to 10,000; one that takes a bundle counts once. Default 10. */
  readonly concurrency?: number;
  /** How long a stop waits for running handlers before it aborts their signals. Default 30000. */
  readonly drainMs?: number;
  /**
   * What becomes of a rejection in a handler that nobody handles (a promise that was not awaited). `fail`: its job fails by it, unless it
   * has ended before; `crash`: what Node does, which ends the process, and costs every job that it runs a crash. Default `fail`.
   */
  readonly floatingRejections?: 'fail' | 'crash';
  /** Where it answers `GET /live`, `GET /ready` and `GET /metrics`, from `start` on. Default: nowhere. */
  readonly health?: HealthOptions;
  /** Where `ctx.log` goes: a pino logger, or anything of its shape. Default: nowhere. */
  readonly logger?: WorkerLogger;
}

/** The part of a pino logger that a worker needs for `ctx.log`. */
export interface WorkerLogger extends JobLogger {
  child?(bindings: object): JobLogger;
}

/** A node's options with every default applied. */
export interface NodeSettings {
  readonly connectionString: string;
  readonly node: string;
  readonly pool: string;
  readonly slots: number;
  readonly tasks: NodeTasks;
  readonly heartbeatMs: number;
  readonly lostAfterMs: number;
  readonly heartbeatThread: boolean | URL;
  readonly blockedMs: number;
  readonly listen: boolean;
  readonly observe: Observer;
}

export interface WorkerSettings extends NodeSettings {
  readonly handlers: ReadonlyMap<string, TaskHandler>;
  readonly concurrency: number;
  readonly drainMs: number;
  readonly logger: WorkerLogger | undefined;
  readonly metrics: Metrics;
  /** Whether anybody hears of each job that begins and ends. */
  readonly listens: () => boolean;
}

/** @throws {PgQueueError} `configuration`, with everything that is wrong at once */
export function workerSettings(options: WorkerOptions): WorkerSettings {
  const wrong = optionProblems(options, workerShape);
  const given = isGiven(options) ? options : { tasks: [] };
  const { concurrency = 10, drainMs = 30_000, logger } = given;
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
    ...[...twice].map((name) => `task ${name} has more than one handler`),
  ]);
  const handlers = new Map(tasks.map((handler) => [handler.task.name, handler]));
  const metrics = createMetrics({
    role: 'worker',
    prometheus: given.health?.metrics ?? given.health !== undefined,
  });
  const observe = allObservers(node.settings.observe, metrics.observe);
  const listens = (): boolean => given.observe !== undefined || metrics.listens();
  return { ...node.settings, observe, handlers, concurrency, drainMs, logger, metrics, listens };
}

/** The settings of a node, and what is wrong between them: the caller throws, with what else it has found. */
export function nodeSettings(
  options: NodeOptions,
  { slots, tasks }: { readonly slots: number; readonly tasks: NodeTasks },
): { readonly settings: NodeSettings; readonly problems: readonly string[] } {
  const { connectionString = '', listen = true, pool = 'default', node = defaultNode() } = options;
  const { heartbeatMs = 5_000, lostAfterMs = Math.max(30_000, 2 * heartbeatMs) } = options;
  const { heartbeatThread = true, blockedMs = 2_000 } = options;
  const problems = lostAfterMs < 2 * heartbeatMs ? ['lostAfterMs must be at least two heartbeatMs'] : [];
  const observe = allObservers(options.observe);
  const named = { connectionString, node, pool, slots, tasks };
  const clocks = { heartbeatMs, lostAfterMs, heartbeatThread, blockedMs };
  return { settings: { ...named, ...clocks, listen, observe }, problems };
}

/** Of a node's options, how its own connections are made. */
export function connectionOptions(options: NodeOptions): Omit<DatabaseOptions, 'pool'> {
  const { connectionString, schema, applicationName, queryTimeoutMs } = options;
  const given = { connectionString, schema, applicationName, queryTimeoutMs };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** Types say so, but callers without types exist. */
export function isGiven(options: unknown): boolean {
  return typeof options === 'object' && options !== null;
}

/** What a node says of itself: of each of its tasks the payload versions, the timeout, and whether its handler takes bundles. */
function tasksOfNode(handlers: readonly TaskHandler[]): NodeTasks {
  return Object.fromEntries(
    handlers.map(({ kind, task, handler }) => [
      task.name,
      {
        min: task.minVersion,
        max: task.version,
        timeoutMs: task.timeoutMs,
        ...(kind === 'pgqueue.batch_handler' ? { batch: true } : {}),
        ...(isIsolated(handler) ? { isolated: true } : {}),
      },
    ]),
  );
}

/** Unique, and telling where to look. */
function defaultNode(): string {
  return `${hostname().slice(0, 150)}-${process.pid}-${randomBytes(3).toString('hex')}`;
}
