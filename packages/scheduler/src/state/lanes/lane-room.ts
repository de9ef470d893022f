import type { Holds } from '@pgqueue/core';
import { laneName, noneClosed } from '@pgqueue/core';

/**
 * Which lanes are remembered, where more wait than a leader can remember. Those that are compete by their shares; the others come round with
 * the page. A lane has had its turn when, after its first job went, as many dispatches were made as lanes fit: that is a round, in which each
 * gets what its share is worth. Or when the last plan held it, or a quarter of the lanes wait to be read since their known jobs are used up:
 * nothing is lost while they are not looked at. A lane that waits for no more than a free slot stays. So all lanes come round within about
 * twice as many dispatches as there are lanes, whatever each has waiting.
 *
 * A page brings no lane for which there is no room, and the next one begins with it. New lanes, whose first job was enqueued since the
 * last look, do not wait for the page: as many again fit in.
 */
export interface LaneRoom {
  /** Whether a lane that is not known may become so. Others that have had their turn may leave for it. */
  readonly admits: (lane: { readonly isNew: boolean }) => boolean;
  /** Lanes that a page may bring now. */
  readonly free: () => number;
  /** So many jobs of it went. */
  readonly served: (lane: string, jobs: number) => void;
  /** Its known jobs went, and more wait. */
  readonly usedUp: (lane: string) => void;
  /** Jobs of it are known. */
  readonly filled: (lane: string) => void;
  /** Whether there is room for no more but in place of others. */
  readonly full: () => boolean;
  readonly planned: (plan: Held) => void;
  readonly forgot: (lane: string) => void;
  readonly reset: () => void;
}

/** Of a plan, what it held. */
export interface Held {
  /** Lanes that stay although they are held: what is behind their first jobs is being looked for. */
  readonly keeps: (lane: string) => boolean;
  readonly holds: Holds;
}

export interface LaneRoomOptions {
  /** Lanes that a page fills it up to. */
  readonly max: number;
  /** Lanes that are known. */
  readonly size: () => number;
  readonly laneOf: (id: string) => string | undefined;
  /** Forgets a known lane. */
  readonly drop: (lane: string) => void;
}

/** They wait for a slot or a plan, and for no rule. */
const unheld: ReadonlySet<string> = new Set(['no_free_slot', 'batch_full', 'out_of_time']);

const nothing: Held = {
  keeps: () => false,
  holds: { jobs: new Map(), lanes: new Map(), closed: noneClosed },
};

export function createLaneRoom({ max, size, laneOf, drop }: LaneRoomOptions): LaneRoom {
  let dispatched = 0;
  /** Lanes in their round, by when it began; and those whose round is over. */
  const young = new Map<string, number>();
  const leaving = new Set<string>();
  const empty = new Set<string>();
  /** Of the last plan; emptied as they leave. */
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
    // also where it is not known any more
    forgot(lane);
    drop(lane);
    return true;
  };
  return {
    admits: ({ isNew }) => {
      while (size() >= max && oneLeaves());
      return size() < (isNew ? 2 * max : max);
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
    reset: () => {
      for (const lanes of [young, leaving, empty]) lanes.clear();
      dispatched = 0;
      [plan, held] = [nothing, undefined];
    },
  };
}
