import type { Lane } from '@pgqueue/core';
import { laneName, own } from '@pgqueue/core';
import type { SafePlan } from '../../policy/planner.ts';
import type { View } from './lane-cache.ts';
import { heldLanes } from '../../policy/why-held.ts';

/**
 * Where a plan runs out of time among thousands of lanes that are held, the next one would begin with the same lanes, and never come
 * to those behind them that can go. So what it has judged stands aside until a plan came to the end of all others.
 */
export interface Aside {
  readonly without: (lanes: readonly Lane[]) => readonly Lane[];
  /** Whether the next plan will see what this one did not come to. */
  readonly note: (planned: SafePlan, view: Pick<View, 'find'>) => boolean;
  readonly reset: () => void;
}

export function createAside(): Aside {
  const names = new Set<string>();
  return {
    without: (lanes) => (names.size === 0 ? lanes : lanes.filter((lane) => !names.has(laneName(lane)))),
    note: ({ held, holds, dispatch }, { find }) => {
      if (!Object.values(held).some((counts) => own(counts, 'out_of_time') !== undefined)) {
        names.clear();
        return false;
      }
      const laneOf = (id: string): string => {
        const job = find(id);
        return job === undefined ? '' : laneName(job);
      };
      const before = names.size;
      const went = new Set(dispatch.map(({ id }) => laneOf(id)));
      for (const name of heldLanes(holds, laneOf)) if (!went.has(name)) names.add(name);
      return names.size > before;
    },
    reset: () => names.clear(),
  };
}
