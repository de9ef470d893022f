/**
 * Slots that several workers of one process share, one worker for each installation. A worker reserves slots before it
 * claims, so that claims under way take no more than there are, and gives back those that brought nothing.
 */
export interface SharedSlots {
  readonly size: number;
  /** @param wake called when there may be room for a worker that waits */
  readonly join: (wake: () => void) => SlotShare;
}

/** Part of one worker in shared slots. */
export interface SlotShare {
  /** Number of slots that it may reserve now. */
  readonly room: () => number;
  /** Reserves up to `max` of them; returns how many. */
  readonly reserve: (max: number) => number;
  readonly give: (count: number) => void;
  /** Call when more work is ready than it may reserve slots for: it has its turn when some are given back. */
  readonly wait: () => void;
  /** Call when it can take no work, or has none: others have their turn before it. */
  readonly pass: () => void;
}

/**
 * Creates shared slots. Workers with ready work take turns: one that waits has a free slot before any that came later, so
 * each gets its part while all are busy, and all of them while the others have nothing to do.
 */
export function createSharedSlots(size: number): SharedSlots {
  let free = size;
  /** In the order of their turns. */
  const waiting = new Map<SlotShare, () => void>();

  const wakeSome = (): void => {
    for (const wake of [...waiting.values()].slice(0, free)) wake();
  };
  const roomOf = (share: SlotShare): number => {
    if (!waiting.has(share)) return Math.max(0, free - waiting.size);
    const before = [...waiting.keys()].indexOf(share);
    // at least one for each that waits
    return before >= free ? 0 : Math.max(1, free - (waiting.size - 1));
  };

  return {
    size,
    join: (wake) => {
      const share: SlotShare = {
        room: () => roomOf(share),
        reserve: (max) => {
          const count = Math.min(max, roomOf(share));
          free -= count;
          if (count > 0) waiting.delete(share);
          return count;
        },
        give: (count) => {
          free += count;
          if (count > 0) wakeSome();
        },
        wait: () => {
          if (!waiting.has(share)) waiting.set(share, wake);
        },
        pass: () => {
          if (waiting.delete(share)) wakeSome();
        },
      };
      return share;
    },
  };
}
