import type { Lane } from '../../snapshot.ts';
import { compareText } from '../../snapshot.ts';
import { createHeap } from '../ranking/heap.ts';
import type { ShareTree } from './tree.ts';

/** Pools that take turns in one plan. */
export interface PoolTurns {
  /** Returns the next lane of the pool of which the fewest jobs went. Undefined: no pool has one. */
  readonly next: () => Lane | undefined;
}

interface PoolInLine {
  readonly name: string;
  readonly tree: Pick<ShareTree, 'next'>;
  /** Number of jobs that this plan has taken from it. It only grows. */
  readonly taken: number;
}

/**
 * Lets pools take turns: the one of which the fewest jobs went is next, among equal ones by name. A pool that is full or
 * has no lane leaves the line, since a plan brings it no other: so each is asked once too often, however many there are.
 */
export function takeTurns(pools: readonly PoolInLine[], full: ReadonlySet<string>): PoolTurns {
  const line = createHeap(
    pools.map((pool) => ({ pool, taken: pool.taken })),
    (a, b) => (a.taken === b.taken ? compareText(a.pool.name, b.pool.name) < 0 : a.taken < b.taken),
  );
  return {
    next: () => {
      for (let top = line.peek(); top !== undefined; top = line.peek()) {
        const { pool, taken } = top;
        if (taken !== pool.taken) {
          line.replace({ pool, taken: pool.taken });
          continue;
        }
        const lane = full.has(pool.name) ? undefined : pool.tree.next();
        if (lane !== undefined) return lane;
        line.pop();
      }
      return undefined;
    },
  };
}
