import { laneName } from '@pgqueue/core';
import type { LaneCache } from './lane-cache.ts';
import { depthMin } from './lane-cache.ts';
import type { LaneCursors } from './lane-cursors.ts';

/** Tracks the keys that are held because they move between installations. */
export interface MovingKeys {
  /** Notes the keys that a tick has read as held. Null: none is. */
  readonly saw: (keys: readonly string[] | null | undefined) => void;
  /** Keys that the next plan must hold. */
  readonly held: () => readonly string[];
  /** True if the hold of a key has ended: its lanes must be read, and planned at once. */
  readonly opened: () => boolean;
  readonly reset: () => void;
}

/**
 * Holds a key for one more tick after its hold has ended. Jobs have come before those of its lanes that are known, and
 * before the lanes' cursors; the tick after that reads them from their beginning.
 */
export function createMovingKeys({
  laneCache,
  cursors,
}: {
  readonly laneCache: Pick<LaneCache, 'lanes' | 'want'>;
  readonly cursors: Pick<LaneCursors, 'drop'>;
}): MovingKeys {
  let moving: readonly string[] = [];
  let opened: readonly string[] = [];
  return {
    saw: (keys) => {
      if (moving.length === 0 && (keys ?? []).length === 0) {
        opened = [];
        return;
      }
      const now = new Set(keys);
      opened = moving.filter((key) => !now.has(key));
      moving = [...now];
      if (opened.length === 0) return;
      const ended = new Set(opened);
      const names = laneCache
        .lanes()
        .filter(({ key }) => ended.has(key))
        .map(laneName);
      for (const name of names) cursors.drop(name);
      laneCache.want(names.map((name) => [name, depthMin] as const));
    },
    held: () => (opened.length === 0 ? moving : [...moving, ...opened]),
    opened: () => opened.length > 0,
    reset: () => {
      moving = [];
      opened = [];
    },
  };
}
