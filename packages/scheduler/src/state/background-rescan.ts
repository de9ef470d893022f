import type { Target } from '@pgqueue/postgres';
import { firstWaiting, itemsBehind } from '@pgqueue/postgres';
import type { Memory } from './leader-state.ts';
import type { Settings } from '../options.ts';

/**
 * Looks at what lies before the places that ticks begin at: nothing should wait there. Where vacuum can't clear dead rows away there are
 * millions to pass, so it does that beside the ticks, which dispatch meanwhile. What it finds, the next tick sees.
 */
export interface Behind {
  /** Looks, where it is time to; does not wait for it. */
  readonly look: (memory: Memory, nowMs: number) => void;
  /** The look that is under way has ended. */
  readonly settled: () => Promise<void>;
}

/** How often the items are looked at, where the first one has moved on. */
const itemsMs = 10_000;
/** Items that are looked at at once: more than are known to be there. */
const strayMax = 2_000;
/** Such looks may take this part of the time. */
const share = 0.005;

export function createBehind({
  database,
  observe,
}: { readonly database: Target } & Pick<Settings, 'observe'>): Behind {
  const asked = { floor: 0, atMs: -Infinity };
  let itemsLast = false;
  let looking: Promise<void> | undefined;
  let restsUntilMs = -Infinity;

  const lookAtItems = async ({ items, ledger }: Memory): Promise<void> => {
    // what has ended when the answer comes was still there when the database looked
    const known = new Set(ledger.before(items.floor));
    const found = await itemsBehind(database, items.floor, strayMax);
    const unknown = found.filter((position) => !known.has(position) && !ledger.knows(position));
    if (unknown.length > 0)
      Object.assign(items, { floor: Math.min(items.floor, ...unknown), rescanAt: -Infinity });
  };
  const lookOnce = async (memory: Memory, nowMs: number): Promise<void> => {
    const { items, cursors } = memory;
    const moved = items.floor !== asked.floor && nowMs >= asked.atMs + itemsMs;
    // in turn: behind an old snapshot there is always something to look at when it is time again
    const unseen = moved && !itemsLast ? undefined : cursors.unseen(nowMs);
    itemsLast = unseen === undefined;
    if (unseen !== undefined) {
      cursors.found(unseen.lane, await firstWaiting(database, unseen));
    } else if (moved) {
      Object.assign(asked, { floor: items.floor, atMs: nowMs });
      await lookAtItems(memory);
    }
  };

  return {
    look: (memory, nowMs) => {
      if (looking !== undefined || nowMs < restsUntilMs) return;
      const beganMs = performance.now();
      looking = lookOnce(memory, nowMs)
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
