import type { Attributes, Json } from '../job/job.ts';

/** What gates and orders may read of a job, whether it waits, is scheduled, or has just ended an attempt. */
export interface JobFacts {
  readonly id: string;
  readonly queue: string;
  readonly key: string;
  readonly task: string;
  /** Of its payload. */
  readonly version: number;
  /** Smaller first, within its key. */
  readonly priority: number;
  /** The order of enqueuing, over all queues. */
  readonly seq: number;
  /** Unix milliseconds, like all times here. */
  readonly createdMs: number;
  /** If it was not started by then, it ends as expired. */
  readonly expiresMs: number | null;
  readonly attributes: Attributes;
  /** Attempts that ran to an error. */
  readonly tries: number;
}

/** A waiting job without a work item: what a tick may dispatch. */
export interface Candidate extends JobFacts {
  /** It never goes in a bundle: it was lost with its node before, or has failed, and its next failure would be its last. Default: it may. */
  readonly alone?: boolean;
}

/** A queue's key with waiting jobs: the unit that orders choose from. Within it, jobs go by priority, then by `seq`. */
export interface Lane {
  readonly queue: string;
  readonly key: string;
  /** The first few, in their order; where all of those are held, some of other kinds (task, version, attributes) behind them, too. */
  readonly jobs: readonly Candidate[];
  /** Whether more wait behind those. */
  readonly more: boolean;
  /**
   * Where of each kind (see {@link Policy.kindOf}) only the first few are shown: by the id of the last one of a kind that is shown, how
   * many more of that kind wait behind it, wherever in the lane. Default: none are missing between those that are shown.
   */
  readonly unseen?: Readonly<Record<string, number>>;
  /** Whether jobs that go before these are missing: those that could not be written lately. Default: no, these are the first. */
  readonly skipped?: boolean;
  /** A job of this key waits for its retry or the end of its snooze: when the first of them is due. Null: none does. */
  readonly retryDueMs: number | null;
  /** Whether this was read together with `inFlight`; what is not fresh may lie some ticks back. */
  readonly fresh: boolean;
  /**
   * It waited before it was seen: it was found among more lanes than can be looked at, or by a new leader. Default: no, its first job has just
   * come.
   */
  readonly found?: boolean;
}

/** A job with a work item. */
export interface InFlight extends JobFacts {
  readonly pool: string;
  /** `ready`: no node has leased it yet. */
  readonly state: 'ready' | 'running';
  readonly node: string | null;
  readonly dispatchedMs: number;
  /** Jobs that one handler call takes together share it. Null: it runs alone. */
  readonly bundle: string | null;
  /** The number of the batch that it is in, whose jobs one slot runs one after another. Default: it has a work item of its own. */
  readonly row?: number;
  /** It was to be recalled, and could not be: someone else has locked it. Default: no. */
  readonly stuck?: boolean;
}

/** How an attempt ended, or that a work item was taken back unrun. */
export type AttemptEnd = 'done' | 'retry' | 'dead' | 'snooze' | 'cancelled' | 'crash' | 'recalled';

/** An attempt that ended since the last plan. */
export interface Settlement {
  readonly job: JobFacts;
  readonly outcome: AttemptEnd;
  /** From the start of its lease to its end; of jobs that one handler call took together, its part of that; 0 where it never ran. */
  readonly busyMs: number;
  readonly endedMs: number;
}

/** Payload versions that can be run, from `min` to `max`. */
export interface VersionRange {
  readonly min: number;
  readonly max: number;
}

/** What nodes can run of a task. */
export interface NodeTask extends VersionRange {
  /** Their handler takes one job at a time, and no bundles. Default: it takes bundles. */
  readonly single?: boolean;
}

/** Live nodes of one pool that can run the same things. */
export interface NodeGroup {
  readonly tasks: Readonly<Record<string, NodeTask>>;
  /** How many jobs its nodes can run at once. */
  readonly slots: number;
  /** How many work items without a lease it may have waiting: its free slots, and what it will consume within the horizon. */
  readonly depth: number;
}

/** Work items of a pool that no node has leased yet, counted by what it takes to run them. */
export interface ReadyItems {
  readonly task: string;
  readonly version: number;
  readonly count: number;
}

/** A pool at the moment of the snapshot: its nodes' slots, and what already waits for them. */
export interface PoolSeen {
  readonly groups: readonly NodeGroup[];
  readonly ready: readonly ReadyItems[];
}

/** A rate: `perSecond` jobs on average, at most `burst` at once. Over any window of w seconds: at most perSecond × w + burst. */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

/** The settings of a queue, as they stand in queue_config at the moment of the snapshot. */
export interface QueueSeen {
  readonly pool: string;
  readonly paused: boolean;
  /** Jobs of the queue in flight at most; null: no limit. */
  readonly concurrency: number | null;
  /** The same for each of its keys. */
  readonly keyConcurrency: number | null;
  readonly rate: Rate | null;
  /** The same for each of its keys. */
  readonly keyRate: Rate | null;
  /** Its share beside other queues, above 0; 1 where none is set. */
  readonly weight: number;
}

/** How the database itself does; null fields could not be read. */
export interface DatabaseHealth {
  readonly readMs: number;
  /** Age of the oldest snapshot that holds vacuum back; 0: none does. */
  readonly oldestSnapshotMs: number | null;
  /** Dead rows in QUEUE and WORK_QUEUE, by PostgreSQL's own statistics. */
  readonly deadRows: number | null;
  /** How far the slowest standby is behind; 0: there is none, or it is not. */
  readonly replicationLagMs: number | null;
}

/** What an asynchronous `prepare` fetched last. */
export interface Prepared {
  readonly value: Json;
  readonly atMs: number;
}

/**
 * All that a plan may depend on: plain JSON, so that it can be recorded, compared and replayed. Records by name have own
 * properties only; read them with {@link own}, since a queue may be called `constructor`.
 */
export interface Snapshot {
  /** The database's clock, Unix milliseconds: the only time a policy knows. */
  readonly nowMs: number;
  /** In no particular order. */
  readonly lanes: readonly Lane[];
  /** Every work item there is: exact, since only the scheduler makes them. */
  readonly inFlight: readonly InFlight[];
  /** Attempts that ended since the last plan; empty unless something needs them ({@link Needs}). */
  readonly settled: readonly Settlement[];
  /** Queues that differ from the defaults. */
  readonly queues: Readonly<Record<string, QueueSeen>>;
  readonly pools: Readonly<Record<string, PoolSeen>>;
  /** Null unless something needs it, and before it was read first. */
  readonly health: DatabaseHealth | null;
  /** By the name of the gate or order that prepared it; absent until its first fetch succeeded. */
  readonly prepared: Readonly<Record<string, Prepared>>;
  /** Jobs in one plan at most. */
  readonly batchMax: number;
}

/** The pool of a queue for which none is set. */
export const defaultPool = 'default';

/** The settings of a queue for which none were set. */
export const defaultQueue: QueueSeen = {
  pool: defaultPool,
  paused: false,
  concurrency: null,
  keyConcurrency: null,
  rate: null,
  keyRate: null,
  weight: 1,
};

/** The own property of that name, or undefined: never something that the record inherits. */
export function own<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** The settings of a queue, the defaults where none were set. */
export function queueOf(snapshot: Pick<Snapshot, 'queues'>, queue: string): QueueSeen {
  return own(snapshot.queues, queue) ?? defaultQueue;
}

/** The pool that serves a queue. */
export function poolOf(snapshot: Pick<Snapshot, 'queues'>, queue: string): string {
  return queueOf(snapshot, queue).pool;
}

/** One text for a queue's key, different for each. */
export function laneName({ queue, key }: { readonly queue: string; readonly key: string }): string {
  return `${queue.length}:${queue}${key}`;
}

/** By code point, as PostgreSQL's collation "C" does in UTF-8: `<` compares UTF-16 units, which differs above U+D800. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index += 1) {
    const [one, other] = [a.charCodeAt(index), b.charCodeAt(index)];
    if (one !== other) return rank(one) - rank(other);
  }
  return a.length - b.length;
}

/** Surrogates stand for code points above all others, so they rank last. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** The order within a key: by priority, then as they were enqueued. */
export function compareInKey(a: JobFacts, b: JobFacts): number {
  return a.priority - b.priority || a.seq - b.seq;
}
