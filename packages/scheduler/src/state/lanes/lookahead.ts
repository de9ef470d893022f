import { laneName } from '@pgqueue/core';
import type { LaneId, LaneRow, TickInput } from '@pgqueue/postgres/internal';
import { rowsByLane } from './lane-rows.ts';

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
  /** Returns the rows that may be planned: all except jobs behind a passed job of their own kind. */
  readonly shown: (rows: readonly LaneRow[]) => readonly LaneRow[];
  /** Notes a tick's rows. `reason`: returns why the plan held a job. */
  readonly note: (seen: {
    readonly rows: readonly LaneRow[];
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
    shown: (rows) => (walks.chosen.size === 0 ? rows : rows.filter((row) => isShown(walks, row))),
    note: ({ rows, reason, nowMs }) => {
      const lanes = rowsByLane(rows);
      for (const [name, lane] of lanes) {
        const walk = walks.chosen.get(name);
        const front = lane.filter(({ ahead }) => !ahead);
        if (walk === undefined) begin(walks, { name, front, reason, nowMs });
        else if (isHeld(front, reason)) goOn(walk, { lane, reason, nowMs, walks });
        // a job in front can go, so nothing behind it is missed
        else walks.all.delete(name);
      }
      for (const [name, walk] of walks.chosen) {
        walk.missed = lanes.has(name) ? 0 : walk.missed + 1;
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
function kindOf({ task, version, attributes, flow }: LaneRow, reason?: string): string {
  return JSON.stringify(reason === 'no_capable_node' ? [task, version] : [task, version, attributes, flow]);
}

type Passed = Pick<LaneWalk, 'kinds' | 'seed'>;

function pass({ kinds, seed }: Passed, row: LaneRow, reason: string | undefined): void {
  if (reason !== leftOut) kinds.add(hashOf(kindOf(row, reason), seed));
}

function isPassed({ kinds, seed }: Passed, row: LaneRow): boolean {
  return kinds.has(hashOf(kindOf(row), seed)) || kinds.has(hashOf(kindOf(row, 'no_capable_node'), seed));
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

/** Reports whether a row is shown: always in front; in the window, unless its kind was passed. */
function isShown({ chosen }: Walks, row: LaneRow): boolean {
  if (!row.ahead) return true;
  const walk = chosen.get(laneName(row));
  return row.id !== null && walk !== undefined && !isPassed(walk, row);
}

function isHeld(rows: readonly LaneRow[], reason: Reason): boolean {
  return rows.every(({ id }) => id !== null && reason(id) !== undefined);
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
    readonly front: readonly LaneRow[];
    readonly reason: Reason;
    readonly nowMs: number;
  },
): void {
  const { all } = walks;
  const { name, front, reason, nowMs } = seen;
  const last = front.at(-1);
  if (last === undefined || front.length < last.wanted || all.has(name) || all.size >= walksMax) return;
  if (!isHeld(front, reason)) return;
  const { queue, key, priority, seq } = last;
  walks.begun += 1;
  const passed: Passed = { kinds: new Set(), seed: walks.begun };
  for (const row of front) pass(passed, row, row.id === null ? undefined : reason(row.id));
  all.set(name, {
    queue,
    key,
    beganMs: nowMs,
    start: [priority, seq],
    ...passed,
    arrivedMs: undefined,
    missed: 0,
  });
}

function goOn(
  walk: LaneWalk,
  seen: {
    readonly lane: readonly LaneRow[];
    readonly reason: Reason;
    readonly nowMs: number;
    readonly walks: Walks;
  },
): void {
  const { lane, reason, nowMs, walks } = seen;
  const window = lane.filter(({ ahead, id }) => ahead && id !== null);
  for (const row of window) {
    const why = row.id === null ? undefined : reason(row.id);
    const passed = isPassed(walk, row);
    // a job of another kind can go: the walk has arrived
    if (!passed && why === undefined) {
      walk.arrivedMs ??= nowMs;
      return;
    }
    if (!passed) pass(walk, row, why);
    walk.start = [row.priority, row.seq];
  }
  if (window.length < walks.lookahead || remembersTooMuch(walk, walks)) walk.arrivedMs ??= nowMs;
}

function remembersTooMuch({ kinds }: LaneWalk, { all }: Walks): boolean {
  if (kinds.size <= kindsOfWalk) return false;
  let sum = 0;
  for (const walk of all.values()) sum += walk.kinds.size;
  return sum > kindsMax;
}
