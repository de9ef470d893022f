import { laneName } from '@pgqueue/core';
import type { MovingKey } from '@pgqueue/postgres/internal';
import type { LaneCache } from './lane-cache.ts';
import { depthMin } from './lane-cache.ts';
import type { LaneCursors } from './lane-cursors.ts';

/** Tracks the keys that are held because they move between installations. */
export interface MovingKeys {
  /** Notes the keys that a tick has read as held. Null: none is. */
  readonly saw: (keys: readonly MovingKey[] | null | undefined) => void;
  /** Keys that the next plan must hold. */
  readonly held: () => readonly string[];
  /** Keys whose move is over. Their holds can end now that their lanes are read anew. */
  readonly over: () => readonly string[];
  readonly reset: () => void;
}

/**
 * Holds keys until the leader has seen that their moves are over. Jobs have come before those of their lanes that are
 * known, and before the lanes' cursors: so the tick after the hold reads these lanes from their beginning.
 */
export function createMovingKeys({
  laneCache,
  cursors,
}: {
  readonly laneCache: Pick<LaneCache, 'lanes' | 'want'>;
  readonly cursors: Pick<LaneCursors, 'drop'>;
}): MovingKeys {
  let held: readonly string[] = [];
  let over: readonly string[] = [];
  return {
    saw: (keys) => {
      held = (keys ?? []).map(({ key }) => key);
      over = (keys ?? []).flatMap((one) => (one.over ? [one.key] : []));
      if (over.length === 0) return;
      const ended = new Set(over);
      const lanes = laneCache.lanes().filter(({ key }) => ended.has(key));
      for (const lane of lanes) cursors.drop(laneName(lane));
      laneCache.want(lanes.map((lane) => [laneName(lane), depthMin] as const));
    },
    held: () => held,
    over: () => over,
    reset: () => {
      held = [];
      over = [];
    },
  };
}
