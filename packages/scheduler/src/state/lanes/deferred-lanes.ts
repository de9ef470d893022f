import type { Lane } from '@pgqueue/core';
import { laneName, own } from '@pgqueue/core';
import type { SafePlan } from '../../policy/planner.ts';
import type { LaneCache } from './lane-cache.ts';
import { heldLanes } from '../../policy/why-held.ts';

/**
 * After a plan runs out of time, lanes it already evaluated are excluded until one plan has covered the rest;
 * otherwise each plan would start with the same held lanes and never reach the lanes after them.
 */
export interface DeferredLanes {
  readonly without: (lanes: readonly Lane[]) => readonly Lane[];
  /** Notes a plan. Returns true if the next plan will see lanes this one did not reach. */
  readonly note: (planned: SafePlan, laneCache: Pick<LaneCache, 'find'>) => boolean;
}

export function createDeferredLanes(): DeferredLanes {
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
  };
}
