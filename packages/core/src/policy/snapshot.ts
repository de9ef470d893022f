import type { Attributes } from '../job/job.ts';

/** A waiting job without a work item: what a tick may dispatch. */
export interface Candidate {
  readonly id: string;
  readonly queue: string;
  readonly key: string;
  /** The order of enqueuing, over all queues. */
  readonly seq: number;
  /** Smaller first. */
  readonly priority: number;
  readonly task: string;
  readonly version: number;
  readonly createdMs: number;
  readonly attributes: Attributes;
}

/** A key that the tick looked at, whether or not it has a candidate. */
export interface KeySeen {
  readonly queue: string;
  readonly key: string;
  /** 0: behind the cursor; 1: up to it. */
  readonly ring: number;
}

/** Payload versions that can be run, from `min` to `max`. */
export interface VersionRange {
  readonly min: number;
  readonly max: number;
}

/** Live nodes of one pool that can run the same things. */
export interface NodeGroup {
  readonly tasks: Readonly<Record<string, VersionRange>>;
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

/** The settings of a queue that has candidates. */
export interface QueueSeen {
  readonly pool: string;
  readonly paused: boolean;
}

/**
 * All that a plan may depend on: plain JSON, so that it can be recorded, compared and replayed. Records by name have own
 * properties only; read them with {@link own}, since a queue may be called `constructor`.
 */
export interface Snapshot {
  /** The database's clock, Unix milliseconds: the only time a policy knows. */
  readonly nowMs: number;
  /** The first few of each key in `keys`; paused queues are not among them. In no particular order. */
  readonly candidates: readonly Candidate[];
  readonly keys: readonly KeySeen[];
  /** Queues that differ from the default (pool `default`, not paused). */
  readonly queues: Readonly<Record<string, QueueSeen>>;
  readonly pools: Readonly<Record<string, PoolSeen>>;
  /** Jobs in one plan at most. */
  readonly batchMax: number;
}

/** The pool of a queue for which none is set. */
export const defaultPool = 'default';

/** The own property of that name, or undefined: never something that the record inherits. */
export function own<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

/** The pool that serves a queue. */
export function poolOf(snapshot: Pick<Snapshot, 'queues'>, queue: string): string {
  return own(snapshot.queues, queue)?.pool ?? defaultPool;
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
export function compareInKey(a: Candidate, b: Candidate): number {
  return a.priority - b.priority || a.seq - b.seq;
}
