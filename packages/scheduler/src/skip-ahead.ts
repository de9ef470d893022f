import { laneName } from '@pgqueue/core';
import type { LaneId, LaneRow, TickInput } from '@pgqueue/postgres';

/**
 * A tick sees the first few jobs of each key. Where those find no place (no live node knows their task, or only busy ones do),
 * jobs behind them that could run would never be seen. So the scan of such a key starts further on, window by window, until it
 * comes to jobs that have a place or to the key's end, and stays there. Every fourth tick looks at the front of all keys, for
 * jobs that overtook; and after a while the walk begins anew, for jobs that came to lie in the part that was skipped (their delay
 * ended): at most a tenth of the time is spent walking in vain. Other nodes, other capabilities: all walks begin anew at once.
 */
export interface SkipAhead {
  /** What the next tick asks for. */
  readonly starts: (nowMs: number) => Pick<TickInput, 'starts' | 'lookahead'>;
  /** Lanes that must be among those that the next tick looks at: their walks go on. */
  readonly lanes: () => readonly LaneId[];
  /** What it saw. `misfit`: why a job was held, or undefined. */
  readonly note: (seen: {
    readonly candidates: readonly LaneRow[];
    readonly misfit: (job: LaneRow) => Misfit | undefined;
    readonly nowMs: number;
  }) => void;
  /** Whether some walk is under way: the next tick will see something new. */
  readonly walking: () => boolean;
  readonly reset: () => void;
}

/** `lasting`: until other nodes come; `passing`: until a slot is free. */
export type Misfit = 'lasting' | 'passing';

interface Walk {
  readonly queue: string;
  readonly key: string;
  readonly beganMs: number;
  start: readonly [number, number];
  /** When it first came to a job with a place, or to the end. */
  arrivedMs: number | undefined;
  passing: boolean;
  /** Ticks in a row that asked for it and did not see its key: it is gone, or on another page. */
  missed: number;
}

interface Walks {
  readonly all: Map<string, Walk>;
  /** Those that the present tick goes on with. */
  chosen: ReadonlyMap<string, Walk>;
  lookahead: number;
}

/** Rows that all starts of one tick may cost together. */
const rowsMax = 4_000;
const walksMax = 10_000;
const restMs = 1_000;
const missedMax = 20;

export function createSkipAhead(): SkipAhead {
  const walks: Walks = { all: new Map(), chosen: new Map(), lookahead: 1 };
  let tick = 0;
  return {
    starts: (nowMs) => {
      tick += 1;
      endWalks(walks, nowMs);
      choose(walks, tick % 4 === 0 ? 0 : rowsMax);
      const byQueue = Map.groupBy(walks.chosen.values(), ({ queue }) => queue);
      const starts = [...byQueue].map(
        ([queue, keys]) => [queue, Object.fromEntries(keys.map(({ key, start }) => [key, start]))] as const,
      );
      return { starts: Object.fromEntries(starts), lookahead: walks.lookahead };
    },
    note: (seen) => {
      const lanes = Map.groupBy(seen.candidates, laneName);
      for (const [name, lane] of lanes) {
        const rows = lane.filter(({ id }) => id !== null);
        const walk = walks.chosen.get(name);
        if (walk === undefined) lookAtFront(walks, name, rows, { ...seen, wanted: wantedOf(lane) });
        else goOn(walk, rows, seen, lane);
      }
      for (const [name, walk] of walks.chosen) {
        walk.missed = lanes.has(name) ? 0 : walk.missed + 1;
        if (walk.missed >= missedMax) walks.all.delete(name);
      }
    },
    lanes: () => [...walks.chosen.values()],
    walking: () => [...walks.all.values()].some(({ arrivedMs }) => arrivedMs === undefined),
    reset: () => {
      walks.all.clear();
      walks.chosen = new Map();
    },
  };
}

function endWalks({ all }: Walks, nowMs: number): void {
  for (const [name, { arrivedMs, beganMs }] of all) {
    if (arrivedMs === undefined) continue;
    if (nowMs >= arrivedMs + Math.max(restMs, 10 * (arrivedMs - beganMs))) all.delete(name);
  }
}

/** Shares `rows` out over the walks; where there are too many, other ones the next time. */
function choose(walks: Walks, rows: number): void {
  const { all } = walks;
  walks.lookahead = Math.min(1_000, Math.max(50, Math.floor(rows / Math.max(1, all.size))));
  walks.chosen = new Map([...all].slice(0, Math.floor(rows / walks.lookahead)));
  for (const [name, walk] of walks.chosen) {
    all.delete(name);
    all.set(name, walk);
  }
}

type Seen = Parameters<SkipAhead['note']>[0];

function wantedOf(lane: readonly LaneRow[]): number {
  return lane[0]?.wanted ?? 1;
}

function lookAtFront(
  { all }: Walks,
  name: string,
  rows: readonly LaneRow[],
  seen: Seen & { readonly wanted: number },
): void {
  const { prefix, passing, arrived } = leading(rows, seen);
  const walk = all.get(name);
  if (walk !== undefined) {
    // the front is no longer held: go back to it
    if (walk.passing && prefix.length === 0 && rows.length > 0) all.delete(name);
    return;
  }
  const last = prefix.at(-1);
  if (last === undefined || rows.length < seen.wanted || all.size >= walksMax) return;
  const { queue, key, priority, seq } = last;
  const arrivedMs = arrived ? seen.nowMs : undefined;
  const start = [priority, seq] as const;
  all.set(name, { queue, key, beganMs: seen.nowMs, start, arrivedMs, passing, missed: 0 });
}

function goOn(walk: Walk, rows: readonly LaneRow[], seen: Seen, lane: readonly LaneRow[]): void {
  const { prefix, passing, arrived } = leading(rows, seen);
  const last = prefix.at(-1);
  if (last !== undefined) walk.start = [last.priority, last.seq];
  walk.passing ||= passing;
  if (arrived || rows.length < wantedOf(lane)) walk.arrivedMs ??= seen.nowMs;
}

/** The jobs without a place before the first that has one. */
function leading(
  rows: readonly LaneRow[],
  { misfit }: Seen,
): { readonly prefix: readonly LaneRow[]; readonly passing: boolean; readonly arrived: boolean } {
  const fits = rows.findIndex((job) => misfit(job) === undefined);
  const prefix = rows.slice(0, fits === -1 ? rows.length : fits);
  return { prefix, passing: prefix.some((job) => misfit(job) === 'passing'), arrived: fits !== -1 };
}
