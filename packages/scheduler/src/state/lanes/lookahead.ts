import { laneName } from '@pgqueue/core';
import type { LaneId, LaneJob, LaneRead, TickInput } from '@pgqueue/postgres/internal';

/**
 * Lookahead behind held jobs. A tick sees the first few jobs of each lane. If all of them are held (no node
 * runs their task, a limit is reached), jobs behind them that could go would never be seen. So such a lane is
 * also read further on, window by window, until there are jobs of another kind that can go, or the lane ends.
 * Jobs of one kind (task, version, attributes and flow) keep their order: no job is shown behind a passed job of
 * its kind. After a while a walk starts over, for jobs that came to lie in the passed part (their delay
 * ended); up to a tenth of the time is spent on walks in vain. If the nodes' capabilities change, all walks
 * start over at once.
 */
export interface Lookahead {
  /** Returns the windows the next tick must read. */
  readonly starts: (nowMs: number) => Pick<TickInput, 'starts' | 'lookahead'>;
  /** Lanes the next tick must read, because their walks continue. */
  readonly lanes: () => readonly LaneId[];
  /** Returns the lanes with the jobs that may be planned: all except jobs behind a passed job of their own kind. */
  readonly shown: (lanes: readonly LaneRead[]) => readonly LaneRead[];
  /** Notes a tick's lanes. `reason`: returns why the plan held a job. */
  readonly note: (seen: {
    readonly lanes: readonly LaneRead[];
    readonly reason: (id: string) => string | undefined;
    readonly nowMs: number;
  }) => void;
  /** Reports whether the lane has a walk. */
  readonly walks: (lane: string) => boolean;
  /** Reports whether any walk is still moving, so that the next tick will see new jobs. */
  readonly walking: () => boolean;
  readonly reset: () => void;
}

interface LaneWalk extends LaneId {
  readonly beganMs: number;
  start: readonly [number, number];
  /** Hashes of the kinds of all jobs up to the start. `seed`: differs from walk to walk. */
  readonly kinds: Set<number>;
  readonly seed: number;
  /** Time at which the walk first reached a job that can go, or the lane's end. */
  arrivedMs: number | undefined;
  /**
   * Consecutive ticks that requested the lane and did not see it. After `missedMax` the lane counts as gone.
   */
  missed: number;
}

interface Walks {
  readonly all: Map<string, LaneWalk>;
  /** Walks that the current tick continues. */
  chosen: ReadonlyMap<string, LaneWalk>;
  lookahead: number;
  /** Number of walks that began. */
  begun: number;
}

/** Most rows that all windows of one tick may read. */
const rowsMax = 1_000;
const walksMax = 2_000;
const restMs = 1_000;
const missedMax = 20;
/**
 * Most kinds that all walks remember together, in some 40 MB, and that each may in any case. Beyond, a walk stops, and
 * starts over.
 */
const kindsMax = 1_000_000;
const kindsOfWalk = 500;

export function createLookahead(): Lookahead {
  const walks: Walks = { all: new Map(), chosen: new Map(), lookahead: 1, begun: 0 };
  return {
    starts: (nowMs) => {
      endWalks(walks, nowMs);
      choose(walks);
      const byQueue = Map.groupBy(walks.chosen.values(), ({ queue }) => queue);
      const starts = [...byQueue].map(
        ([queue, lanes]) => [queue, Object.fromEntries(lanes.map(({ key, start }) => [key, start]))] as const,
      );
      return { starts: Object.fromEntries(starts), lookahead: walks.lookahead };
    },
    lanes: () => [...walks.chosen.values()],
    shown: (lanes) => (walks.chosen.size === 0 ? lanes : lanes.map((lane) => shown(walks, lane))),
    note: ({ lanes, reason, nowMs }) => {
      for (const lane of lanes) {
        const name = laneName(lane);
        const walk = walks.chosen.get(name);
        if (walk === undefined) begin(walks, { name, lane, reason, nowMs });
        else if (isHeld(lane, reason)) goOn(walk, { window: lane.ahead ?? [], reason, nowMs, walks });
        // a job in front can go, so nothing behind it is missed
        else walks.all.delete(name);
      }
      const seen = new Set(lanes.map(laneName));
      for (const [name, walk] of walks.chosen) {
        walk.missed = seen.has(name) ? 0 : walk.missed + 1;
        if (walk.missed >= missedMax) walks.all.delete(name);
      }
    },
    walks: (lane) => walks.all.has(lane),
    walking: () => [...walks.all.values()].some(({ arrivedMs }) => arrivedMs === undefined),
    reset: () => {
      walks.all.clear();
      walks.chosen = new Map();
    },
  };
}

/**
 * Reason of a job that could not be written and is in its backoff. The walk passes it without holding back
 * its kind.
 */
export const leftOut = 'left_out';

type Reason = (id: string) => string | undefined;

/** Returns the kind of a job. Attributes do not count if no node can run the task. */
function kindOf({ task, version, attributes, flow }: LaneJob, reason?: string): string {
  return JSON.stringify(reason === 'no_capable_node' ? [task, version] : [task, version, attributes, flow]);
}

type Passed = Pick<LaneWalk, 'kinds' | 'seed'>;

function pass({ kinds, seed }: Passed, job: LaneJob, reason: string | undefined): void {
  if (reason !== leftOut) kinds.add(hashOf(kindOf(job, reason), seed));
}

function isPassed({ kinds, seed }: Passed, job: LaneJob): boolean {
  return kinds.has(hashOf(kindOf(job), seed)) || kinds.has(hashOf(kindOf(job, 'no_capable_node'), seed));
}

/**
 * Returns a hash of 31 bits, which takes a tenth of the memory of a kind. A job whose hash is another kind's waits for
 * the next walk, whose seed is another.
 */
function hashOf(text: string, seed: number): number {
  let hash = Math.imul(seed, 0x9e3779b1) ^ 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >> 1;
}

/** Leaves out jobs of the window whose kind was passed. */
function shown({ chosen }: Walks, lane: LaneRead): LaneRead {
  const walk = chosen.get(laneName(lane));
  if (lane.ahead === undefined) return lane;
  return { ...lane, ahead: lane.ahead.filter((job) => walk !== undefined && !isPassed(walk, job)) };
}

/** Reports whether all of a lane's first jobs are held. */
function isHeld({ jobs }: LaneRead, reason: Reason): boolean {
  return jobs.length > 0 && jobs.every(({ id }) => reason(id) !== undefined);
}

function endWalks({ all }: Walks, nowMs: number): void {
  for (const [name, { arrivedMs, beganMs }] of all) {
    if (arrivedMs === undefined) continue;
    if (nowMs >= arrivedMs + Math.max(restMs, 10 * (arrivedMs - beganMs))) all.delete(name);
  }
}

/** Divides the rows among the walks. If there are too many walks, each tick continues different ones. */
function choose(walks: Walks): void {
  const { all } = walks;
  walks.lookahead = Math.min(1_000, Math.max(50, Math.floor(rowsMax / Math.max(1, all.size))));
  walks.chosen = new Map([...all].slice(0, Math.floor(rowsMax / walks.lookahead)));
  for (const [name, walk] of walks.chosen) {
    all.delete(name);
    all.set(name, walk);
  }
}

function begin(
  walks: Walks,
  seen: {
    readonly name: string;
    readonly lane: LaneRead;
    readonly reason: Reason;
    readonly nowMs: number;
  },
): void {
  const { all } = walks;
  const { name, lane, reason, nowMs } = seen;
  const { queue, key, jobs, wanted } = lane;
  const last = jobs.at(-1);
  if (last === undefined || jobs.length < wanted || all.has(name) || all.size >= walksMax) return;
  if (!isHeld(lane, reason)) return;
  walks.begun += 1;
  const passed: Passed = { kinds: new Set(), seed: walks.begun };
  for (const job of jobs) pass(passed, job, reason(job.id));
  all.set(name, {
    queue,
    key,
    beganMs: nowMs,
    start: [last.priority, last.seq],
    ...passed,
    arrivedMs: undefined,
    missed: 0,
  });
}

function goOn(
  walk: LaneWalk,
  seen: {
    readonly window: readonly LaneJob[];
    readonly reason: Reason;
    readonly nowMs: number;
    readonly walks: Walks;
  },
): void {
  const { window, reason, nowMs, walks } = seen;
  for (const job of window) {
    const why = reason(job.id);
    const passed = isPassed(walk, job);
    // a job of another kind can go: the walk has arrived
    if (!passed && why === undefined) {
      walk.arrivedMs ??= nowMs;
      return;
    }
    if (!passed) pass(walk, job, why);
    walk.start = [job.priority, job.seq];
  }
  if (window.length < walks.lookahead || remembersTooMuch(walk, walks)) walk.arrivedMs ??= nowMs;
}

function remembersTooMuch({ kinds }: LaneWalk, { all }: Walks): boolean {
  if (kinds.size <= kindsOfWalk) return false;
  let sum = 0;
  for (const walk of all.values()) sum += walk.kinds.size;
  return sum > kindsMax;
}
