import type { HeldCounts, Prepared, DatabaseHealth, Settlement, Snapshot } from '@pgqueue/core';
import { laneName, openSlots, own, poolOf } from '@pgqueue/core';
import type { LaneRead, TickRead } from '@pgqueue/postgres/internal';
import { settledMax } from '@pgqueue/postgres/internal';
import type { DeferredLanes } from '../state/lanes/deferred-lanes.ts';
import type { Consumption, Load } from '../state/consumption.ts';
import { poolsSeen } from '../state/consumption.ts';
import type { Flying, Item } from '../state/items/item.ts';
import type { LeaderState } from '../state/leader-state.ts';
import type { LaneCache } from '../state/lanes/lane-cache.ts';
import type { SafePlan } from '../policy/planner.ts';
import type { MovingKeys } from '../state/lanes/moving-keys.ts';
import { jobsOf } from '../state/lanes/known-job.ts';
import { depthMin } from '../state/lanes/lane-cache.ts';

/** Limits of one tick's read. */
export interface ReadRequest {
  /** Most jobs of the page's lanes, in total. */
  readonly want: number;
  readonly keys: number;
  /** Most jobs of lanes read out of turn, in total. */
  readonly rows: number;
}

/** Jobs to read when no room is expected: enough to fill slots freed meanwhile. */
const wantMin = 16;
/**
 * Lanes of one page, each of which costs one or two index lookups. `keysMin` applies when all lanes are
 * known, `keysMax` while there are unknown ones.
 */
const keysMin = 128;
/**
 * Lanes of one page after a tick that dispatched at least `busyMin` jobs: used-up lanes are read out of turn
 * anyway.
 */
const keysBusy = 32;
const busyMin = 100;
const keysMax = 500;

/** Jobs to read while those of a backlog go without being read. */
const backlogWant = 100;
/** Below this many free places, twice as many jobs are read: the places may double from tick to tick. */
const roomFew = 500;

/**
 * Returns the next read's limits: the room of the last tick plus 20 %. `discovers`: number of unknown lanes
 * that may be found. With thousands of known lanes, reading more jobs per lane would only fill the cache.
 */
export function ask({ room, batch, dispatched, backlog }: LeaderState, discovers: number): ReadRequest {
  const rows =
    backlog === undefined
      ? Math.min(batch, Math.max(wantMin, Math.min(2 * room, roomFew), Math.ceil(room * 1.2)))
      : Math.min(batch, backlogWant);
  if (discovers > 0) return { want: rows, keys: Math.min(keysMax, Math.max(keysBusy, discovers)), rows };
  const keys = dispatched >= busyMin ? keysBusy : keysMin;
  return { want: Math.min(rows, keys * depthMin), keys, rows };
}

/**
 * Computes the nodes' load, which determines a pool's depth. The jobs of one bundle take one slot, and so do
 * those of a leased batch.
 */
export function loadOf({ state }: TickRead, items: readonly Item[]): Load {
  const running = new Map<string, number>();
  const kinds = new Map<string, KindLoad>();
  let last: KindLoad | undefined;
  const bundles = new Set<string>();
  for (const { pool, node, bundle, jobs } of items) {
    const [first] = jobs;
    if (first === undefined) continue;
    if (bundle !== null) {
      const part = JSON.stringify([bundle, node]);
      if (bundles.has(part)) continue;
      bundles.add(part);
    }
    const { task, version } = first;
    if (last === undefined || last.task !== task || last.version !== version || last.pool !== pool) {
      const kind = JSON.stringify([pool, task, version]);
      last = kinds.get(kind) ?? { pool, task, version, ready: 0, inFlight: 0 };
      kinds.set(kind, last);
    }
    const count = bundle === null ? jobs.length : 1;
    last.inFlight += count;
    if (node === null) last.ready += count;
    else running.set(node, (running.get(node) ?? 0) + 1);
  }
  const nodes = state.nodes.map((node) => ({ ...node, running: running.get(node.id) ?? 0 }));
  return { now: state.now, nodes, items: [...kinds.values()] };
}

type KindLoad = Load['items'][number] & { ready: number; inFlight: number };

/** Parts of a snapshot beyond the read itself. */
export interface SnapshotParts {
  readonly laneCache: LaneCache;
  readonly deferred: DeferredLanes;
  readonly flying: Flying;
  readonly consumption: Consumption;
  readonly settled: readonly Settlement[];
  readonly health: DatabaseHealth | null;
  readonly prepared: Readonly<Record<string, Prepared>>;
  readonly horizonMs: number;
  readonly batchMax: number;
  readonly moving: Pick<MovingKeys, 'held'>;
}

export function toSnapshot(read: TickRead, load: Load, parts: SnapshotParts): Snapshot {
  const moving = parts.moving.held();
  return {
    nowMs: read.state.now,
    lanes: parts.deferred.without(parts.laneCache.lanes()),
    get inFlight() {
      return parts.flying.jobs();
    },
    settled: parts.settled,
    queues: read.state.queues,
    ...(moving.length === 0 ? {} : { moving }),
    pools: poolsSeen(load, parts.consumption.rates(), parts.horizonMs),
    health: parts.health,
    prepared: parts.prepared,
    batchMax: parts.batchMax,
  };
}

/**
 * Returns the open slots of all pools before a plan, whether any pool has slots left after it, and a function that
 * reports whether a queue's pool has.
 */
export function placesOf(
  snapshot: Snapshot,
  dispatch: readonly { readonly id: string; readonly pool: string; readonly bundle?: string }[],
): { readonly room: number; readonly open: boolean; readonly hasRoom: (queue: string) => boolean } {
  const slots = openSlots(snapshot);
  const left = new Map(Object.keys(snapshot.pools).map((pool) => [pool, slots.left(pool)]));
  let room = 0;
  for (const places of left.values()) room += places;
  for (const { id, pool, bundle } of dispatch) {
    if (bundle === undefined || bundle === id) left.set(pool, (left.get(pool) ?? 0) - 1);
  }
  const open = [...left.values()].some((places) => places > 0);
  return { room, open, hasRoom: (queue) => (left.get(poolOf(snapshot, queue)) ?? 0) > 0 };
}

/**
 * Reports whether the read may have missed jobs that have a slot, in a queue whose pool has slots left after
 * the plan. This is so if the page was full, or if all jobs read of a lane were dispatched. If some of a
 * lane's jobs were held instead, the lookahead finds the jobs behind them.
 */
function cutOff(
  lanes: readonly LaneRead[],
  keys: number,
  { hasRoom, went }: { readonly hasRoom: (queue: string) => boolean; readonly went: ReadonlySet<string> },
): boolean {
  const roomy = lanes.filter(({ queue }) => hasRoom(queue));
  if (roomy.length > 0 && lanes.filter(({ paged }) => paged).length >= keys) return true;
  return roomy.some((lane) => {
    const read = jobsOf(lane);
    return lane.ahead?.length !== 0 && read.length >= lane.wanted && read.every(({ id }) => went.has(id));
  });
}

/** Reports whether another tick would find more to dispatch. */
export function mayHaveMore(
  state: LeaderState,
  tick: {
    readonly snapshot: Snapshot;
    readonly planned: SafePlan;
    readonly read: TickRead;
    readonly keys: number;
    readonly hasRoom: (queue: string) => boolean;
    readonly written: Flying;
    readonly brief: boolean;
  },
): boolean {
  const { snapshot, planned, read, keys, hasRoom, written, brief } = tick;
  const { batchMax } = snapshot;
  if (brief) return planned.dispatch.length >= batchMax || read.state.settled.length >= settledMax;
  const walking = state.lookahead.walking();
  const last = read.lanes.findLast(({ paged }) => paged);
  const after = last === undefined ? '' : laneName(last);
  const moved = after !== state.after;
  state.after = after;
  if (planned.dispatch.length >= batchMax || (state.room > 0 && walking)) return true;
  if (read.state.settled.length >= settledMax) return true;
  const progress = moved || written.count > 0 || walking;
  const went = new Set(planned.dispatch.map(({ id }) => id));
  return progress && cutOff(read.lanes, keys, { hasRoom, went });
}

/**
 * Counts the held jobs of all queues by reason. Jobs of paused queues are not read, so `paused_queue` counts
 * queues instead.
 */
export function heldReasons(held: HeldCounts, queues: Snapshot['queues']): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const reasons of Object.values(held)) {
    for (const [reason, jobs] of Object.entries(reasons)) counts[reason] = (own(counts, reason) ?? 0) + jobs;
  }
  const paused = Object.values(queues).filter((queue) => queue.paused).length;
  return paused === 0 || own(counts, 'paused_queue') !== undefined
    ? counts
    : { ...counts, paused_queue: paused };
}
