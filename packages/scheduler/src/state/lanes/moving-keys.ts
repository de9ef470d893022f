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
  /** True while lanes of keys whose moves are over must be read anew. */
  readonly waits: () => boolean;
  /** Returns, once, keys whose move is over, and whose lanes were read anew: their holds can end. */
  readonly over: () => readonly string[];
}

/**
 * Holds keys until the leader has seen that their moves are over. Jobs have come before those of their lanes that are
 * known, and before the lanes' cursors, also of lanes in which no job was known to wait: so the hold goes on until a
 * later tick has read these lanes from their beginning.
 */
export function createMovingKeys({
  laneCache,
  cursors,
}: {
  readonly laneCache: Pick<LaneCache, 'lanes' | 'want'>;
  readonly cursors: Pick<LaneCursors, 'dropKeys'>;
}): MovingKeys {
  let held: readonly string[] = [];
  let over: readonly string[] = [];
  /** Keys whose lanes an earlier tick has asked for. */
  let asked: ReadonlySet<string> = new Set();
  return {
    saw: (keys) => {
      held = (keys ?? []).map(({ key }) => key);
      over = [];
      const ended = new Set((keys ?? []).flatMap((one) => (one.over ? [one.key] : [])));
      if (ended.size > 0) {
        cursors.dropKeys(ended);
        const lanes = laneCache.lanes().filter(({ key }) => ended.has(key));
        const stale = lanes.filter(({ key, fresh }) => !(fresh && asked.has(key)));
        laneCache.want(stale.map((lane) => [laneName(lane), depthMin] as const));
        const unread = new Set(stale.map(({ key }) => key));
        over = [...ended].filter((key) => asked.has(key) && !unread.has(key));
      }
      asked = ended;
    },
    held: () => held,
    waits: () => asked.size > 0,
    over: () => {
      const ready = over;
      over = [];
      return ready;
    },
  };
}
