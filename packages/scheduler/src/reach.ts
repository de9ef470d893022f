import type { Load } from './depth.ts';

/**
 * How much further than its horizon a pool's work items are made. What is taken within the horizon is measured; but nodes that wait for every batch
 * (the database is far away, or everything is slow) can't take more than they are given, and would be given no more than
 * they take. So where a pool has taken what it was given and stands idle, while jobs wait, it is given more from tick to tick, until some
 * of it is left when the next tick comes.
 */
export interface Reach {
  /** A factor, at least 1. */
  readonly of: (pool: string) => number;
  readonly saw: (load: Load) => void;
  /** Pools that had places, and whether a plan has used all of them: else nothing more waits for the pool. */
  readonly planned: (filled: ReadonlyMap<string, boolean>) => void;
  readonly reset: () => void;
}

const growth = 1.25;
const most = 16;
/** Without another sign that it is too little, it is given half as much more after so long. */
const halfLifeMs = 500;
/** A pool stands idle with as many of its slots free (single slots become free all the time), and nothing left for them. */
const idleShare = 0.5;

export function createReach(): Reach {
  const factors = new Map<string, number>();
  const wants = new Set<string>();
  let sawAt = 0;
  return {
    of: (pool) => factors.get(pool) ?? 1,
    saw: ({ now, nodes, ready }) => {
      // the database's clock may be set back, or ahead
      const sinceMs = Math.min(halfLifeMs, Math.max(0, now - sawAt));
      const decay = 0.5 ** (sinceMs / halfLifeMs);
      sawAt = now;
      for (const [pool, own] of Map.groupBy(nodes, (node) => node.pool)) {
        const slots = own.reduce((sum, node) => sum + node.slots, 0);
        const free = own.reduce((sum, node) => sum + Math.max(0, node.slots - node.running), 0);
        const before = factors.get(pool) ?? 1;
        const left = ready.reduce((sum, item) => sum + (item.pool === pool ? item.count : 0), 0);
        const idle = free > 0 && free >= slots * idleShare && left === 0;
        factors.set(
          pool,
          idle && wants.has(pool) ? Math.min(most, before * growth) : Math.max(1, before * decay),
        );
      }
      for (const pool of factors.keys()) if (!nodes.some((node) => node.pool === pool)) factors.delete(pool);
    },
    planned: (filled) => {
      for (const [pool, whole] of filled) {
        if (whole) wants.add(pool);
        else wants.delete(pool);
      }
    },
    reset: () => {
      factors.clear();
      wants.clear();
    },
  };
}
