import { laneName } from '@pgqueue/core';
import type { LaneId, LanePart, LaneRead, Spot, TickInput } from '@pgqueue/postgres/internal';
import type { Flying } from '../items/item.ts';
import type { Marks } from './commit-watermark.ts';
import { createMarks } from './commit-watermark.ts';

/**
 * LaneCursors of busy lanes. The rows of jobs in flight, and of ended jobs until vacuum removes them, precede the
 * waiting ones. A tick that started at a lane's first row would pass them every time, and while a session
 * holds an old snapshot their number keeps growing. So in a busy lane, a tick reads only the rows after the
 * last dispatched job, at each priority.
 *
 * Jobs that come to lie below a cursor are found nevertheless. Changed rows (a retry, the end of a delay, a
 * new priority) carry a flag and are found at once. Rows inserted earlier but committed late are found by a
 * late rescan from the first seq at which an open transaction may have inserted one: once transactions have ended
 * that were open before, if that seq is near, and else every half second. Anything else below the cursors is found
 * by the background rescan.
 */
export interface LaneCursors {
  /** Returns the ranges the next tick must read. `nowMs`: a monotonic clock; `flying`: what is in flight. */
  readonly ranges: (nowMs: number, flying: Flying) => TickInput['ranges'];
  /** Notes a read. Returns the lanes with the jobs that count. */
  readonly saw: (read: {
    readonly lanes: readonly LaneRead[];
    /** Null: not read, since there were no ranges. */
    readonly enqueuers: readonly string[] | null;
    readonly nowMs: number;
    readonly tookMs: number;
  }) => readonly LaneRead[];
  /**
   * Returns the part of a lane below its cursor that is due for the background rescan; undefined: none is.
   */
  readonly unseen: (nowMs: number) => LanePart | undefined;
  /** Moves the lane's cursor back below these waiting jobs, which the background rescan found. */
  readonly found: (lane: LaneId, jobs: readonly Spot[]) => void;
  /**
   * Advances the cursor of a lane, given with its name and its complete ordered prefix before this batch. `stays`: not
   * dispatched.
   */
  readonly went: <Job extends LanePosition>(
    name: string,
    lane: LaneId & { readonly jobs: readonly Job[] },
    stays: (job: Job) => boolean,
  ) => void;
  /** Returns the seq of the cursor at one priority, or one before all jobs: the lane is read from its beginning. */
  readonly passed: (lane: LaneId, priority: number) => number;
  /** Milliseconds until the next rescan for late commits must run; null: none is needed. */
  readonly dueMs: (nowMs: number) => number | null;
  /** Drops a lane's cursor, because jobs this leader dispatched wait again. */
  readonly drop: (lane: string) => void;
  /** Drops the cursors of all lanes of these keys, because jobs may have come before them. */
  readonly dropKeys: (keys: ReadonlySet<string>) => void;
  readonly reset: () => void;
}

export interface LanePosition extends Spot {
  readonly id: string;
}

/** Most lanes with a cursor. */
const lanesMax = 64;
/** A cursor unused for this long gives way to another lane's, in milliseconds. */
const restMs = 10_000;
/** A lane gets a cursor after `busyJobs` dispatched jobs within `busyMs`. */
const busyJobs = 16;
const busyMs = 1_000;
/** Most lanes whose dispatched jobs are counted before they get a cursor. */
const countedMax = 10_000;
/** A lane with more priorities in use loses its cursor and is read whole. */
const prioritiesMax = 4;
/** Interval of the late rescan in milliseconds, and its largest share of the time. */
const lateMs = 500;
const lateShare = 0.05;
/**
 * Most numbers that a late rescan passes as soon as it may find something. If jobs come one by one, on several
 * connections, one in a hundred commits behind a later one.
 */
const nearMax = 256;
/** Interval of the background rescan of each active lane, in milliseconds. */
const unseenMs = 10_000;

/** End of the last range, after all jobs. */
const last = [2_147_483_647, Number.MAX_SAFE_INTEGER] as const;
/** Before all jobs: those that came from another installation have numbers below 0. */
const first = [-2_147_483_648, Number.MIN_SAFE_INTEGER] as const;

interface Reached {
  /** The cursor: all known jobs up to this seq were dispatched. */
  at: number;
  /** Watermark up to which no transaction can commit another job. */
  floor: number;
}

interface Cursor extends LaneId {
  readonly reached: Map<number, Reached>;
  /** Time of the last background rescan. */
  unseenAt: number;
  lateAt: number;
  /** Time of the last dispatch. */
  wentAt: number;
}

interface CursorState {
  readonly lanes: Map<string, Cursor>;
  readonly counts: Map<string, number>;
  countedAt: number;
  /**
   * Lanes whose last read contained a lookahead window: unread jobs may lie between it and the lane's first
   * jobs.
   */
  readonly gaps: Set<string>;
  readonly marks: Marks;
  nowMs: number;
  lateMs: number;
  /** Lanes that the current tick reads from their floor. */
  late: Set<string>;
}

export function createLaneCursors(): LaneCursors {
  const memory: CursorState = {
    lanes: new Map(),
    counts: new Map(),
    countedAt: 0,
    gaps: new Set(),
    marks: createMarks(),
    nowMs: 0,
    lateMs,
    late: new Set(),
  };
  const { lanes, counts, gaps } = memory;
  return {
    ranges: (nowMs, flying) => {
      if (nowMs >= memory.countedAt + busyMs) {
        counts.clear();
        memory.countedAt = nowMs;
      }
      return ask(memory, nowMs, flying);
    },
    saw: ({ lanes: read, enqueuers, nowMs, tookMs }) => {
      if (memory.late.size > 0) memory.lateMs = Math.max(lateMs, tookMs / lateShare);
      const shown = lanes.size === 0 ? read : read.map((lane) => withCounting(memory, lane));
      if (gaps.size > 0) for (const lane of read) gaps.delete(laneName(lane));
      for (const lane of read) if (lane.ahead !== undefined) gaps.add(laneName(lane));
      // uses the watermark of the previous tick: this read may not see a transaction that ended since
      for (const name of memory.late) raiseFloor(memory, name, nowMs);
      if (enqueuers !== null) memory.marks.note(read, enqueuers);
      return shown;
    },
    unseen: (nowMs) => partToLookAt(lanes, nowMs),
    found: (lane, jobs) => beginBefore(lanes.get(laneName(lane)), jobs),
    went: (name, { queue, key, jobs }, stays) => {
      if (gaps.has(name)) return;
      const cursor = lanes.get(name);
      const gone = prefix(jobs, stays, cursor);
      if (gone.length === 0) return;
      if (cursor !== undefined) return advance(memory, cursor, gone);
      const count = (counts.get(name) ?? 0) + gone.length;
      if (count < busyJobs || !hasRoom(memory)) {
        if (counts.size >= countedMax) counts.clear();
        counts.set(name, count);
        return;
      }
      counts.delete(name);
      const { nowMs } = memory;
      const begun: Cursor = { queue, key, reached: new Map(), unseenAt: nowMs, lateAt: nowMs, wentAt: nowMs };
      lanes.set(name, begun);
      advance(memory, begun, gone);
    },
    passed: (lane, priority) => lanes.get(laneName(lane))?.reached.get(priority)?.at ?? first[1],
    dueMs: (nowMs) => {
      let due: number | null = null;
      for (const [name, { lateAt, reached }] of lanes) {
        const open = !memory.late.has(name) && [...reached.values()].some(({ at, floor }) => floor < at);
        if (open) due = Math.min(due ?? Infinity, lateAt + memory.lateMs - nowMs);
      }
      return due === null ? null : Math.max(0, due);
    },
    drop: (name) => void lanes.delete(name),
    dropKeys: (keys) => {
      for (const [name, { key }] of lanes) if (keys.has(key)) lanes.delete(name);
    },
    reset: () => {
      for (const known of [lanes, counts, gaps]) known.clear();
      memory.marks.reset();
    },
  };
}

function partToLookAt(lanes: CursorState['lanes'], nowMs: number): LanePart | undefined {
  const [cursor] = [...lanes.values()]
    .filter(({ unseenAt, wentAt }) => wentAt >= unseenAt && nowMs >= unseenAt + unseenMs)
    .toSorted((a, b) => a.unseenAt - b.unseenAt);
  if (cursor === undefined) return undefined;
  cursor.unseenAt = nowMs;
  const { queue, key, reached } = cursor;
  const places = [...reached].map(([priority, { at: seq }]) => ({ priority, seq }));
  return { lane: { queue, key }, places };
}

function beginBefore(cursor: Cursor | undefined, jobs: readonly Spot[]): void {
  for (const { priority, seq } of jobs) {
    const reached = cursor?.reached.get(priority);
    if (reached === undefined) continue;
    reached.at = Math.min(reached.at, seq - 1);
    reached.floor = Math.min(reached.floor, reached.at);
  }
}

function ask(memory: CursorState, nowMs: number, flying: Flying): TickInput['ranges'] {
  const ahead = inFlightAhead(memory, flying);
  memory.nowMs = nowMs;
  memory.late = new Set();
  const asked: (readonly [Cursor, TickInput['ranges'][string][string]])[] = [];
  for (const [name, cursor] of memory.lanes) {
    const late = nowMs >= cursor.lateAt + memory.lateMs || mayHaveMissed(cursor, memory.marks.safe());
    if (late) memory.late.add(name);
    asked.push([cursor, rangesOf(cursor, { late, free: !late && ahead?.has(cursor) === false })]);
  }
  const byQueue = Map.groupBy(asked, ([{ queue }]) => queue);
  return Object.fromEntries(
    [...byQueue].map(([queue, lanes]) => [
      queue,
      Object.fromEntries(lanes.map(([{ key }, ranges]) => [key, ranges] as const)),
    ]),
  );
}

/** Reports whether transactions that may have committed jobs below the cursor have ended, and these are near. */
function mayHaveMissed({ reached }: Cursor, safe: number): boolean {
  const all = [...reached.values()];
  return (
    all.every(({ at, floor }) => at - floor <= nearMax) &&
    all.some(({ at, floor }) => floor < Math.min(at, safe))
  );
}

/** Most jobs in flight for which their position relative to the cursors is checked. */
const flyingMax = 10_000;

/**
 * Returns lanes with jobs in flight after the cursor: another leader's jobs, or jobs dispatched while one
 * before them stayed. Undefined: unknown.
 */
function inFlightAhead({ lanes }: CursorState, { items, count }: Flying): ReadonlySet<Cursor> | undefined {
  if (lanes.size === 0 || count > flyingMax) return undefined;
  const ahead = new Set<Cursor>();
  let before: LaneId | undefined;
  let cursor: Cursor | undefined;
  for (const { jobs } of items) {
    for (const job of jobs) {
      if (before === undefined || before.key !== job.key || before.queue !== job.queue)
        cursor = lanes.get(laneName(job));
      before = job;
      if (cursor !== undefined && job.seq > (cursor.reached.get(job.priority)?.at ?? first[1]))
        ahead.add(cursor);
    }
  }
  return ahead;
}

/**
 * Returns a lane's ranges: the rows after the cursor at each priority up to the next, and before the cursor
 * only changed rows.
 */
function rangesOf(
  { reached }: Cursor,
  { late, free }: { readonly late: boolean; readonly free: boolean },
): TickInput['ranges'][string][string] {
  const ranges: TickInput['ranges'][string][string][number][] = [];
  let from: readonly [number, number] = first;
  for (const [priority, { at, floor }] of [...reached].toSorted(([a], [b]) => a - b)) {
    const seq = late ? floor : at;
    // up to the previous priority's end, not to this one's beginning: see walk_lanes
    if (priority > first[0]) ranges.push([...from, priority - 1, last[1], false, free]);
    ranges.push([priority, first[1], priority, seq, true, false]);
    from = [priority, seq];
  }
  ranges.push([...from, ...last, false, free]);
  return ranges;
}

/**
 * Limits a lane that was read in several ranges to the jobs wanted, so that none is missing in between. A late
 * commit found below a cursor moves that cursor back.
 */
function withCounting({ lanes, late }: CursorState, lane: LaneRead): LaneRead {
  const name = laneName(lane);
  const cursor = lanes.get(name);
  if (cursor === undefined) return lane;
  for (const { priority, seq } of late.has(name) ? lane.jobs : []) {
    const reached = cursor.reached.get(priority);
    if (reached !== undefined && seq <= reached.at && seq > reached.floor) reached.at = seq - 1;
  }
  return { ...lane, jobs: lane.jobs.slice(0, lane.wanted) };
}

/**
 * Raises the floor of a lane after a rescan from its floor: every job committed up to the watermark has been
 * seen.
 */
function raiseFloor({ lanes, marks }: CursorState, name: string, nowMs: number): void {
  const cursor = lanes.get(name);
  if (cursor === undefined) return;
  cursor.lateAt = nowMs;
  for (const reached of cursor.reached.values())
    reached.floor = Math.min(reached.at, Math.max(0, marks.safe()));
}

/**
 * Returns the dispatched prefix of the jobs: it ends at the first job that stays. Jobs up to the floor are
 * skipped: they carry the changed flag, so every tick finds them again.
 */
function prefix<Job extends LanePosition>(
  jobs: readonly Job[],
  stays: (job: Job) => boolean,
  cursor: Cursor | undefined,
): readonly Job[] {
  const gone: Job[] = [];
  for (const job of jobs) {
    const reached = cursor?.reached.get(job.priority);
    if (reached !== undefined && job.seq <= reached.floor) continue;
    if (stays(job)) break;
    gone.push(job);
  }
  return gone;
}

function hasRoom({ lanes, nowMs }: CursorState): boolean {
  if (lanes.size < lanesMax) return true;
  const resting = [...lanes].find(([, { wentAt }]) => nowMs >= wentAt + restMs);
  return resting !== undefined && lanes.delete(resting[0]);
}

function advance({ lanes, nowMs }: CursorState, cursor: Cursor, gone: readonly LanePosition[]): void {
  const { reached } = cursor;
  cursor.wentAt = nowMs;
  for (const { priority, seq } of gone) {
    const so = reached.get(priority);
    // no transaction commits a job with a number below 0 into a lane whose jobs go
    if (so === undefined) reached.set(priority, { at: seq, floor: Math.min(0, seq) });
    else so.at = Math.max(so.at, seq);
  }
  if (reached.size > prioritiesMax) lanes.delete(laneName(cursor));
}
