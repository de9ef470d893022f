import type {
  Explanation,
  Json,
  JobFacts,
  Lane,
  Needs,
  Observer,
  Plan,
  Policy,
  SavedPart,
  Snapshot,
  Written,
} from '@pgqueue/core';

export type Planned = Pick<Plan, 'dispatch' | 'held' | 'reasons' | 'stale' | 'deepen' | 'forecast'> & {
  readonly recall: readonly string[];
  readonly nextMs: number | null;
  readonly parts: Readonly<Record<string, Json>> | null;
};
export interface Planner {
  readonly plan: (snapshot: Snapshot) => Planned;
  readonly written: (result: Written) => void;
  readonly dropped: () => void;
  readonly explain: (snapshot: Snapshot, job: JobFacts, lane: Lane) => Explanation | null;
  readonly restore: (saved: Readonly<Record<string, SavedPart>>) => void;
  readonly needs: Needs;
}
export function createPlanner({ policy }: { readonly policy: Policy; readonly observe: Observer }): Planner {
  let state = policy.initial;
  let next = state;
  return {
    plan: (snapshot) => {
      const plan = policy.plan(snapshot, state);
      next = plan.state;
      return { recall: [], nextMs: null, ...plan, parts: plan.state };
    },
    written: (w) => {
      state = policy.written?.(next, w) ?? next;
    },
    dropped: () => {},
    explain: (s, j, l) => policy.explain?.(s, state, j, l) ?? null,
    restore: (saved) => {
      state = policy.restore?.(saved) ?? policy.initial;
    },
    needs: policy.needs ?? {},
  };
}
