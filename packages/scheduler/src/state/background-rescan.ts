import type { Target } from '@pgqueue/postgres/internal';
import { firstWaiting, itemsBehind } from '@pgqueue/postgres/internal';
import type { LeaderState } from './leader-state.ts';
import type { Settings } from '../options.ts';

/**
 * Background rescan below the tick cursors; finds jobs or items the cursors skipped. It runs outside the
 * ticks because it may read millions of dead rows that vacuum can't remove yet. The next tick sees what it
 * finds.
 */
export interface Behind {
  /** Starts a rescan if one is due, without waiting for it. */
  readonly look: (state: LeaderState, nowMs: number) => void;
  /** Resolves when the current rescan has ended. */
  readonly settled: () => Promise<void>;
}

/** Interval of the item rescan, in milliseconds. It runs only if the item scan's start has moved. */
const itemsMs = 10_000;
/** Most items read at once; more than the leader keeps below the scan start. */
const strayMax = 2_000;
/** Share of the time that rescans may take. */
const share = 0.005;

export function createBehind({
  database,
  observe,
}: { readonly database: Target } & Pick<Settings, 'observe'>): Behind {
  const asked = { floor: 0, atMs: -Infinity };
  let itemsLast = false;
  let looking: Promise<void> | undefined;
  let restsUntilMs = -Infinity;

  const lookAtItems = async ({ items, inFlight }: LeaderState): Promise<void> => {
    // listed before the query: an item that ends during it may still be in the answer
    const known = new Set(inFlight.before(items.floor));
    const found = await itemsBehind(database, items.floor, strayMax);
    const unknown = found.filter((position) => !known.has(position) && !inFlight.knows(position));
    if (unknown.length > 0)
      Object.assign(items, { floor: Math.min(items.floor, ...unknown), rescanAt: -Infinity });
  };
  const lookOnce = async (state: LeaderState, nowMs: number): Promise<void> => {
    const { items, cursors } = state;
    const moved = items.floor !== asked.floor && nowMs >= asked.atMs + itemsMs;
    // alternate between lanes and items: with an old snapshot open, each is due again whenever the other ends
    const unseen = moved && !itemsLast ? undefined : cursors.unseen(nowMs);
    itemsLast = unseen === undefined;
    if (unseen !== undefined) {
      cursors.found(unseen.lane, await firstWaiting(database, unseen));
    } else if (moved) {
      Object.assign(asked, { floor: items.floor, atMs: nowMs });
      await lookAtItems(state);
    }
  };

  return {
    look: (state, nowMs) => {
      if (looking !== undefined || nowMs < restsUntilMs) return;
      const beganMs = performance.now();
      looking = lookOnce(state, nowMs)
        .catch((error: unknown) => observe({ type: 'database.error', during: 'look', error }))
        .finally(() => {
          looking = undefined;
          const endedMs = performance.now();
          restsUntilMs = endedMs + (endedMs - beganMs) / share;
        });
    },
    settled: () => looking ?? Promise.resolve(),
  };
}
