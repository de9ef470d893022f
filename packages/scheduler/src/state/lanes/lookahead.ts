import { laneName } from '@pgqueue/core';
import type { LaneId, LaneRow, TickInput } from '@pgqueue/postgres';
import { rowsByLane } from './lane-rows.ts';

/**
 * A tick sees the first few jobs of each lane. Where all of those are held (no node runs their task, a limit of theirs is reached), jobs
 * behind them that could go would never be seen. So such a lane is looked at further on, too, window by window, until there are
 * jobs of another kind than those in front that can go, or the lane ends. Jobs of one kind (task, version and attributes) keep
 * their order: of a kind that was passed over, none behind is shown. After a while the walk begins anew, for jobs that came to lie in
 * the part that was passed (their delay ended): at most a tenth of the time is spent walking in vain. Other nodes, other capabilities:
 * all walks begin anew at once.
 */
export interface SkipAhead {
  /** What the next tick asks for. */
  readonly starts: (nowMs: number) => Pick<TickInput, 'starts' | 'lookahead'>;
  /** Lanes that must be among those that the next tick looks at: their walks go on. */
  readonly lanes: () => readonly LaneId[];
  /** The rows that may be planned: all but those behind a job of their own kind that is not shown. */
  readonly shown: (rows: readonly LaneRow[]) => readonly LaneRow[];
  /** What the tick saw. `reason`: why the plan held a job that it looked at. */
  readonly note: (seen: {
    readonly rows: readonly LaneRow[];
    readonly reason: (id: string) => string | undefined;
    readonly nowMs: number;
  }) => void;
  /** Whether there is one in that lane. */
  readonly walks: (lane: string) => boolean;
  /** Whether some walk is under way: the next tick will see something new. */
  readonly walking: () => boolean;
  readonly reset: () => void;
}

interface Walk extends LaneId {
  readonly beganMs: number;
  start: readonly [number, number];
  /** Of all jobs up to the start. */
  readonly kinds: Set<string>;
  /** When it first came to a job that could go, or to the end. */
  arrivedMs: number | undefined;
  /** Ticks in a row that asked for it and did not see its lane: it is gone. */
  missed: number;
}

interface Walks {
  readonly all: Map<string, Walk>;
  /** Those that the present tick goes on with. */
  chosen: ReadonlyMap<string, Walk>;
  lookahead: number;
}

/** Rows that all starts of one tick may cost together. */
const rowsMax = 1_000;
const walksMax = 2_000;
const restMs = 1_000;
const missedMax = 20;
/** With more, a walk ends: what it might still find is not worth the memory. */
const kindsMax = 500;

export function createSkipAhead(): SkipAhead {
  const walks: Walks = { all: new Map(), chosen: new Map(), lookahead: 1 };
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
        else if (isHeld(front, reason)) goOn(walk, { lane, reason, nowMs, lookahead: walks.lookahead });
        // what is in front can go: nothing behind it is missed
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

/** The reason of a job that could not be written, and is left out for a while: it is passed, and keeps nobody of its kind back. */
export const leftOut = 'left_out';

type Reason = (id: string) => string | undefined;

/** What a job has in common with others that are held like it: where no node can run it, its attributes don't matter. */
function kindOf({ task, version, attributes }: LaneRow, reason?: string): string {
  return JSON.stringify(reason === 'no_capable_node' ? [task, version] : [task, version, attributes]);
}

function pass({ kinds }: Pick<Walk, 'kinds'>, row: LaneRow, reason: string | undefined): void {
  if (reason !== leftOut) kinds.add(kindOf(row, reason));
}

function isPassed({ kinds }: Walk, row: LaneRow): boolean {
  return kinds.has(kindOf(row)) || kinds.has(kindOf(row, 'no_capable_node'));
}

/** Not twice, where the front has come up to the window. */
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

/** Shares the rows out over the walks; where there are too many, other ones the next time. */
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
  { all }: Walks,
  seen: {
    readonly name: string;
    readonly front: readonly LaneRow[];
    readonly reason: Reason;
    readonly nowMs: number;
  },
): void {
  const { name, front, reason, nowMs } = seen;
  const last = front.at(-1);
  if (last === undefined || front.length < last.wanted || all.has(name) || all.size >= walksMax) return;
  if (!isHeld(front, reason)) return;
  const { queue, key, priority, seq } = last;
  const kinds = new Set<string>();
  for (const row of front) pass({ kinds }, row, row.id === null ? undefined : reason(row.id));
  all.set(name, {
    queue,
    key,
    beganMs: nowMs,
    start: [priority, seq],
    kinds,
    arrivedMs: undefined,
    missed: 0,
  });
}

function goOn(
  walk: Walk,
  seen: {
    readonly lane: readonly LaneRow[];
    readonly reason: Reason;
    readonly nowMs: number;
    readonly lookahead: number;
  },
): void {
  const { lane, reason, nowMs, lookahead } = seen;
  const window = lane.filter(({ ahead, id }) => ahead && id !== null);
  for (const row of window) {
    const why = row.id === null ? undefined : reason(row.id);
    const passed = isPassed(walk, row);
    // one of another kind that can go: the walk has come to where it should be
    if (!passed && why === undefined) {
      walk.arrivedMs ??= nowMs;
      return;
    }
    if (!passed) pass(walk, row, why);
    walk.start = [row.priority, row.seq];
  }
  if (window.length < lookahead || walk.kinds.size > kindsMax) walk.arrivedMs ??= nowMs;
}
