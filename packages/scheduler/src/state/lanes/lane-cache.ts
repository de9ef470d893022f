import type { Lane } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { LaneId, LaneRow, TickInput } from '@pgqueue/postgres';
import type { Cursors } from './lane-cursors.ts';
import type { KnownJob } from './known-job.ts';
import { toJobs } from './known-job.ts';
import { freezeJobs } from '../../freeze.ts';
import { rowsByLane } from './lane-rows.ts';
import type { Held, LaneRoom } from './lane-room.ts';
import { createLaneRoom } from './lane-room.ts';
import type { Refusals } from './conflict-backoff.ts';
import { createRefusals } from './conflict-backoff.ts';

/**
 * The waiting jobs that a leader knows: the first few of every lane. Each tick reads one page of lanes; as long as they fit into it,
 * that is all there is, and always fresh. Beyond, the page moves on from tick to tick while the other lanes stay as they were read,
 * and three kinds are read out of turn: lanes whose known jobs are used up, those in which a job has just been enqueued, and those that
 * a plan asked for. What is out of date does no harm: dispatch refuses a job that was changed since.
 */
export interface View {
  /** A job has just begun to wait, behind all others of its lane that are known. False: what else is in that lane must be looked at. */
  readonly add: (job: KnownJob) => boolean;
  readonly remove: (job: LaneId & { readonly id: string }) => void;
  readonly empty: () => boolean;
  /** What the next tick asks for. `lanes`: to be looked at beside those that it asks for itself; `rows`: jobs of lanes out of turn. */
  readonly ask: (
    nowMs: number,
    also: { readonly lanes: readonly LaneId[]; readonly rows: number },
  ) => Pick<TickInput, 'after' | 'lanes' | 'created'>;
  readonly see: (rows: readonly LaneRow[], page: Page) => void;
  /** Nothing was read: what is known has grown older. */
  readonly age: () => void;
  /** Whether all lanes are known, and none is to be read out of turn. */
  readonly complete: () => boolean;
  /** Whether it was refused lately or can't be read, and is left out of its lane. */
  readonly leftOut: (id: string) => boolean;
  /**
   * How many lanes that are not known the next page may bring; 0: nearly all of the last one were known, or there is no room for
   * others.
   */
  readonly discovers: () => number;
  /** What a plan made of the lanes. */
  readonly planned: (plan: Held) => void;
  readonly lanes: () => readonly Lane[];
  /** Those that the last look has read. */
  readonly fresh: () => readonly Lane[];
  readonly find: (id: string) => KnownJob | undefined;
  /** A plan was written: `planned` are gone from here, and lanes with jobs that were refused are read anew. */
  readonly wrote: (planned: Iterable<string>, written: ReadonlyMap<string, number>) => void;
  /** Lanes, by name, of which so many jobs must be read at the next tick. */
  readonly want: (lanes: Iterable<readonly [string, number]>) => void;
  readonly reset: () => void;
}

/** How a tick read. */
export interface Page {
  /** Lanes of a full page. */
  readonly keys: number;
  /** Of a clock that only goes on. */
  readonly nowMs: number;
  /** Ids of jobs that no plan may see. Default: none. */
  readonly unreadable?: ReadonlySet<string>;
}

/** `skipped`: some that go before were left out. */
interface Known extends LaneId, Required<Pick<Lane, 'more' | 'skipped' | 'retryDueMs' | 'found'>> {
  readonly jobs: readonly KnownJob[];
  readonly lane: Lane;
  /** Where it is in the list of all. */
  at: number;
}

/** Lanes that pages fill the view up to: see {@link LaneRoom}. */
export const lanesMax = 20_000;
/** Jobs read in lanes out of turn, however few a tick wants. */
const rowsMin = 64;
/** Jobs read in one of them, unless a plan needs more; and at most. */
export const depthMin = 8;
const depthMax = 1_000;
/** Jobs read in one of them where there are more lanes than are remembered: others wait to be read, too. */
const depthFull = 2;
/** With as few jobs left, a lane is read before they are used up: without any it would miss its turns. */
const fewJobs = 1;
/** A job is visible so long after its id was made, usually; and clocks of producers differ by so much. */
const commitMs = 200;

const start: LaneId = { queue: '', key: '' };

interface Memory {
  readonly known: Map<string, Known>;
  /** The same, in no particular order: snapshots get a copy of it. */
  list: Lane[];
  /** Names of those that were read by the last tick. */
  readonly fresh: Set<string>;
  readonly byId: Map<string, KnownJob>;
  /** By lane name: how many of its jobs. */
  readonly wanted: Map<string, number>;
  /** The same of lanes that use up more than their part of a page, tick by tick. */
  readonly deep: Map<string, number>;
  readonly refusals: Refusals;
  readonly leftOut: Set<string>;
  readonly room: LaneRoom;
  nowMs: number;
  after: LaneId;
  whole: boolean;
  /** All lanes were known before the present look. */
  wereAll: boolean;
  discovering: boolean;
  probedMs: number | null;
  /** What was created later is new: by the database's clock. Null: nothing was looked at before. */
  newFromMs: number | null;
}

export function createView(cursors: Pick<Cursors, 'went'>, max: number = lanesMax): View {
  const memory: Memory = {
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
    see: (rows, page) => see(memory, rows, page),
    age: () => {
      for (const name of memory.fresh) outdate(memory, name);
    },
    complete: () => memory.whole && wanted.size === 0 && deep.size === 0,
    leftOut: (id) => memory.leftOut.has(id),
    discovers: () => (memory.discovering ? memory.room.free() : 0),
    planned: (plan) => memory.room.planned(plan),
    lanes: () => memory.list.slice(),
    fresh: () => [...memory.fresh].flatMap((name) => known.get(name)?.lane ?? []),
    find: (id) => byId.get(id),
    wrote: (planned, written) => {
      for (const [name, left] of leave(memory, planned, written)) {
        const entry = known.get(name);
        if (entry?.skipped === false) cursors.went(entry, entry.jobs, ({ id }) => !written.has(id));
        settle(memory, name, left);
      }
    },
    want: (lanes) => {
      for (const [name, jobs] of lanes) {
        wanted.set(name, Math.max(jobs, wanted.get(name) ?? 0));
        if (jobs > depthMin) deep.set(name, Math.min(depthMax, Math.max(jobs, deep.get(name) ?? 0)));
      }
    },
    reset: () => {
      for (const map of [known, byId, wanted, deep, memory.fresh]) map.clear();
      memory.list = [];
      memory.refusals.reset();
      memory.room.reset();
      [memory.after, memory.whole, memory.discovering, memory.probedMs] = [start, true, true, null];
      memory.newFromMs = null;
    },
  };
}

function forget({ known, byId, list, fresh, room }: Memory, name: string): void {
  const entry = known.get(name);
  if (entry === undefined) return;
  room.forgot(name);
  for (const { id } of entry.jobs) byId.delete(id);
  known.delete(name);
  fresh.delete(name);
  const last = list.pop();
  if (last === undefined || entry.at === list.length) return;
  // the last one takes its place
  list[entry.at] = last;
  const moved = known.get(laneName(last));
  if (moved !== undefined) moved.at = entry.at;
}

/** These are its first jobs by now. The same list where nothing has changed: plans look at what has. */
function renew(memory: Memory, name: string, jobs: readonly KnownJob[]): readonly KnownJob[] {
  const before = memory.known.get(name)?.jobs ?? [];
  if (before.length === jobs.length && before.every((job, at) => job === jobs[at])) return before;
  for (const { id } of before) memory.byId.delete(id);
  for (const job of jobs) {
    leaveOther(memory, job);
    memory.byId.set(job.id, job);
  }
  return jobs;
}

function put(memory: Memory, entry: Omit<Known, 'lane' | 'at'>, isFresh: boolean): void {
  const { known, list, fresh } = memory;
  const { queue, key, jobs, more, skipped, retryDueMs, found } = entry;
  const name = laneName(entry);
  const lane: Lane = { queue, key, jobs, more, skipped, retryDueMs, found, fresh: isFresh };
  const at = known.get(name)?.at ?? list.length;
  known.set(name, { queue, key, jobs, more, skipped, retryDueMs, found, lane, at });
  list[at] = lane;
  if (isFresh) fresh.add(name);
  else fresh.delete(name);
}

function outdate(memory: Memory, name: string): void {
  const entry = memory.known.get(name);
  if (entry !== undefined) put(memory, entry, false);
}

function takeWanted(
  { known, wanted, deep }: Memory,
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
      named.set(lane, { queue: entry.queue, key: entry.key, depth });
    }
  };
  name(wanted);
  name(deep);
  return [...named.values()];
}

function see(memory: Memory, rows: readonly LaneRow[], { keys, nowMs, unreadable }: Page): void {
  const { known, refusals, leftOut } = memory;
  memory.nowMs = nowMs;
  leftOut.clear();
  const lanes = rowsByLane(rows);
  const paged = [...lanes.values()].filter(([row]) => row?.paged === true);
  // lanes that were not there when all were are new, whenever their jobs were enqueued: their delays are over
  memory.wereAll = memory.whole && memory.newFromMs !== null;
  memory.whole = paged.length < keys;
  const unknown = paged.filter(([row]) => row !== undefined && !known.has(laneName(row))).length;
  memory.discovering = memory.whole || unknown * 4 > paged.length;
  for (const name of memory.whole ? [...known.keys()] : memory.fresh) {
    if (lanes.has(name)) continue;
    if (memory.whole) forget(memory, name);
    else outdate(memory, name);
  }
  let last: LaneRow | undefined;
  let turnedAway = false;
  for (const [name, laneRows] of lanes) {
    const [first] = laneRows;
    const seen = toJobs(laneRows, (id) => memory.byId.get(id)).filter((job) => {
      const left = unreadable?.has(job.id) === true || refusals.leavesOut(job, nowMs);
      if (left) leftOut.add(job.id);
      return !left;
    });
    if (first === undefined) continue;
    if (seen.length === 0) forget(memory, name);
    const found = known.get(name)?.found ?? !isNew(memory, seen);
    const stays = seen.length === 0 || known.has(name) || memory.room.admits({ isNew: !found });
    // the next page begins with the first lane of this one that found no room
    turnedAway ||= first.paged && !stays;
    if (first.paged && !turnedAway) last = first;
    if (seen.length === 0 || !stays) continue;
    const { queue, key, retryDueMs, wanted } = first;
    const front = laneRows.filter(({ ahead }) => !ahead).length;
    const jobs = renew(memory, name, seen);
    const skipped = laneRows.some(({ id }) => id !== null && leftOut.has(id));
    memory.room.filled(name);
    put(memory, { queue, key, jobs, more: front >= wanted, skipped, retryDueMs, found }, true);
  }
  for (const name of memory.deep.keys()) if (!known.has(name)) memory.deep.delete(name);
  if (memory.whole) memory.after = start;
  else if (last !== undefined) memory.after = { queue: last.queue, key: last.key };
}

function add(memory: Memory, job: KnownJob): boolean {
  const { known, byId, refusals, room, nowMs } = memory;
  const name = laneName(job);
  const entry = known.get(name);
  const { queue, key, jobs, more, skipped, retryDueMs, found } = entry ?? { ...job, ...emptyLane };
  if (byId.has(job.id) || refusals.leavesOut(job, nowMs) || more || skipped || retryDueMs !== null)
    return false;
  if (entry === undefined && !room.admits({ isNew: true })) return false;
  const after = jobs.findIndex(({ priority }) => priority > job.priority);
  byId.set(job.id, job);
  room.filled(name);
  const all = jobs.toSpliced(after === -1 ? jobs.length : after, 0, job);
  put(memory, { queue, key, jobs: all, more, skipped, retryDueMs, found }, true);
  return true;
}

function remove(memory: Memory, { id, queue, key }: Parameters<View['remove']>[0]): void {
  const name = laneName({ queue, key });
  const entry = memory.known.get(name);
  if (entry === undefined || !memory.byId.delete(id)) return;
  const jobs = entry.jobs.filter((job) => job.id !== id);
  if (jobs.length === 0) forget(memory, name);
  else put(memory, { ...entry, jobs }, false);
}

const emptyLane = { jobs: [], more: false, skipped: false, retryDueMs: null, found: false } as const;

/** Whether nothing of a lane waited before: its first job has come since the last look. */
function isNew({ wereAll, newFromMs }: Memory, [first]: readonly KnownJob[]): boolean {
  return wereAll || (first !== undefined && newFromMs !== null && first.createdMs >= newFromMs);
}

/** A job whose queue or key was changed is in one lane only: what a plan counts it under is what is checked when it is written. */
function leaveOther(memory: Memory, job: KnownJob): void {
  const before = memory.byId.get(job.id);
  if (before === undefined || laneName(before) === laneName(job)) return;
  const entry = memory.known.get(laneName(before));
  if (entry === undefined) return;
  put(memory, { ...entry, jobs: entry.jobs.filter(({ id }) => id !== job.id) }, entry.lane.fresh);
}

/** Of a lane: so many jobs, and whether one of them was refused. */
interface Left {
  jobs: number;
  written: number;
  refused: boolean;
}

/** Takes the planned jobs out. Returns their lanes. */
function leave(
  { byId, refusals, nowMs }: Memory,
  planned: Iterable<string>,
  written: ReadonlyMap<string, number>,
): ReadonlyMap<string, Left> {
  const touched = new Map<string, Left>();
  let last: KnownJob | undefined;
  let left: Left = { jobs: 0, written: 0, refused: false };
  for (const id of planned) {
    const job = byId.get(id);
    if (job === undefined) continue;
    if (last === undefined || last.key !== job.key || last.queue !== job.queue) {
      const name = laneName(job);
      left = touched.get(name) ?? { jobs: 0, written: 0, refused: false };
      touched.set(name, left);
    }
    last = job;
    left.jobs += 1;
    if (written.has(id)) left.written += 1;
    else {
      left.refused = true;
      refusals.note(id, job.rowVersion, nowMs);
    }
    byId.delete(id);
  }
  return touched;
}

function settle(memory: Memory, name: string, left: Left): void {
  const { known, byId, wanted, deep, room } = memory;
  const entry = known.get(name);
  if (entry === undefined) return;
  if (left.written > 0) room.served(name, left.written);
  const jobs = entry.jobs.filter(({ id }) => byId.has(id));
  freezeJobs(jobs, entry.jobs);
  const usedUp = jobs.length === 0 && entry.more;
  if (jobs.length === 0 && !entry.more && !left.refused) forget(memory, name);
  // a job that was refused still waits: what is behind it is not the first
  else put(memory, { ...entry, jobs }, entry.lane.fresh && !left.refused);
  const soonUsedUp = entry.more && jobs.length <= fewJobs && !memory.whole;
  if (usedUp) room.usedUp(name);
  const least = room.full() ? depthFull : depthMin;
  if (left.refused || usedUp || soonUsedUp) wanted.set(name, Math.max(least, entry.jobs.length));
  const depth = deep.get(name);
  if (depth === undefined || usedUp || left.jobs * 4 > depth) return;
  if (depth <= 2 * depthMin) deep.delete(name);
  else deep.set(name, Math.floor(depth / 2));
}
