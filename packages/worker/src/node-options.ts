import { hostname } from 'node:os';
import { randomBytes } from 'node:crypto';
import type { Observer, Rule, Shape } from '@pgqueue/core';
import { aFlag, aFunction, allObservers, aNumber, aText, either, optional } from '@pgqueue/core';
import type { DatabaseOptions, NodeTasks } from '@pgqueue/postgres';
import { aConnectionString, databaseShape } from '@pgqueue/postgres';

const { pool: _pool, ...connection } = databaseShape;

const aUrl: Rule = { expected: 'the URL of a file', judge: (value) => value instanceof URL };

const blockedMs = aNumber({ min: 50, max: 3_600_000, whole: true });

/** A rule for each option of a node. */
export const nodeShape: Shape<NodeOptions> = {
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

/** Unique, and telling where to look. */
function defaultNode(): string {
  return `${hostname().slice(0, 150)}-${process.pid}-${randomBytes(3).toString('hex')}`;
}
