import { laneName } from '@pgqueue/core';
import type { LaneId, LanePart, LaneRow, Spot, TickInput } from '@pgqueue/postgres';
import type { Flying } from '../items/item.ts';
import type { Marks } from './commit-watermark.ts';
import { createMarks } from './commit-watermark.ts';

/**
 * How far busy lanes have gone. The rows of jobs in flight, and of those that ended until vacuum can remove them, stand before all that
 * wait: a tick that began with a lane's first row would pass them every time, and while some session holds an old snapshot there are
 * ever more of them. So of a lane of which many go, a tick looks at what lies behind the last one that went, at each priority.
 *
 * What comes to lie before that place is found even so: rows that were changed (a retry, a delay that is over, another priority) by the mark
 * on them, at once; those that were inserted earlier and are committed late by looking again, every half second, from the first place
 * at which a transaction that is still open may have inserted one. Beyond that, what lies before those places is looked for beside the ticks.
 */
export interface Cursors {
  /** What the next tick asks for. `nowMs`: of a clock that only goes on; `flying`: what is in flight. */
  readonly ranges: (nowMs: number, flying: Flying) => TickInput['ranges'];
  /** What came of it: the rows that count, and what it took. */
  readonly saw: (read: {
    readonly rows: readonly LaneRow[];
    /** Null: not asked, since there were no ranges. */
    readonly enqueuers: readonly string[] | null;
    readonly nowMs: number;
    readonly tookMs: number;
  }) => readonly LaneRow[];
  /** The part of a lane that ticks don't look at, where it was not asked for lately; undefined: there is none. */
  readonly unseen: (nowMs: number) => LanePart | undefined;
  /** There, these are the first jobs that wait. */
  readonly found: (lane: LaneId, jobs: readonly Spot[]) => void;
  /** Jobs of a lane went: `jobs`, all that were known to wait before, in their order, without one before them left out. */
  readonly went: (lane: LaneId, jobs: readonly Place[], stays: (job: Place) => boolean) => void;
  /** Up to which seq ticks have passed a lane at one priority; -1: it is looked at from its begin. */
  readonly passed: (lane: LaneId, priority: number) => number;
  /** In how many milliseconds another look should come, whatever else does: for what was committed since the last one. */
  readonly dueMs: (nowMs: number) => number | null;
  /** Jobs of it wait again of which this leader made work items. */
  readonly drop: (lane: string) => void;
  readonly reset: () => void;
}

export interface Place extends Spot {
  readonly id: string;
}

/** A tick steps over so many lanes at most. */
const lanesMax = 64;
/** One of which none went for so long gives way to another. */
const restMs = 10_000;
/** Of which so many jobs went within so long. */
const busyJobs = 16;
const busyMs = 1_000;
/** Lanes that are counted until then. */
const countedMax = 10_000;
/** With more of them in use, a lane is looked at whole. */
const prioritiesMax = 4;
/** Looks for late commits: as often, and no more than this part of the time. */
const lateMs = 500;
const lateShare = 0.05;
/** How often what lies before all that is looked at, of each lane that moves. */
const unseenMs = 10_000;

/** The end of a range: behind all others. */
const last = [2_147_483_647, Number.MAX_SAFE_INTEGER] as const;
const first = [-2_147_483_648, -1] as const;

interface Reached {
  /** All that were known up to this seq went. */
  at: number;
  /** Nothing will be committed any more up to this one. */
  floor: number;
}

interface Cursor extends LaneId {
  readonly reached: Map<number, Reached>;
  /** When it was asked for that. */
  unseenAt: number;
  lateAt: number;
  /** When jobs of it went last. */
  wentAt: number;
}

interface Memory {
  readonly lanes: Map<string, Cursor>;
  readonly counts: Map<string, number>;
  countedAt: number;
  /** Lanes that were read last with a window further on: between it and the first jobs others wait. */
  readonly gaps: Set<string>;
  readonly marks: Marks;
  nowMs: number;
  lateMs: number;
  /** Of the tick under way: lanes that are looked at from their floor. */
  late: Set<string>;
}

export function createCursors(): Cursors {
  const memory: Memory = {
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
    saw: ({ rows, enqueuers, nowMs, tookMs }) => {
      if (memory.late.size > 0) memory.lateMs = Math.max(lateMs, tookMs / lateShare);
      const shown = lanes.size === 0 ? rows : rowsThatCount(memory, rows);
      if (gaps.size > 0) for (const row of rows) gaps.delete(laneName(row));
      for (const row of rows) if (row.ahead) gaps.add(laneName(row));
      // by what the tick before knew: who has ended since may not have been seen by this one
      for (const name of memory.late) raiseFloor(memory, name, nowMs);
      if (enqueuers !== null) memory.marks.note(rows, enqueuers, nowMs);
      return shown;
    },
    unseen: (nowMs) => partToLookAt(lanes, nowMs),
    found: (lane, jobs) => beginBefore(lanes.get(laneName(lane)), jobs),
    went: (lane, jobs, stays) => {
      const name = laneName(lane);
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
      const { queue, key } = lane;
      const { nowMs } = memory;
      const begun: Cursor = { queue, key, reached: new Map(), unseenAt: nowMs, lateAt: nowMs, wentAt: nowMs };
      lanes.set(name, begun);
      advance(memory, begun, gone);
    },
    passed: (lane, priority) => lanes.get(laneName(lane))?.reached.get(priority)?.at ?? -1,
    dueMs: (nowMs) => {
      let due: number | null = null;
      for (const [name, { lateAt, reached }] of lanes) {
        const open = !memory.late.has(name) && [...reached.values()].some(({ at, floor }) => floor < at);
        if (open) due = Math.min(due ?? Infinity, lateAt + memory.lateMs - nowMs);
      }
      return due === null ? null : Math.max(0, due);
    },
    drop: (name) => void lanes.delete(name),
    reset: () => {
      for (const known of [lanes, counts, gaps]) known.clear();
      memory.marks.reset();
    },
  };
}

function partToLookAt(lanes: Memory['lanes'], nowMs: number): LanePart | undefined {
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

function ask(memory: Memory, nowMs: number, flying: Flying): TickInput['ranges'] {
  const ahead = inFlightAhead(memory, flying);
  memory.nowMs = nowMs;
  memory.late = new Set();
  const asked: (readonly [Cursor, TickInput['ranges'][string][string]])[] = [];
  for (const [name, cursor] of memory.lanes) {
    const late = nowMs >= cursor.lateAt + memory.lateMs;
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

/** With more jobs in flight it is not asked where they stand. */
const flyingMax = 10_000;

/**
 * Lanes with jobs in flight that do not stand before the place that the lane has come to: someone else's, or those that went while one before them
 * stayed. Undefined: it is not known.
 */
function inFlightAhead({ lanes }: Memory, { items, count }: Flying): ReadonlySet<Cursor> | undefined {
  if (lanes.size === 0 || count > flyingMax) return undefined;
  const ahead = new Set<Cursor>();
  let before: LaneId | undefined;
  let cursor: Cursor | undefined;
  for (const { jobs } of items) {
    for (const job of jobs) {
      if (before === undefined || before.key !== job.key || before.queue !== job.queue)
        cursor = lanes.get(laneName(job));
      before = job;
      if (cursor !== undefined && job.seq > (cursor.reached.get(job.priority)?.at ?? -1)) ahead.add(cursor);
    }
  }
  return ahead;
}

/** Behind each place, up to the next priority; before it, what was changed. */
function rangesOf(
  { reached }: Cursor,
  { late, free }: { readonly late: boolean; readonly free: boolean },
): TickInput['ranges'][string][string] {
  const ranges: TickInput['ranges'][string][string][number][] = [];
  let from: readonly [number, number] = first;
  for (const [priority, { at, floor }] of [...reached].toSorted(([a], [b]) => a - b)) {
    const seq = late ? floor : at;
    // up to the priority before, and not to this one's beginning: see walk_lanes
    if (priority > first[0]) ranges.push([...from, priority - 1, last[1], false, free]);
    ranges.push([priority, -1, priority, seq, true, false]);
    from = [priority, seq];
  }
  ranges.push([...from, ...last, false, free]);
  return ranges;
}

/**
 * Of a lane that was read in several ranges, as many jobs as were wanted, so that none is missing between them; of one that has any,
 * not the row that says there is none. What was found before the place that a lane had come to is the next one there.
 */
function rowsThatCount({ lanes, late }: Memory, rows: readonly LaneRow[]): readonly LaneRow[] {
  let [name, front]: [string | undefined, number] = [undefined, 0];
  let before: LaneRow | undefined;
  return rows.filter((row) => {
    if (before === undefined || row.queue !== before.queue || row.key !== before.key) {
      [name, front] = [laneName(row), 0];
    }
    before = row;
    const cursor = name === undefined ? undefined : lanes.get(name);
    if (cursor === undefined || row.ahead) return true;
    if (row.id === null) return front === 0;
    front += 1;
    const reached = cursor.reached.get(row.priority);
    if (reached !== undefined && row.seq <= reached.at && row.seq > reached.floor && late.has(name ?? '')) {
      reached.at = row.seq - 1;
    }
    return front <= row.wanted;
  });
}

/** It was looked at from its floor on: what could have been committed before has been seen. */
function raiseFloor({ lanes, marks }: Memory, name: string, nowMs: number): void {
  const cursor = lanes.get(name);
  if (cursor === undefined) return;
  cursor.lateAt = nowMs;
  for (const reached of cursor.reached.values())
    reached.floor = Math.max(0, Math.min(reached.at, marks.safe()));
}

/** Jobs that went, and before which none stays that would not be found again by its mark. */
function prefix(
  jobs: readonly Place[],
  stays: (job: Place) => boolean,
  cursor: Cursor | undefined,
): readonly Place[] {
  const gone: Place[] = [];
  for (const job of jobs) {
    const reached = cursor?.reached.get(job.priority);
    if (reached !== undefined && job.seq <= reached.floor) continue;
    if (stays(job)) break;
    gone.push(job);
  }
  return gone;
}

function hasRoom({ lanes, nowMs }: Memory): boolean {
  if (lanes.size < lanesMax) return true;
  const resting = [...lanes].find(([, { wentAt }]) => nowMs >= wentAt + restMs);
  return resting !== undefined && lanes.delete(resting[0]);
}

function advance({ lanes, nowMs }: Memory, cursor: Cursor, gone: readonly Place[]): void {
  const { reached } = cursor;
  cursor.wentAt = nowMs;
  for (const { priority, seq } of gone) {
    const so = reached.get(priority);
    if (so === undefined) reached.set(priority, { at: seq, floor: 0 });
    else so.at = Math.max(so.at, seq);
  }
  if (reached.size > prioritiesMax) lanes.delete(laneName(cursor));
}
