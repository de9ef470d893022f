import type { Lane } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { LaneId, LaneRead, TickInput } from '@pgqueue/postgres/internal';
import type { LaneCursors } from './lane-cursors.ts';
import type { KnownJob } from './known-job.ts';
import { jobsOf, toJobs } from './known-job.ts';
import type { HeldLanes, LaneRoom } from './lane-room.ts';
import { createLaneRoom } from './lane-room.ts';
import type { PlannedLane } from './planned-lanes.ts';
import { leave } from './planned-lanes.ts';
import type { Refusals } from './conflict-backoff.ts';
import { createRefusals } from './conflict-backoff.ts';

/**
 * Cache of the waiting jobs: the first few of every lane. Each tick reads one page of lanes. If all lanes fit
 * into the page, the cache is complete and always fresh. Otherwise the page moves on from tick to tick, the
 * other lanes stay as they were read, and three kinds of lanes are read out of turn: lanes whose known jobs
 * are used up, lanes in which a job was just enqueued, and lanes a plan asked for. Stale entries do no harm,
 * since dispatch refuses a job that was changed after it was read.
 */
export interface LaneCache {
  /** Adds a job that was just enqueued. Returns false if its lane must be read instead. */
  readonly add: (job: KnownJob) => boolean;
  readonly remove: (job: LaneId & { readonly id: string }) => void;
  readonly empty: () => boolean;
  /**
   * Returns the next tick's reads. `lanes`: further lanes to read; `rows`: most jobs of lanes out of turn.
   */
  readonly ask: (
    nowMs: number,
    also: { readonly lanes: readonly LaneId[]; readonly rows: number },
  ) => Pick<TickInput, 'after' | 'lanes' | 'created'>;
  readonly see: (lanes: readonly LaneRead[], page: LanePage) => void;
  /** Marks all lanes as not fresh, since this tick read none. */
  readonly age: () => void;
  /** Reports whether all lanes are known. */
  readonly whole: () => boolean;
  /** Reports whether all lanes are known and none must be read out of turn. */
  readonly complete: () => boolean;
  /** Returns the jobs that are left out of their lanes, because they were refused recently or can't be read. */
  readonly leftOut: () => ReadonlySet<string>;
  /** Number of unknown lanes to look for; 0: the last page was nearly all known, or there is no room. */
  readonly discovers: () => number;
  /** Notes the lanes a plan held. */
  readonly planned: (plan: HeldLanes) => void;
  readonly lanes: () => readonly Lane[];
  /** Lanes read by the last tick. */
  readonly fresh: () => readonly Lane[];
  readonly find: (id: string) => KnownJob | undefined;
  /** Call when a plan was written. Removes its jobs, and requests a read of lanes with refused jobs. */
  readonly wrote: (planned: Iterable<string>, written: ReadonlyMap<string, number>) => void;
  /** Empties a lane of which jobs were dispatched that were never read: what is known of it may be in flight. */
  readonly usedUp: (lane: string) => void;
  /** Requests lanes by name, each with the number of jobs the next tick must read. */
  readonly want: (lanes: Iterable<readonly [string, number]>) => void;
}

/** Parameters of a tick's read. */
export interface LanePage {
  /** Number of lanes in a full page. */
  readonly keys: number;
  /** A monotonic clock. */
  readonly nowMs: number;
  /** The page left out the lanes of full pools; its own find room. Default false. */
  readonly open?: boolean;
  /** Ids of jobs that no plan may see. Default: none. */
  readonly unreadable?: ReadonlySet<string>;
}

/** A cached lane, as plans see it. `skipped`: jobs before its first one were left out. */
interface ShownLane extends Lane {
  readonly jobs: readonly KnownJob[];
  readonly skipped: boolean;
  readonly found: boolean;
}

interface CachedLane {
  readonly name: string;
  lane: ShownLane;
  /** Jobs before, between or behind the shown ones were left out. */
  gaps: boolean;
  /** Index in the list of all lanes. */
  at: number;
}

/** Most lanes that pages fill the cache with: see {@link LaneRoom}. */
export const lanesMax = 20_000;
/** Fewest jobs to read in lanes out of turn, even if the tick wants fewer. */
const rowsMin = 64;
/** Jobs to read in a lane out of turn, unless a plan needs more, and the most that a plan can request. */
export const depthMin = 8;
const depthMax = 1_000;
/** The same when there are more lanes than the cache holds, so that others get read, too. */
const depthFull = 2;
/** A lane with this many jobs left is read before they are used up; an empty lane would miss its turns. */
const fewJobs = 1;
/** Usual delay until a new job is visible, plus clock differences between producers, in milliseconds. */
const commitMs = 200;

const start: LaneId = { queue: '', key: '' };

interface CacheState {
  readonly known: Map<string, CachedLane>;
  /** All lanes in no particular order; a snapshot gets a copy. */
  list: Lane[];
  /** Names of the lanes read by the last tick. */
  readonly fresh: Set<string>;
  readonly byId: Map<string, KnownJob>;
  /** Number of jobs to read, by lane name. */
  readonly wanted: Map<string, number>;
  /** Persistent read depth, by lane name, of lanes that use up more than their part of a page. */
  readonly deep: Map<string, number>;
  readonly refusals: Refusals;
  /** A new set with each read: explanations keep that of the last tick. */
  leftOut: Set<string>;
  readonly room: LaneRoom;
  nowMs: number;
  after: LaneId;
  whole: boolean;
  /** True if all lanes were known before the current read. */
  wereAll: boolean;
  discovering: boolean;
  probedMs: number | null;
  /** Jobs created after this database time are new. Null: nothing was read before. */
  newFromMs: number | null;
}

export function createLaneCache(cursors: Pick<LaneCursors, 'went'>, max: number = lanesMax): LaneCache {
  const memory: CacheState = {
    known: new Map(),
    list: [],
    fresh: new Set(),
    byId: new Map(),
    wanted: new Map(),
    deep: new Map(),
    refusals: createRefusals(),
    leftOut: new Set(),
    room: createLaneRoom({
      max,
      size: () => memory.known.size,
      laneOf: (id) => {
        const job = memory.byId.get(id);
        return job === undefined ? undefined : laneName(job);
      },
      drop: (name) => forget(memory, name),
    }),
    nowMs: 0,
    after: start,
    whole: true,
    wereAll: false,
    discovering: true,
    probedMs: null,
    newFromMs: null,
  };
  const { known, byId, wanted, deep } = memory;
  return {
    ask: (nowMs, also) => {
      const { after, whole, probedMs } = memory;
      memory.probedMs = nowMs;
      memory.newFromMs = probedMs === null ? null : probedMs - commitMs;
      const created =
        whole || probedMs === null ? null : { fromMs: probedMs - commitMs, toMs: nowMs + commitMs };
      return { after, created, lanes: takeWanted(memory, also) };
    },
    add: (job) => add(memory, job),
    remove: (job) => remove(memory, job),
    empty: () => known.size === 0,
    see: (lanes, page) => see(memory, lanes, page),
    age: () => {
      for (const name of memory.fresh) outdate(memory, name);
    },
    whole: () => memory.whole,
    complete: () => memory.whole && wanted.size === 0 && deep.size === 0,
    leftOut: () => memory.leftOut,
    discovers: () => (memory.discovering ? memory.room.free() : 0),
    planned: (plan) => memory.room.planned(plan),
    lanes: () => memory.list.slice(),
    fresh: () => [...memory.fresh].flatMap((name) => known.get(name)?.lane ?? []),
    find: (id) => byId.get(id),
    wrote: (planned, written) => {
      const stays = ({ id }: KnownJob): boolean => !written.has(id);
      for (const left of leave(memory, planned, written)) {
        const { name, lane, gaps } = left.entry;
        if (!gaps) cursors.went(name, lane, stays);
        settle(memory, left);
      }
    },
    usedUp: (name) => {
      const entry = known.get(name);
      if (entry === undefined) return;
      for (const depths of [wanted, deep]) depths.delete(name);
      put(memory, name, { ...entry.lane, jobs: renew(memory, name, []), more: true, fresh: false }, true);
    },
    want: (lanes) => {
      for (const [name, jobs] of lanes) {
        wanted.set(name, Math.max(jobs, wanted.get(name) ?? 0));
        if (jobs > depthMin) deep.set(name, Math.min(depthMax, Math.max(jobs, deep.get(name) ?? 0)));
      }
    },
  };
}

function forget({ known, byId, list, fresh, room }: CacheState, name: string): void {
  const entry = known.get(name);
  if (entry === undefined) return;
  room.forgot(name);
  for (const { id } of entry.lane.jobs) byId.delete(id);
  known.delete(name);
  fresh.delete(name);
  const last = list.pop();
  if (last === undefined || entry.at === list.length) return;
  // move the last lane to the free index
  list[entry.at] = last;
  const moved = known.get(laneName(last));
  if (moved !== undefined) moved.at = entry.at;
}

/** Replaces a lane's jobs. Returns the old list if nothing changed: plans compare lists by identity. */
function renew(memory: CacheState, name: string, jobs: readonly KnownJob[]): readonly KnownJob[] {
  const before = memory.known.get(name)?.lane.jobs ?? [];
  if (before.length === jobs.length && before.every((job, at) => job === jobs[at])) return before;
  for (const { id } of before) memory.byId.delete(id);
  for (const job of jobs) {
    leaveOther(memory, job);
    memory.byId.set(job.id, job);
  }
  return jobs;
}

/** Shows a lane to plans. A changed lane is a new object: plans compare lanes by identity. */
function put(memory: CacheState, name: string, lane: ShownLane, gaps: boolean): void {
  const { known, list, fresh } = memory;
  const entry = known.get(name);
  const at = entry?.at ?? list.length;
  if (entry === undefined) known.set(name, { name, lane, gaps, at });
  else [entry.lane, entry.gaps] = [lane, gaps];
  list[at] = lane;
  if (lane.fresh) fresh.add(name);
  else fresh.delete(name);
}

function outdate(memory: CacheState, name: string): void {
  const entry = memory.known.get(name);
  if (entry !== undefined) put(memory, name, { ...entry.lane, fresh: false }, entry.gaps);
}

function takeWanted(
  { known, wanted, deep }: CacheState,
  { lanes, rows }: { readonly lanes: readonly LaneId[]; readonly rows: number },
): TickInput['lanes'] {
  const named = new Map(lanes.map((lane) => [laneName(lane), { ...lane, depth: depthMin }]));
  let left = Math.max(rowsMin, rows);
  const name = (more: ReadonlyMap<string, number>): void => {
    for (const [lane, jobs] of more) {
      if (left <= 0) break;
      wanted.delete(lane);
      const entry = known.get(lane);
      if (entry === undefined) continue;
      const depth = Math.max(jobs, named.get(lane)?.depth ?? 0);
      left -= depth;
      named.set(lane, { queue: entry.lane.queue, key: entry.lane.key, depth });
    }
  };
  name(wanted);
  name(deep);
  return [...named.values()];
}

function see(memory: CacheState, lanes: readonly LaneRead[], page: LanePage): void {
  const { known, refusals } = memory;
  const { keys, nowMs, unreadable, open = false } = page;
  memory.nowMs = nowMs;
  const leftOut = new Set<string>();
  memory.leftOut = leftOut;
  const named = new Map(lanes.map((lane) => [laneName(lane), lane]));
  const paged = [...named].filter(([, lane]) => lane.paged);
  // a lane absent while all were known is new, whenever its jobs were created: a delay ended
  memory.wereAll = memory.whole && memory.newFromMs !== null;
  memory.whole = !open && paged.length < keys;
  const unknown = paged.filter(([name]) => !known.has(name)).length;
  if (!open) memory.discovering = memory.whole || unknown * 4 > paged.length;
  for (const name of memory.whole ? [...known.keys()] : memory.fresh) {
    if (named.has(name)) continue;
    if (memory.whole) forget(memory, name);
    else outdate(memory, name);
  }
  let last: LaneRead | undefined;
  let turnedAway = false;
  for (const [name, lane] of named) {
    const seen = toJobs(lane, (id) => memory.byId.get(id)).filter((job) => {
      const left = unreadable?.has(job.id) === true || refusals.leavesOut(job, nowMs);
      if (left) leftOut.add(job.id);
      return !left;
    });
    if (seen.length === 0) forget(memory, name);
    const found = known.get(name)?.lane.found ?? !isNew(memory, seen);
    const stays =
      seen.length === 0 || known.has(name) || memory.room.admits({ isNew: !found, open: open && lane.paged });
    // the next page begins with the first lane of this page that found no room
    turnedAway ||= lane.paged && !stays;
    if (lane.paged && !turnedAway) last = lane;
    if (seen.length === 0 || !stays) continue;
    const { queue, key, retryDueMs, wanted, jobs: front } = lane;
    const jobs = renew(memory, name, seen);
    const isLeftOut = jobsOf(lane).map(({ id }) => leftOut.has(id));
    const [skipped, gaps] = [isLeftOut[0] === true, isLeftOut.includes(true)];
    memory.room.filled(name);
    const more = front.length >= wanted;
    put(memory, name, { queue, key, jobs, more, skipped, retryDueMs, found, fresh: true }, gaps);
  }
  for (const name of memory.deep.keys()) if (!known.has(name)) memory.deep.delete(name);
  if (memory.whole) memory.after = start;
  else if (last !== undefined && !open) memory.after = { queue: last.queue, key: last.key };
}

function add(memory: CacheState, job: KnownJob): boolean {
  const { known, byId, refusals, room, nowMs } = memory;
  const name = laneName(job);
  const entry = known.get(name);
  const { queue, key } = job;
  const lane = entry?.lane ?? { queue, key, ...emptyLane };
  const { jobs, more, retryDueMs } = lane;
  if (byId.has(job.id) || refusals.leavesOut(job, nowMs)) return false;
  if (more || retryDueMs !== null || entry?.gaps === true) return false;
  if (entry === undefined && !room.admits({ isNew: true, open: false })) return false;
  const after = jobs.findIndex((other) => (other.priority - job.priority || other.seq - job.seq) > 0);
  byId.set(job.id, job);
  room.filled(name);
  const all = jobs.toSpliced(after === -1 ? jobs.length : after, 0, job);
  put(memory, name, { ...lane, jobs: all, fresh: true }, false);
  return true;
}

function remove(memory: CacheState, { id, queue, key }: Parameters<LaneCache['remove']>[0]): void {
  const name = laneName({ queue, key });
  const entry = memory.known.get(name);
  if (entry === undefined || !memory.byId.delete(id)) return;
  const jobs = entry.lane.jobs.filter((job) => job.id !== id);
  if (jobs.length === 0) forget(memory, name);
  else put(memory, name, { ...entry.lane, jobs, fresh: false }, entry.gaps);
}

const emptyLane = {
  jobs: [],
  more: false,
  skipped: false,
  retryDueMs: null,
  found: false,
  fresh: true,
} as const;

/** Reports whether a lane is new: its first job arrived after the last read. */
function isNew({ wereAll, newFromMs }: CacheState, [first]: readonly KnownJob[]): boolean {
  return wereAll || (first !== undefined && newFromMs !== null && first.createdMs >= newFromMs);
}

/**
 * Removes a job from its previous lane if its queue or key was changed. A job is in one lane only, because
 * dispatch checks the lane a plan counted it under.
 */
function leaveOther(memory: CacheState, job: KnownJob): void {
  const before = memory.byId.get(job.id);
  if (before === undefined || laneName(before) === laneName(job)) return;
  const entry = memory.known.get(laneName(before));
  if (entry === undefined) return;
  const { name, lane, gaps } = entry;
  put(memory, name, { ...lane, jobs: lane.jobs.filter(({ id }) => id !== job.id) }, gaps);
}

function settle(memory: CacheState, left: PlannedLane<CachedLane>): void {
  const { byId, wanted, deep, room } = memory;
  const { name, lane, gaps } = left.entry;
  if (left.written > 0) room.served(name, left.written);
  const jobs = left.first ? lane.jobs.slice(left.jobs) : lane.jobs.filter(({ id }) => byId.has(id));
  const usedUp = jobs.length === 0 && lane.more;
  if (jobs.length === 0 && !lane.more && !left.refused) forget(memory, name);
  // a refused job still waits, so the job behind it is not the lane's first
  else put(memory, name, { ...lane, jobs, fresh: lane.fresh && !left.refused }, gaps);
  const soonUsedUp = lane.more && jobs.length <= fewJobs && !memory.whole;
  if (usedUp) room.usedUp(name);
  const least = room.full() ? depthFull : depthMin;
  if (left.refused || usedUp || soonUsedUp) wanted.set(name, Math.max(least, lane.jobs.length));
  const depth = deep.get(name);
  if (depth === undefined || usedUp || left.jobs * 4 > depth) return;
  if (depth <= 2 * depthMin) deep.delete(name);
  else deep.set(name, Math.floor(depth / 2));
}
