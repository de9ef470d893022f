import { hostname } from 'node:os';
import { randomBytes } from 'node:crypto';
import type { Codec, Observer } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import { allObservers } from '@pgqueue/core';
import { aCodec, aFlag, aFunction, aNumber, aText, either, optional } from '@pgqueue/core/internal';
import type { DatabaseOptions } from '@pgqueue/postgres';
import type { NodeTasks } from '@pgqueue/postgres/internal';
import { concealing } from './codec/concealed.ts';
import { aConnectionString, databaseShape } from '@pgqueue/postgres/internal';

const { pool: _pool, ...connection } = databaseShape;

const aUrl: Rule = { expected: 'the URL of a file', judge: (value) => value instanceof URL };

/** Rule for the source of a node's heartbeats. */
export const aHeartbeatThread: Rule = either(aFlag, aUrl);

const blockedMs = aNumber({ min: 50, max: 3_600_000, whole: true });

/** Rules for the options of a node. */
export const nodeShape: Shape<NodeOptions> = {
  ...connection,
  connectionString: aConnectionString,
  node: optional(aText({ max: 200 })),
  pool: optional(aText({ max: 100 })),
  heartbeatMs: optional(aNumber({ min: 50, max: 3_600_000, whole: true })),
  lostAfterMs: optional(aNumber({ min: 100, max: 86_400_000, whole: true })),
  heartbeatThread: optional(aHeartbeatThread),
  blockedMs: optional({
    expected: `${blockedMs.expected}, or 0`,
    judge: (value, path) => value === 0 || blockedMs.judge(value, path),
  }),
  listen: optional(aFlag),
  observe: optional(aFunction),
  codec: optional(aCodec),
};

/**
 * Options of every node. A connection string is required: a node makes its own connections, so that handlers
 * that hold all of theirs cannot keep it from renewing and settling.
 */
export interface NodeOptions extends Omit<DatabaseOptions, 'pool'> {
  /**
   * Node id, by which the node can be reset. No two live nodes share one. Default: host name, process id and
   * a random suffix.
   */
  readonly node?: string;
  /** Pool whose queues the node serves. Default `default`. */
  readonly pool?: string;
  /** Milliseconds between heartbeats, 50 to 3,600,000. Default 5000. */
  readonly heartbeatMs?: number;
  /**
   * Milliseconds without a heartbeat after which the node counts as lost, and its jobs go to other nodes. At
   * least twice `heartbeatMs`, up to 86,400,000. Default 30000, or twice `heartbeatMs` if that is more.
   */
  readonly lostAfterMs?: number;
  /**
   * Source of the heartbeats. `true`: a thread with a connection of its own, so that a handler that blocks
   * the event loop does not lose the node. A URL: the file of that thread, when a bundler has put it
   * elsewhere (`@pgqueue/worker/heartbeat-thread`, as an entry of its own). `false`: the event loop. Default
   * true.
   */
  readonly heartbeatThread?: boolean | URL;
  /**
   * Milliseconds after which a handler that blocks the event loop is reported: on stderr while it blocks, and
   * then by the event `node.blocked`. 50 to 3,600,000; 0: never. Default 2000.
   */
  readonly blockedMs?: number;
  /**
   * LISTENs for hints, on a connection of its own. Set it to false behind PgBouncer in transaction mode.
   * Default true.
   */
  readonly listen?: boolean;
  readonly observe?: Observer;
  /**
   * Decrypts payloads and checkpoints, and encrypts what is stored of jobs: what `encrypted` returns, the same as the
   * producers have. A job whose key is missing waits, uncounted, with the event `codec.key_missing`. Default: none,
   * and so does every encrypted job.
   */
  readonly codec?: Codec;
}

/** Options of a node, with every default applied. */
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
  readonly codec: Codec | undefined;
}

/**
 * Returns the settings of a node, and the problems between its options. The caller throws these together with
 * the problems that it has found itself.
 */
export function nodeSettings(
  options: NodeOptions,
  { slots, tasks }: { readonly slots: number; readonly tasks: NodeTasks },
): { readonly settings: NodeSettings; readonly problems: readonly string[] } {
  const { connectionString = '', listen = true, pool = 'default', node = defaultNode() } = options;
  const { heartbeatMs = 5_000, lostAfterMs = Math.max(30_000, 2 * heartbeatMs) } = options;
  const { heartbeatThread = true, blockedMs = 2_000, codec } = options;
  const problems = lostAfterMs < 2 * heartbeatMs ? ['lostAfterMs must be at least two heartbeatMs'] : [];
  const observe = concealing(codec, allObservers(options.observe));
  const named = { connectionString, node, pool, slots, tasks };
  const clocks = { heartbeatMs, lostAfterMs, heartbeatThread, blockedMs };
  return { settings: { ...named, ...clocks, listen, observe, codec }, problems };
}

/** Returns the options of a node's own connections. */
export function connectionOptions(options: NodeOptions): Omit<DatabaseOptions, 'pool'> {
  const { connectionString, schema, applicationName, queryTimeoutMs } = options;
  const given = { connectionString, schema, applicationName, queryTimeoutMs };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** Reports whether options were given at all: types demand them, but callers without types exist. */
export function isGiven(options: unknown): boolean {
  return typeof options === 'object' && options !== null;
}

/** Returns a unique node id that tells where the node runs. */
function defaultNode(): string {
  return `${hostname().slice(0, 150)}-${process.pid}-${randomBytes(3).toString('hex')}`;
}
