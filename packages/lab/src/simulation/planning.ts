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
import { isGuarded, openGates, planProblems, policy as compose, standardGates, turns } from '@pgqueue/core';

/** What failed in a policy, and how often. */
export interface FaultCount {
  /** The gate or order; the policy itself where it is written as a whole. */
  readonly part: string;
  /** The first of its kind: messages that differ in the job, or in numbers, are counted as one. */
  readonly message: string;
  /** Plans in which it failed. */
  readonly count: number;
  /**
   * What was done about it. Of a gate: its jobs were `held`, or it was `ignored`. Of an order: lanes took `turns`. Of a whole policy: the
   * plan was `replaced` by FIFO per key within the limits, or its state was `kept` as it was.
   */
  readonly instead: PolicyFault['instead'] | 'replaced' | 'kept';
}

/** Calls a policy as the scheduler does: state kept back until a plan is written, limits checked, FIFO per key where it fails. */
export interface Planning {
  readonly plan: (snapshot: Snapshot) => Plan;
  readonly written: (written: Written) => void;
  /** Of the plan nothing was written: the state stays as it was. */
  readonly dropped: () => void;
  readonly faults: () => readonly FaultCount[];
}

/** The state of the policy, and of the standard gates beside one that does not ask them itself. */
interface States {
  readonly own: PolicyState;
  readonly limits: PolicyState;
}

const limits = standardGates();
const standard = compose({ name: 'standard', order: turns() });
/** Different faults that are told apart at most; what comes beyond is counted as one. */
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

/** The same for messages that differ in the job that they are about, or in numbers. */
function kindOf(message: string): string {
  return message
    .slice(0, 1_000)
    .replaceAll(/\bjob [^\s:;,]+/g, 'job …')
    .replaceAll(/\bshare [^\s:;,]+/g, 'share …')
    .replaceAll(/\d+(\.\d+)?/g, '0');
}

/**
 * A policy that is written as a whole need not ask the standard gates: they are asked about each job of its plan.
 * Returns their state after it. @throws {Error} the plan can't be written, or goes beyond a limit
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
