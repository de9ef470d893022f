import type {
  Candidate,
  Lane,
  Plan,
  Policy,
  PolicyFault,
  PolicyState,
  Snapshot,
  Written,
} from '@pgqueue/core';
import { openGates, policy as compose, standardGates, turns } from '@pgqueue/core';
import { isGuarded, planProblems } from '@pgqueue/core/internal';

/** A failure in a policy, and how often it happened. */
export interface FaultCount {
  /** Name of the gate or order. The policy's own name if it is not composed. */
  readonly part: string;
  /**
   * Message of the first such failure. Messages that differ only in the job or in numbers count as the same.
   */
  readonly message: string;
  /** Number of failures of this kind. */
  readonly count: number;
  /**
   * Reaction to the failure. For a gate: its jobs were `held`, or it was `ignored`. For an order: lanes took
   * `turns`. For a whole policy: the plan was `replaced` by its fallback or by turns within the limits, or
   * its state was `kept`.
   */
  readonly instead: PolicyFault['instead'] | 'replaced' | 'kept';
}

/**
 * Calls a policy as the scheduler does. It keeps the state back until a plan is written, checks the limits,
 * and falls back to another plan if the policy fails.
 */
export interface Planning {
  readonly plan: (snapshot: Snapshot) => Plan;
  readonly written: (written: Written) => void;
  /** Drops the last plan, of which nothing was written. The state stays as it was. */
  readonly dropped: () => void;
  readonly faults: () => readonly FaultCount[];
}

/** State of the policy, and of the standard gates beside a policy that does not ask them itself. */
interface States {
  readonly own: PolicyState;
  readonly limits: PolicyState;
}

const limits = standardGates();
const standard = compose({ name: 'standard', order: turns() });
/** Most distinct faults that are counted. All further ones are counted as one. */
const faultsMax = 50;
const beyond = { part: 'others', message: 'further faults, of other kinds' };

export function startPlanning(policy: Policy): Planning {
  const faults = new Map<string, FaultCount>();
  const guarded = isGuarded(policy);
  let states: States = { own: policy.initial, limits: standard.initial };
  let pending: { readonly states: States; readonly byPolicy: boolean } | undefined;

  const blame = (part: string, error: unknown, instead: FaultCount['instead']): void => {
    const message = error instanceof Error ? error.message : String(error);
    const name = JSON.stringify([part, instead, kindOf(message)]);
    const told = faults.has(name) || faults.size < faultsMax;
    const key = told ? name : beyond.part;
    const known = faults.get(key) ?? { ...(told ? { part, message } : beyond), instead, count: 0 };
    faults.set(key, { ...known, count: known.count + 1 });
  };
  const byPolicy = (snapshot: Snapshot): Plan | undefined => {
    try {
      const plan = policy.plan(snapshot, states.own);
      for (const { part, error, instead: done } of plan.faults ?? []) blame(part, error, done ?? 'ignored');
      const kept = guarded ? states.limits : keepLimits(snapshot, plan, states.limits);
      pending = { states: { own: plan.state, limits: kept }, byPolicy: true };
      return plan;
    } catch (error) {
      blame(policy.name, error, 'replaced');
      return undefined;
    }
  };
  const instead = (snapshot: Snapshot): Plan => {
    const state = guarded ? states.own : states.limits;
    const plan = (guarded ? (policy.fallback ?? standard) : standard).plan(snapshot, state);
    const next = guarded ? { ...states, own: plan.state } : { ...states, limits: plan.state };
    pending = { states: next, byPolicy: false };
    return plan;
  };
  return {
    plan: (snapshot) => byPolicy(snapshot) ?? instead(snapshot),
    written: (written) => {
      if (pending === undefined) return;
      const { own, limits: kept } = pending.states;
      states = { own, limits: guarded ? kept : (standard.written?.(kept, written) ?? kept) };
      try {
        if (guarded || pending.byPolicy) states = { ...states, own: policy.written?.(own, written) ?? own };
      } catch (error) {
        blame(policy.name, error, 'kept');
      }
      pending = undefined;
    },
    dropped: () => {
      pending = undefined;
    },
    faults: () => [...faults.values()],
  };
}

/** Returns the same text for messages that differ only in the job or in numbers. */
function kindOf(message: string): string {
  return message
    .slice(0, 1_000)
    .replaceAll(/\bjob [^\s:;,]+/g, 'job …')
    .replaceAll(/\bshare [^\s:;,]+/g, 'share …')
    .replaceAll(/\d+(\.\d+)?/g, '0');
}

/**
 * Asks the standard gates about each job of a plan, for a policy that is not composed and need not ask them
 * itself. Returns the gates' state after the plan.
 * @throws {Error} if the plan can't be written, or exceeds a limit
 */
function keepLimits(snapshot: Snapshot, plan: Plan, state: PolicyState): PolicyState {
  const problems = planProblems(snapshot, plan);
  if (problems.length > 0) throw new Error(problems.join('; '));
  const open = openGates(limits, snapshot, { state, faults: [] });
  const planned = new Set(plan.dispatch.map(({ id }) => id));
  const places = new Map<string, readonly [Candidate, Lane]>();
  for (const lane of snapshot.lanes) {
    for (const job of lane.jobs) if (planned.has(job.id)) places.set(job.id, [job, lane]);
  }
  for (const { id, bundle } of plan.dispatch) {
    const [job, lane] = places.get(id) ?? [];
    if (job === undefined || lane === undefined) throw new Error(`job ${id} is no candidate`);
    const member = bundle !== undefined && bundle !== id;
    const { verdict, gate } = open.judge(job, lane, member);
    if (verdict !== 'admit') throw new Error(`job ${id} is beyond a limit: ${gate}`);
    open.take(job, lane, member);
  }
  return { ...state, ...open.states() };
}
