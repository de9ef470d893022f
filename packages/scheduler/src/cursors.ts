import { laneName } from '@pgqueue/core';
import type { LaneId, LaneRow, TickInput } from '@pgqueue/postgres';

/**
 * How far busy lanes have gone. The rows of jobs in flight, and of those that ended until vacuum can remove them, stand before all that
 * wait: a tick that began with a lane's first row would pass them every time, and while some session holds an old snapshot there are
 * ever more of them. So of a lane of which many go, a tick looks at what lies behind the last one that went, at each priority.
 *
 * What comes to lie before that place is found even so: rows that were changed (a retry, a delay that is over, another priority) by the mark
 * on them, at once; those that were inserted earlier and are committed late by looking again, every half second, from the first place
 * at which a transaction that is still open may have inserted one. Beyond that, every lane is looked at from its first row now and then.
 */
export interface Cursors {
  /** What the next tick asks for. `nowMs`: of a clock that only goes on. */
  readonly ranges: (nowMs: number) => TickInput['ranges'];
  /** What came of it: the rows that count, and what it took. */
  readonly saw: (read: {
    readonly rows: readonly LaneRow[];
    /** Null: not asked, since there were no ranges. */
    readonly enqueuers: readonly string[] | null;
    readonly nowMs: number;
    readonly tookMs: number;
  }) => readonly LaneRow[];
  /** Jobs of a lane went: `jobs`, all that were known to wait before, in their order, without one before them left out. */
  readonly went: (lane: LaneId, jobs: readonly Place[], stays: (job: Place) => boolean) => void;
  /** In how many milliseconds another look should come, whatever else does: for what was committed since the last one. */
  readonly dueMs: (nowMs: number) => number | null;
  /** Jobs of it wait again of which this leader made work items. */
  readonly drop: (lane: string) => void;
  readonly reset: () => void;
}

export interface Place {
  readonly id: string;
  readonly priority: number;
  readonly seq: number;
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
/** Looks at a whole lane. */
const wholeMs = 10_000;
const wholeShare = 0.005;
/** How often it is noted who may still commit jobs, and how many such notes are kept. */
const markMs = 250;
const marksMax = 64;

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
  wholeAt: number;
  lateAt: number;
  /** When jobs of it went last. */
  wentAt: number;
}

/** All numbers up to `seq` were drawn by transactions that have ended, or by these. */
interface Mark {
  readonly seq: number;
  readonly enqueuers: readonly string[];
  readonly atMs: number;
}

interface Memory {
  readonly lanes: Map<string, Cursor>;
  readonly counts: Map<string, number>;
  countedAt: number;
  /** Lanes that were read last with a window further on: between it and the first jobs others wait. */
  readonly gaps: Set<string>;
  marks: Mark[];
  highest: number;
  /** Nobody can commit a job up to this seq any more. */
  safe: number;
  nowMs: number;
  lateMs: number;
  wholeMs: number;
  /** Of the tick under way: lanes that are looked at from their floor, and the one that is looked at whole. */
  late: Set<string>;
  whole: string | undefined;
}

export function createCursors(): Cursors {
  const memory: Memory = {
    lanes: new Map(),
    counts: new Map(),
    countedAt: 0,
    gaps: new Set(),
    marks: [],
    highest: 0,
    safe: 0,
    nowMs: 0,
    lateMs,
    wholeMs,
    late: new Set(),
    whole: undefined,
  };
  const { lanes, counts, gaps } = memory;
  return {
    ranges: (nowMs) => {
      if (nowMs >= memory.countedAt + busyMs) {
        counts.clear();
        memory.countedAt = nowMs;
      }
      return ask(memory, nowMs);
    },
    saw: ({ rows, enqueuers, nowMs, tookMs }) => {
      if (memory.late.size > 0) memory.lateMs = Math.max(lateMs, tookMs / lateShare);
      if (memory.whole !== undefined) memory.wholeMs = Math.max(wholeMs, tookMs / wholeShare);
      const shown = lanes.size === 0 ? rows : rowsThatCount(memory, rows);
      if (gaps.size > 0) for (const row of rows) gaps.delete(laneName(row));
      for (const row of rows) if (row.ahead) gaps.add(laneName(row));
      // by what the tick before knew: who has ended since may not have been seen by this one
      for (const name of memory.late) raiseFloor(memory, name, nowMs);
      if (enqueuers !== null) mark(memory, rows, enqueuers, nowMs);
      return shown;
    },
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
      const begun: Cursor = { queue, key, reached: new Map(), wholeAt: nowMs, lateAt: nowMs, wentAt: nowMs };
      lanes.set(name, begun);
      advance(memory, begun, gone);
    },
    dueMs: (nowMs) => {
      let due: number | null = null;
      for (const [name, { lateAt }] of lanes) {
        if (!memory.late.has(name)) due = Math.min(due ?? Infinity, lateAt + memory.lateMs - nowMs);
      }
      return due === null ? null : Math.max(0, due);
    },
    drop: (name) => void lanes.delete(name),
    reset: () => {
      for (const known of [lanes, counts, gaps]) known.clear();
      Object.assign(memory, { marks: [], highest: 0, safe: 0 });
    },
  };
}

function ask(memory: Memory, nowMs: number): TickInput['ranges'] {
  memory.nowMs = nowMs;
  memory.late = new Set();
  memory.whole = undefined;
  const asked: (readonly [Cursor, TickInput['ranges'][string][string]])[] = [];
  for (const [name, cursor] of memory.lanes) {
    if (memory.whole === undefined && nowMs >= cursor.wholeAt + memory.wholeMs) {
      memory.whole = name;
      memory.late.add(name);
      continue;
    }
    const late = nowMs >= cursor.lateAt + memory.lateMs;
    if (late) memory.late.add(name);
    asked.push([cursor, rangesOf(cursor, late)]);
  }
  const byQueue = Map.groupBy(asked, ([{ queue }]) => queue);
  return Object.fromEntries(
    [...byQueue].map(([queue, lanes]) => [
      queue,
      Object.fromEntries(lanes.map(([{ key }, ranges]) => [key, ranges] as const)),
    ]),
  );
}

/** Behind each place, up to the next priority; before it, what was changed. */
function rangesOf({ reached }: Cursor, late: boolean): TickInput['ranges'][string][string] {
  const ranges: TickInput['ranges'][string][string][number][] = [];
  let from: readonly [number, number] = first;
  for (const [priority, { at, floor }] of [...reached].toSorted(([a], [b]) => a - b)) {
    const seq = late ? floor : at;
    // up to the priority before, and not to this one's beginning: see walk_lanes
    if (priority > first[0]) ranges.push([...from, priority - 1, last[1], false]);
    ranges.push([priority, -1, priority, seq, true]);
    from = [priority, seq];
  }
  ranges.push([...from, ...last, false]);
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

function mark(memory: Memory, rows: readonly LaneRow[], enqueuers: readonly string[], nowMs: number): void {
  const { marks } = memory;
  const open = new Set(enqueuers);
  for (let oldest = marks[0]; oldest !== undefined; oldest = marks[0]) {
    if (oldest.enqueuers.some((transaction) => open.has(transaction))) break;
    memory.safe = Math.max(memory.safe, oldest.seq);
    marks.shift();
  }
  for (const { id, seq } of rows) if (id !== null && seq > memory.highest) memory.highest = seq;
  const newest = marks.at(-1);
  if (marks.length < marksMax && (newest === undefined || nowMs >= newest.atMs + markMs)) {
    marks.push({ seq: memory.highest, enqueuers, atMs: nowMs });
  }
}

/** It was looked at from its floor on: what could have been committed before has been seen. */
function raiseFloor({ lanes, whole, safe }: Memory, name: string, nowMs: number): void {
  const cursor = lanes.get(name);
  if (cursor === undefined) return;
  cursor.lateAt = nowMs;
  if (whole === name) cursor.wholeAt = nowMs;
  for (const reached of cursor.reached.values()) reached.floor = Math.max(0, Math.min(reached.at, safe));
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
