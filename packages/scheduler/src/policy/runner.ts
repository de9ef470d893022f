import type {
  Explanation,
  Hold,
  JobFacts,
  Lane,
  Policy,
  PolicyState,
  SavedPart,
  Snapshot,
  Watch,
  Written,
} from '@pgqueue/core';
import { isGuarded, isTrusted } from '@pgqueue/core/internal';
import { asError, runFree, runWithin } from './time-limit.ts';
import type { CleanPlan } from './validate-plan.ts';
import { cleanPlan, completePlan, refusePromise, stateOf } from './validate-plan.ts';
import type { Faults } from './faults.ts';
import type { Hung, Pauses } from './suspended-parts.ts';
import { createPauses } from './suspended-parts.ts';
import { keepLimits, withLimits } from './queue-limits.ts';

/**
 * Runs a policy's functions so that none throws or exceeds its time limit. The runner keeps no policy state:
 * callers pass it in and get it back.
 */
export interface Runner {
  /** Returns undefined if the policy failed, which is reported, or if it is suspended. */
  readonly plan: (snapshot: Snapshot, state: PolicyState) => CleanPlan | undefined;
  readonly written: (state: PolicyState, written: Written) => PolicyState | undefined;
  readonly explain: (asked: Asked) => Explanation | undefined;
  /** Restores the state; parts that can't be restored start over. */
  readonly restore: (saved: Readonly<Record<string, SavedPart>>) => PolicyState;
  /** Runs other code that may call into the policy. Returns undefined if it failed. */
  readonly call: <Value>(part: string, run: () => Value) => Value | undefined;
}

export interface Asked {
  readonly snapshot: Snapshot;
  readonly state: PolicyState;
  readonly job: JobFacts;
  readonly lane: Lane;
}

export interface RunnerOptions {
  readonly policy: Policy;
  readonly budgetMs: number;
  readonly faults: Faults;
  readonly hung: Hung;
  readonly clock: () => number;
  /** Name under which faults are reported. Default: the policy's name. */
  readonly name?: string;
  /**
   * True if the policy can be suspended as a whole. False for a fallback, since nothing would be left.
   * Default: true.
   */
  readonly suspends?: boolean;
  /** True if its plans are not written: see {@link Watch.aside}. Default: false. */
  readonly aside?: boolean;
  /** True for code of this project, which needs no time limit. */
  readonly trusted?: boolean;
}

/** Share of the time limit after which a plan ends with the jobs it has. */
const lateShare = 0.6;
/**
 * Two overruns within this time suspend the whole policy, in milliseconds. A single overrun only suspends the
 * part that hung.
 */
const againMs = 5_000;

/** State of a runner. */
interface RunnerState extends RunnerOptions {
  readonly policyName: string;
  readonly pauses: Pauses;
  overranAt: number;
}

export function createRunner(options: RunnerOptions): Runner {
  const { policy } = options;
  const running: RunnerState = {
    ...options,
    trusted: options.trusted === true || isTrusted(policy),
    policyName: options.name ?? policy.name,
    pauses: createPauses(options.clock),
    overranAt: -Infinity,
  };
  return {
    plan: (snapshot, state) => planWithin(running, snapshot, state),
    written: (state, written) => {
      if (policy.written === undefined) return state;
      return callWithin(running, 'written', () => stateOf(policy.written?.(state, written) as PolicyState));
    },
    explain: ({ snapshot, state, job, lane }) =>
      callWithin(running, 'explain', (watch) => {
        const explained = policy.explain?.(snapshot, state, job, lane, watch);
        return explained === undefined ? undefined : cleanExplanation(explained);
      }),
    restore: (saved) => restoreWithin(running, saved),
    call: (part, run) => callWithin(running, part, run),
  };
}

function planWithin(running: RunnerState, snapshot: Snapshot, state: PolicyState): CleanPlan | undefined {
  const { policy, faults, policyName, budgetMs } = running;
  let late = false;
  const made = callWithin(running, 'plan', (watch) => {
    const startedAt = running.clock();
    const isLate = (): boolean => {
      late = running.trusted !== true && running.clock() - startedAt > budgetMs * lateShare;
      return late;
    };
    const returned = policy.plan(snapshot, state, Object.assign(watch, { late: isLate }));
    if (!isGuarded(policy)) return { plan: cleanPlan(snapshot, returned), failed: [] };
    const failed = (returned.faults ?? []).map(({ part, error }) => ({ part, error: asError(error) }));
    return { plan: completePlan(returned), failed };
  });
  if (made === undefined) return undefined;
  const { plan, failed } = made;
  for (const fault of failed) faults.report({ policy: policyName, ...fault });
  if (late) {
    const error = new Error('it was slow: the plan went with the jobs that it had when time ran out');
    faults.report({ policy: policyName, part: 'plan', error });
  }
  if (isGuarded(policy)) return plan;
  try {
    return { ...plan, state: withLimits(plan.state, keepLimits(snapshot, plan.dispatch, state)) };
  } catch (error) {
    faults.report({ policy: policyName, part: 'plan', error: error as Error });
    return undefined;
  }
}

function callWithin<Value>(
  running: RunnerState,
  part: string,
  run: (watch: Watch) => Value,
): Value | undefined {
  const { pauses, hung, faults, policyName: policy, budgetMs } = running;
  if (pauses.active(part)) return undefined;
  const { aside = false } = running;
  const watch: Watch = { part: '', job: null, avoids: hung.avoids, late: () => false, aside };
  const ask = (): Value => run(watch);
  const ran = running.trusted === true ? runFree(ask) : runWithin(budgetMs, ask);
  if (ran.kind === 'done') return ran.value;
  if (ran.kind === 'overran') overran(running, part, watch);
  else faults.report({ policy, part, error: ran.error });
  return undefined;
}

/** Suspends the part that was being asked when time ran out, or the whole function if the part is unknown. */
function overran(running: RunnerState, part: string, watch: Watch): void {
  const { pauses, hung, faults, policyName: policy, budgetMs, clock, suspends = true } = running;
  const again = clock() - running.overranAt < againMs;
  running.overranAt = clock();
  const known = watch.part !== '';
  const partMs = known ? hung.add(watch.part, watch.job) : 0;
  const wholeMs = !known || (again && suspends) ? pauses.begin(part) : 0;
  // the charges for the written jobs are unknown
  if (part === 'written' && suspends) pauses.begin('plan');
  const about = watch.job === null ? '' : ` about job ${watch.job}`;
  const error = new Error(`did not come back within ${budgetMs} ms when it was asked${about}`);
  faults.report({
    policy,
    part: known ? watch.part : part,
    error,
    suspendedMs: Math.max(partMs, wholeMs),
  });
  if (known && wholeMs > 0) faults.report({ policy, part, error, suspendedMs: wholeMs });
}

function restoreWithin(running: RunnerState, saved: Readonly<Record<string, SavedPart>>): PolicyState {
  const { policy } = running;
  const restore = (parts: Readonly<Record<string, SavedPart>>, part: string): PolicyState | undefined =>
    callWithin(running, part, () => {
      const plain = Object.entries(parts).map(([name, { state }]) => [name, state] as const);
      return stateOf(policy.restore?.(parts) ?? { ...policy.initial, ...Object.fromEntries(plain) });
    });
  const whole = restore(saved, 'restore');
  if (whole !== undefined) return whole;
  if (!isGuarded(policy)) return policy.initial;
  // parts are independent: a part that fails to restore does not affect the others
  const state: Record<string, PolicyState[string]> = { ...policy.initial };
  for (const [name, part] of Object.entries(saved)) {
    if (!Object.hasOwn(policy.initial, name)) continue;
    const own = restore({ [name]: part }, name)?.[name];
    if (own !== undefined) state[name] = own;
  }
  return state;
}

/** Longest text in an explanation; the rest is cut off. */
const textMax = 2_000;

/** Validates and copies an explanation. @throws {Error} it is not one */
function cleanExplanation(explained: Explanation): Explanation {
  refusePromise(explained, 'explain');
  const { holds, ahead }: { readonly holds: unknown; readonly ahead: number | null } = explained;
  if (!Array.isArray(holds) || !holds.every(isHold)) {
    throw new Error('an explanation must have holds, each with gate and message');
  }
  return {
    holds: holds.map(({ gate, message, untilMs, paced }) => ({
      gate: gate.slice(0, textMax),
      message: message.slice(0, textMax),
      untilMs: Number.isFinite(untilMs) ? untilMs : null,
      ...(paced === true ? { paced } : {}),
    })),
    ahead: Number.isFinite(ahead) ? ahead : null,
  };
}

function isHold(hold: Partial<Hold> | null | undefined): hold is Hold {
  return typeof hold?.gate === 'string' && typeof hold.message === 'string';
}
