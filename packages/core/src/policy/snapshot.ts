import type { Attributes, Json } from '../job/job.ts';

/** Facts of a job that gates and orders may read: it waits, is scheduled, or has just ended an attempt. */
export interface JobFacts {
  readonly id: string;
  readonly queue: string;
  readonly key: string;
  readonly task: string;
  /** Version of its payload. */
  readonly version: number;
  /** Smaller goes first, within its key. */
  readonly priority: number;
  /** Order of enqueuing, over all queues. Below 0: it came from another installation. */
  readonly seq: number;
  /** Unix milliseconds, like all times here. */
  readonly createdMs: number;
  /** Latest start. A job that was not started by then ends as expired. */
  readonly expiresMs: number | null;
  readonly attributes: Attributes;
  /** Attempts that ran to an error. */
  readonly tries: number;
  /** Id of the flow that it belongs to; undefined: it belongs to none. */
  readonly flow?: string;
}

/** A waiting job without a work item, which a tick may dispatch. */
export interface Candidate extends JobFacts {
  /**
   * Set when the job must not go in a bundle: it was lost with its node before, or it has failed and its next
   * failure would be its last. Default false.
   */
  readonly alone?: boolean;
}

/**
 * A queue's key with its waiting jobs: orders choose among lanes. Within a lane, jobs go by priority, then by
 * `seq`.
 */
export interface Lane {
  readonly queue: string;
  readonly key: string;
  /**
   * First few jobs, in their order. When all of those are held, also some jobs of other kinds (task, version,
   * attributes) from behind them.
   */
  readonly jobs: readonly Candidate[];
  /** Set when more jobs wait behind these. */
  readonly more: boolean;
  /**
   * Number of hidden jobs by kind, when only the first few jobs of each kind (see {@link Policy.kindOf}) are
   * shown. The record is keyed by the id of the last shown job of each kind; its hidden jobs wait anywhere
   * behind that job. Default: no jobs are missing between those that are shown.
   */
  readonly unseen?: Readonly<Record<string, number>>;
  /**
   * Set when jobs that go before these are missing, because they could not be written lately. Default: these
   * are the first jobs.
   */
  readonly skipped?: boolean;
  /**
   * Time at which the first job of this key that waits for its retry, or for the end of its snooze, is due.
   * Null: no job does. {@link neverMs}: it waits in its handler, for jobs or a signal, and nobody knows until when.
   */
  readonly retryDueMs: number | null;
  /** Set when the lane was read together with `inFlight`. Otherwise it may be some ticks old. */
  readonly fresh: boolean;
  /**
   * Set when the lane had waited before it was seen: a new leader found it, or it was among more lanes than
   * can be read. Default: its first job has just come.
   */
  readonly found?: boolean;
}

/** A job with a work item. */
export interface InFlight extends JobFacts {
  readonly pool: string;
  /** `ready`: no node has leased it. */
  readonly state: 'ready' | 'running';
  readonly node: string | null;
  readonly dispatchedMs: number;
  /** Id that the jobs of one handler call share. Null: the job runs alone. */
  readonly bundle: string | null;
  /**
   * Number of its batch, whose jobs one slot runs one after another. Default: the job has a work item of its
   * own.
   */
  readonly row?: number;
  /** Set when it could not be recalled, because someone else has locked its row. Default false. */
  readonly stuck?: boolean;
}

/** End of an attempt, or `recalled` for a work item that was taken back unrun. */
export type AttemptEnd = 'done' | 'retry' | 'dead' | 'snooze' | 'cancelled' | 'crash' | 'recalled';

/** An attempt that ended since the last plan. */
export interface Settlement {
  readonly job: JobFacts;
  readonly outcome: AttemptEnd;
  /**
   * Milliseconds from the start of its lease to its end. For jobs of one handler call, the job's part of
   * that. 0 when it never ran.
   */
  readonly busyMs: number;
  readonly endedMs: number;
}

/** Payload versions that can be run, from `min` to `max`, both included. */
export interface VersionRange {
  readonly min: number;
  readonly max: number;
}

/** Versions of a task that nodes can run. */
export interface NodeTask extends VersionRange {
  /** Set when their handler takes one job at a time, and no bundles. Default: it takes bundles. */
  readonly single?: boolean;
}

/** Live nodes of one pool that can run the same tasks and versions. */
export interface NodeGroup {
  readonly tasks: Readonly<Record<string, NodeTask>>;
  /** Number of jobs that its nodes can run at once. */
  readonly slots: number;
  /**
   * Most work items without a lease that may wait for it: its free slots, and what it will consume within the
   * horizon.
   */
  readonly depth: number;
}

/** Number of work items of a pool that no node has leased, by task and version. */
export interface ReadyItems {
  readonly task: string;
  readonly version: number;
  readonly count: number;
}

/** A pool at the time of the snapshot: the slots of its nodes, and the work items that wait for them. */
export interface PoolSeen {
  readonly groups: readonly NodeGroup[];
  readonly ready: readonly ReadyItems[];
}

/**
 * A rate: `perSecond` jobs on average, up to `burst` at once. Any window of w seconds has at most
 * perSecond × w + burst.
 */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

/** Settings of a queue, as in queue_config at the time of the snapshot. */
export interface QueueSeen {
  readonly pool: string;
  readonly paused: boolean;
  /** Most jobs of the queue in flight. Null: no limit. */
  readonly concurrency: number | null;
  /** Most jobs of each of its keys in flight. Null: no limit. */
  readonly keyConcurrency: number | null;
  readonly rate: Rate | null;
  /** Rate of each of its keys. Null: no limit. */
  readonly keyRate: Rate | null;
  /** Weight of its share relative to other queues, above 0. Default 1. */
  readonly weight: number;
}

/** Health of the database. A field is null when it could not be read. */
export interface DatabaseHealth {
  readonly readMs: number;
  /** Age of the oldest snapshot that holds vacuum back. 0: there is none. */
  readonly oldestSnapshotMs: number | null;
  /** Dead rows in QUEUE and WORK_QUEUE, by PostgreSQL's own statistics. */
  readonly deadRows: number | null;
  /** Lag of the slowest standby. 0: there is no standby, or no lag. */
  readonly replicationLagMs: number | null;
}

/** Value that an asynchronous `prepare` fetched last, and the time at which that fetch began. */
export interface Prepared {
  readonly value: Json;
  readonly atMs: number;
}

/**
 * The whole input of a plan, as plain JSON: it can be recorded, compared and replayed. Records by name have
 * own properties only; read them with {@link own}, since a queue may be called `constructor`.
 */
export interface Snapshot {
  /** The database's clock, in Unix milliseconds: the only time that a policy knows. */
  readonly nowMs: number;
  /** Lanes with waiting jobs, in no particular order. */
  readonly lanes: readonly Lane[];
  /** All existing work items. The list is exact, since only the scheduler makes them. */
  readonly inFlight: readonly InFlight[];
  /**
   * Attempts that ended since the last plan. Empty unless a part of the policy needs them ({@link Needs}).
   */
  readonly settled: readonly Settlement[];
  /** Settings of the queues that differ from the defaults. */
  readonly queues: Readonly<Record<string, QueueSeen>>;
  readonly pools: Readonly<Record<string, PoolSeen>>;
  /** Keys that move between installations: none of their jobs may go. Default: none moves. */
  readonly moving?: readonly string[];
  /** Null unless a part of the policy needs it ({@link Needs}), and until it was read first. */
  readonly health: DatabaseHealth | null;
  /** Values by the name of the gate or order that prepared them. Absent until the first fetch succeeded. */
  readonly prepared: Readonly<Record<string, Prepared>>;
  /** Most jobs in one plan. */
  readonly batchMax: number;
}

/** Pool of a queue for which none is set. */
export const defaultPool = 'default';

/** Settings of a queue for which none are set. */
export const defaultQueue: QueueSeen = {
  pool: defaultPool,
  paused: false,
  concurrency: null,
  keyConcurrency: null,
  rate: null,
  keyRate: null,
  weight: 1,
};

/** Returns the own property of that name, or undefined. Inherited properties are ignored. */
export function own<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** Returns the settings of a queue, or the defaults when none are set. */
export function queueOf(snapshot: Pick<Snapshot, 'queues'>, queue: string): QueueSeen {
  return own(snapshot.queues, queue) ?? defaultQueue;
}

/** Returns the pool that serves a queue. */
export function poolOf(snapshot: Pick<Snapshot, 'queues'>, queue: string): string {
  return queueOf(snapshot, queue).pool;
}

/** Returns a text that is unique for each queue and key. */
export function laneName({ queue, key }: { readonly queue: string; readonly key: string }): string {
  return `${queue.length}:${queue}${key}`;
}

/**
 * Compares texts by code point, as PostgreSQL's collation "C" does in UTF-8. `<` compares UTF-16 units, which
 * differs above U+D800.
 */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index += 1) {
    const [one, other] = [a.charCodeAt(index), b.charCodeAt(index)];
    if (one !== other) return rank(one) - rank(other);
  }
  return a.length - b.length;
}

/** Ranks a UTF-16 unit. Surrogates stand for code points above all others, so they rank last. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** Compares jobs of one key: by priority, then by the order of enqueuing. */
export function compareInKey(a: JobFacts, b: JobFacts): number {
  return a.priority - b.priority || a.seq - b.seq;
}
