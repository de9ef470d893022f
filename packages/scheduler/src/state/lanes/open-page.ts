import type { Lane } from '@pgqueue/core';
import type { LaneId, LaneRead, TickInput } from '@pgqueue/postgres/internal';

/**
 * Pages that leave out the queues of full pools. While thousands of lanes wait for a full pool, pages of all lanes show
 * hardly any other, and lanes of a pool with free places would wait behind them. So ticks read a page without them in
 * turn with the others: at once as long as these pages are full, else every half second.
 */
export interface OpenPages {
  /** Returns what the next tick's page leaves out, and where it begins. Undefined: a page of all lanes is due. */
  readonly ask: () => OpenPage | undefined;
  /** Notes a read. `page`: what its page left out. `keys`: number of lanes in a full page. */
  readonly saw: (
    lanes: readonly LaneRead[],
    read: { readonly page: OpenPage | undefined; readonly keys: number; readonly nowMs: number },
  ) => void;
  /** Notes the state after a plan. Returns whether the next tick reads such a page. */
  readonly planned: (plan: {
    /** Set if all lanes are known. */
    readonly whole: () => boolean;
    /** Reports whether any pool has free places. */
    readonly open: boolean;
    readonly lanes: () => readonly Pick<Lane, 'queue'>[];
    readonly hasRoom: (queue: string) => boolean;
    readonly nowMs: number;
  }) => boolean;
}

export type OpenPage = Pick<TickInput, 'skip' | 'after'>;

/** Interval of these pages in milliseconds, unless the last was full. */
const restMs = 500;
/** Most queues that a page leaves out: each costs an index lookup. */
const queuesMax = 1_000;
const start: LaneId = { queue: '', key: '' };

export function createOpenPages(): OpenPages {
  let next: OpenPage | undefined;
  let after = start;
  let dueMs = -Infinity;
  let inTurn = false;
  return {
    ask: () => next,
    saw: (lanes, { page, keys, nowMs }) => {
      inTurn = page === undefined;
      next = undefined;
      if (page === undefined) return;
      const paged = lanes.filter((lane) => lane.paged);
      const last = paged.at(-1);
      const full = last !== undefined && paged.length >= keys;
      after = full ? { queue: last.queue, key: last.key } : start;
      dueMs = full ? nowMs : nowMs + restMs;
    },
    planned: ({ whole, open, lanes, hasRoom, nowMs }) => {
      const due = open && !whole() && inTurn && nowMs >= dueMs;
      const skip = due ? fullQueues(lanes(), hasRoom) : [];
      next = skip.length === 0 ? undefined : { skip, after };
      return next !== undefined;
    },
  };
}

/** Returns the queues of pools without free places, those with most lanes first. */
function fullQueues(
  lanes: readonly Pick<Lane, 'queue'>[],
  hasRoom: (queue: string) => boolean,
): readonly string[] {
  const counts = new Map<string, number>();
  let [last, full]: [string | undefined, boolean] = [undefined, false];
  for (const { queue } of lanes) {
    // lanes of one queue mostly stand side by side
    if (queue !== last) [last, full] = [queue, !hasRoom(queue)];
    if (full) counts.set(queue, (counts.get(queue) ?? 0) + 1);
  }
  return [...counts]
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, queuesMax)
    .map(([queue]) => queue);
}
