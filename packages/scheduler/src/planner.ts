import type { Observer, Plan, Policy, Snapshot } from '@pgqueue/core';
import { planProblems, roundRobin } from '@pgqueue/core';

/** The user's policy, made safe: whatever it does, every tick has a plan that can be written. */
export interface Planner {
  readonly cursors: () => Readonly<Record<string, string>>;
  /** `state`: what is to be saved with the plan; null: nothing new. */
  readonly plan: (snapshot: Snapshot) => Pick<Plan<unknown>, 'dispatch' | 'held'> & {
    readonly state: unknown;
  };
  /** The plan and its state were written. */
  readonly saved: () => void;
  /** Begins from what the last leader saved; undefined: from the start. */
  readonly restore: (saved: unknown) => void;
}

/** A policy that fails at every tick is reported once a second. */
const reportEveryMs = 1_000;

export function createPlanner(policy: Policy, observe: Observer): Planner {
  const fallback: Policy = roundRobin();
  let fallbackState = fallback.initial;
  let state = policy.initial;
  let savedText: string | undefined;
  let stateText: string | undefined;
  let failing = false;
  let reportedAt = -Infinity;

  const failed = (error: unknown): void => {
    failing = true;
    if (performance.now() - reportedAt < reportEveryMs) return;
    reportedAt = performance.now();
    observe({ type: 'policy.failed', policy: policy.name, error });
  };

  const byPolicy = (snapshot: Snapshot): Plan<unknown> | undefined => {
    try {
      const plan = policy.plan(snapshot, state);
      const problems = planProblems(snapshot, plan);
      if (problems.length > 0) {
        throw new Error(`policy ${policy.name}: no usable plan: ${problems.join('; ')}`);
      }
      stateText = JSON.stringify(plan.state);
      state = plan.state;
      failing = false;
      return plan;
    } catch (error) {
      failed(error);
      return undefined;
    }
  };

  return {
    cursors: () => {
      try {
        if (!failing) return policy.cursors(state);
      } catch (error) {
        failed(error);
      }
      return fallback.cursors(fallbackState);
    },
    plan: (snapshot) => {
      const plan = byPolicy(snapshot);
      if (plan !== undefined) return { ...plan, state: stateText === savedText ? null : plan.state };
      const instead = fallback.plan(snapshot, fallbackState);
      fallbackState = instead.state;
      return { ...instead, state: null };
    },
    saved: () => {
      savedText = stateText;
    },
    restore: (saved) => {
      [state, savedText, stateText] = [policy.initial, undefined, undefined];
      if (saved === undefined) return;
      try {
        state = policy.restore === undefined ? saved : policy.restore(saved);
      } catch (error) {
        failed(error);
      }
    },
  };
}
