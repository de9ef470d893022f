import { hostname } from 'node:os';
import { randomBytes } from 'node:crypto';
import type { JobLogger, Observer, TaskHandler } from '@pgqueue/core';
import { throwProblems } from '@pgqueue/core';
import type { DatabaseOptions, NodeTasks } from '@pgqueue/postgres';

/** What {@link createWorker} takes. Milliseconds where a name ends in Ms. */
export interface WorkerOptions extends Omit<DatabaseOptions, 'pool'> {
  /** What this node can run: tasks with their handlers, each task once. */
  readonly tasks: readonly TaskHandler[];
  /** The node id, by which it can be reset; no two live nodes share one. Default: host name, process id and chance. */
  readonly node?: string;
  /** The pool whose queues it serves. Default `default`. */
  readonly pool?: string;
  /** Handlers at a time, 1 to 10,000. Default 10. */
  readonly concurrency?: number;
  /** How often the node says that it lives. Default 5 s. */
  readonly heartbeatMs?: number;
  /** Without a heartbeat for so long it counts as lost, and its jobs go to others. At least two heartbeats. Default 30 s. */
  readonly lostAfterMs?: number;
  /** Whether to LISTEN for hints, on a connection of its own; false behind PgBouncer in transaction mode. Default true. */
  readonly listen?: boolean;
  /** How long a stop waits for running handlers before it aborts their signals. Default 30 s. */
  readonly drainMs?: number;
  readonly observe?: Observer;
  /** Where `ctx.log` goes: a pino logger, or anything of its shape. Default: nowhere. */
  readonly logger?: WorkerLogger;
}

/** The part of a pino logger that a worker needs for `ctx.log`. */
export interface WorkerLogger extends JobLogger {
  child?(bindings: object): JobLogger;
}

/** The options with every default applied. */
export interface WorkerSettings {
  readonly tasks: ReadonlyMap<string, TaskHandler>;
  readonly nodeTasks: NodeTasks;
  readonly node: string;
  readonly pool: string;
  readonly concurrency: number;
  readonly heartbeatMs: number;
  readonly lostAfterMs: number;
  readonly listen: boolean;
  readonly drainMs: number;
}

/** @throws {PgQueueError} `configuration`, with everything that is wrong at once */
export function workerSettings(options: WorkerOptions): WorkerSettings {
  const problems: string[] = [];
  const whole = (name: string, value: number, min: number, max: number): void => {
    if (!Number.isInteger(value) || value < min || value > max) {
      problems.push(`${name} must be a whole number from ${min} to ${max}, not ${value}`);
    }
  };
  const { heartbeatMs = 5_000, lostAfterMs = Math.max(30_000, 2 * heartbeatMs), pool = 'default' } = options;
  const { concurrency = 10, drainMs = 30_000, node = defaultNode() } = options;
  whole('concurrency', concurrency, 1, 10_000);
  whole('heartbeatMs', heartbeatMs, 50, 3_600_000);
  whole('lostAfterMs', lostAfterMs, 100, 86_400_000);
  whole('drainMs', drainMs, 0, 86_400_000);
  if (lostAfterMs < 2 * heartbeatMs) problems.push('lostAfterMs must be at least two heartbeatMs');
  if (node.length < 1 || node.length > 200) problems.push('node must have 1 to 200 characters');
  if (pool.length < 1 || pool.length > 100) problems.push('pool must have 1 to 100 characters');
  if (options.tasks.length === 0) problems.push('tasks is empty: a worker without tasks can run nothing');
  const names = options.tasks.map(({ task }) => task.name);
  const twice = new Set(names.filter((name, index) => names.indexOf(name) !== index));
  for (const name of twice) problems.push(`task ${name} has more than one handler`);
  const { listen = true } = options;
  if (options.connectionString === undefined)
    problems.push('connectionString is missing: a worker makes its own connections');
  throwProblems('configuration', 'worker', problems);
  return {
    tasks: new Map(options.tasks.map((handler) => [handler.task.name, handler])),
    nodeTasks: tasksOfNode(options.tasks),
    node,
    pool,
    concurrency,
    heartbeatMs,
    lostAfterMs,
    listen,
    drainMs,
  };
}

/** What a node says of itself: the payload versions and the timeout of each of its tasks. */
export function tasksOfNode(handlers: readonly TaskHandler[]): NodeTasks {
  return Object.fromEntries(
    handlers.map(({ task }) => [
      task.name,
      { min: task.minVersion, max: task.version, timeoutMs: task.timeoutMs },
    ]),
  );
}

/** Unique, and telling where to look. */
export function defaultNode(): string {
  return `${hostname().slice(0, 150)}-${process.pid}-${randomBytes(3).toString('hex')}`;
}
