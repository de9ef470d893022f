import type { Holds } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import { noneClosed } from '@pgqueue/core/internal';

/**
 * Decides which lanes the cache keeps when more lanes wait than it holds. Cached lanes compete by their
 * shares; the others come in with the page. A lane may leave in these cases:
 * - Its round is over: after its first dispatched job, as many jobs were dispatched as lanes fit. Within a
 * round each lane gets what its share is worth.
 * - The last plan held it.
 * - More than a quarter of the lanes wait to be read because their known jobs are used up; then such lanes
 * may leave.
 *
 * Nothing is lost while a lane is out of the cache. A lane that only waits for a free slot stays. So every
 * lane comes in within about twice as many dispatches as there are lanes, whatever each has waiting.
 *
 * A page adds no lane without room, and the next page begins with that lane. New lanes, whose first job was
 * enqueued since the last read, do not wait for the page: they may exceed the limit, up to twice as many
 * lanes. So may lanes of pools with free places while others are full, up to three times as many: the lanes that
 * wait for the full pools stay.
 */
export interface LaneRoom {
  /** Reports whether an unknown lane may be added. Makes lanes leave for it if necessary. */
  readonly admits: (lane: { readonly isNew: boolean; readonly open: boolean }) => boolean;
  /** Number of lanes a page may add. */
  readonly free: () => number;
  /** Notes that jobs of a lane were dispatched. */
  readonly served: (lane: string, jobs: number) => void;
  /** Notes that a lane's known jobs are used up while more wait. */
  readonly usedUp: (lane: string) => void;
  /** Notes that jobs of a lane are known again. */
  readonly filled: (lane: string) => void;
  /** Reports whether a lane can be added only in place of another. */
  readonly full: () => boolean;
  readonly planned: (plan: HeldLanes) => void;
  readonly forgot: (lane: string) => void;
}

/** HeldLanes lanes of a plan. */
export interface HeldLanes {
  /** Reports whether a held lane must stay, because a lookahead searches behind its first jobs. */
  readonly keeps: (lane: string) => boolean;
  readonly holds: Holds;
}

export interface LaneRoomOptions {
  /** Most lanes that pages fill the cache with. */
  readonly max: number;
  /** Number of cached lanes. */
  readonly size: () => number;
  readonly laneOf: (id: string) => string | undefined;
  /** Drops a lane from the cache. */
  readonly drop: (lane: string) => void;
}

/** Reasons that do not count as held: the job waits for a slot or a plan, not for a rule. */
const unheld: ReadonlySet<string> = new Set(['no_free_slot', 'batch_full', 'out_of_time']);

const nothing: HeldLanes = {
  keeps: () => false,
  holds: { jobs: new Map(), lanes: new Map(), closed: noneClosed },
};

export function createLaneRoom({ max, size, laneOf, drop }: LaneRoomOptions): LaneRoom {
  let dispatched = 0;
  /**
   * `young`: lanes within their round, by its start, in dispatched jobs. `leaving`: lanes whose round is
   * over.
   */
  const young = new Map<string, number>();
  const leaving = new Set<string>();
  const empty = new Set<string>();
  /** Lanes held by the last plan. Computed on demand; shrinks as lanes leave. */
  let held: Set<string> | undefined;
  let plan = nothing;
  const readHeld = (): Set<string> => {
    if (held !== undefined) return held;
    held = new Set();
    const { keeps, holds } = plan;
    const add = (lane: string | undefined): void => {
      if (lane !== undefined && !keeps(lane)) held?.add(lane);
    };
    for (const [lane, reason] of holds.lanes) if (!unheld.has(reason)) add(lane);
    for (const [id, reason] of holds.jobs) if (!unheld.has(reason)) add(laneOf(id));
    for (const { lane } of holds.closed.all()) add(laneName(lane));
    return held;
  };
  const forgot = (lane: string): void => {
    for (const lanes of [young, leaving, empty, held]) lanes?.delete(lane);
  };
  const tooEmpty = (): number => Math.max(0, empty.size - Math.floor(max / 4));
  const endRounds = (): void => {
    for (const [lane, since] of young) {
      if (dispatched - since < max) break;
      young.delete(lane);
      leaving.add(lane);
    }
  };
  const oneLeaves = (): boolean => {
    endRounds();
    const [lane] = leaving.size > 0 ? leaving : tooEmpty() > 0 ? empty : readHeld();
    if (lane === undefined) return false;
    // forget it even if the cache has already dropped it
    forgot(lane);
    drop(lane);
    return true;
  };
  return {
    admits: ({ isNew, open }) => {
      while (size() >= max && oneLeaves());
      return size() < (open ? 3 * max : isNew ? 2 * max : max);
    },
    free: () => {
      endRounds();
      return size() < max ? max - size() : leaving.size + tooEmpty() + readHeld().size;
    },
    served: (lane, jobs) => {
      dispatched += jobs;
      if (!young.has(lane) && !leaving.has(lane)) young.set(lane, dispatched);
    },
    usedUp: (lane) => void empty.add(lane),
    filled: (lane) => void empty.delete(lane),
    full: () => size() >= max,
    planned: (made) => {
      [plan, held] = [made, undefined];
    },
    forgot,
  };
}
