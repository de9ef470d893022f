import type {
  Explanation,
  Hold,
  Json,
  Leading,
  Needs,
  Observer,
  Policy,
  PolicyState,
  Prepared,
  SavedPart,
  Snapshot,
  Written,
} from '@pgqueue/core';
import { policy as compose, own, turns } from '@pgqueue/core';
import { isGuarded, isTrusted } from '@pgqueue/core/internal';
import type { ReportedFault } from '@pgqueue/postgres';
import type { CleanPlan } from './validate-plan.ts';
import { completePlan } from './validate-plan.ts';
import { createFaults } from './faults.ts';
import { freezeSnapshot } from '../freeze.ts';
import { createHung } from './suspended-parts.ts';
import { jsonProblem } from './plain-json.ts';
import { limitNames, withLimits } from './queue-limits.ts';
import { createPreparing } from './prepare.ts';
import type { Asked, Runner, RunnerOptions } from './runner.ts';
import { createRunner } from './runner.ts';
import type { SavedParts } from './state-writer.ts';
import { createSaving } from './state-writer.ts';
import type { ShadowReport } from './shadow.ts';
import { createShadow } from './shadow.ts';

/**
 * Wraps the user's policy. Whatever the policy does, each tick gets a plan that can be written and keeps to
 * the limits.
 */
export interface Planner {
  /**
   * Plans. Freezes the snapshot first if the policy has functions of users. Each plan must be followed by
   * {@link Planner.written} or {@link Planner.dropped}; otherwise the next plan drops it. The ended attempts of
   * a dropped plan must be in the next snapshot again.
   */
  readonly plan: (snapshot: Snapshot) => SafePlan;
  /**
   * Call when the plan and its parts were written, or when it had nothing to write but its state counts
   * (`ids` is empty then).
   */
  readonly written: (written: Written) => void;
  /** Call when the plan was not written: keeps the state from before the plan. */
  readonly dropped: () => void;
  /**
   * Returns a function that plans on other snapshots, from the present state and then from that of its own
   * last plan. Its plans are not written, and change neither the state nor what is known of the policy's
   * failures. It returns undefined if the policy fails.
   */
  readonly aside: () => (snapshot: Snapshot) => CleanPlan | undefined;
  /** Explains one job; null: the policy failed. */
  readonly explain: (snapshot: Snapshot, job: Asked['job'], lane: Asked['lane']) => Explanation | null;
  /** Starts a term from the saved parts of all policies. */
  readonly restore: (saved: Readonly<Record<string, SavedPart>>) => void;
  readonly needs: Needs;
  /** Failures of the last minute, and parts left out because they ran out of time. */
  readonly faults: () => readonly ReportedFault[];
  /** Differences of the shadow policy's plans; null: there is no shadow. */
  readonly shadow: () => ShadowReport | null;
  /** Returns the value for `Snapshot.prepared`. */
  readonly prepared: (nowMs: number) => Readonly<Record<string, Prepared>>;
  /**
   * Starts fetching what policies prepare. Fetching runs until {@link Planner.stop}, while this scheduler
   * leads.
   */
  readonly start: () => void;
  readonly stop: () => Promise<void>;
}

export interface SafePlan extends Omit<CleanPlan, 'state'> {
  /**
   * Parts of the state to save with the batch; null: none. If the plan dispatches nothing and no attempts
   * ended, the parts are left over from earlier batches and should be saved on their own.
   */
  readonly parts: Readonly<Record<string, Json>> | null;
}

export interface PlannerOptions {
  readonly policy: Policy;
  readonly shadow?: Policy | undefined;
  readonly budgetMs: number;
  readonly observe: Observer;
  /** Called when a new value was fetched, since jobs may have waited for it. */
  readonly onPrepared?: () => void;
  /** Returns the term of this scheduler, as preparations are told it. Default: it has none. */
  readonly term?: () => Omit<Leading, 'state'> | undefined;
  /** Monotonic clock in milliseconds. Default: performance.now. */
  readonly clock?: () => number;
}

/** The policies of a planner. */
interface Planning {
  readonly live: Runner;
  /** Fallback that plans if `live` fails: its own limits, FIFO per key. */
  readonly instead: Runner;
  /** The same policy as `live`, for plans that are not written. */
  readonly aside: Runner;
  /** The limits of queue_config alone, as a trusted policy. */
  readonly standard: Policy;
  /** True if `live` applies the standard gates itself. */
  readonly guarded: boolean;
  /** True if neither `live` nor `instead` made the last plan. */
  failed: boolean;
}

/** A plan waiting for `written` or `dropped`. */
interface Pending {
  readonly snapshot: Snapshot;
  readonly plan: CleanPlan;
  readonly parts: SavedParts | null;
  readonly busy: boolean;
  readonly byPolicy: boolean;
}

/** Reports whether exact parts are to be saved with a plan. Buckets of keys that move are emptied: a later term must know. */
function isBusy(plan: CleanPlan, { settled, moving }: Snapshot): boolean {
  return plan.dispatch.length > 0 || settled.length > 0 || moving !== undefined;
}

export function createPlanner(options: PlannerOptions): Planner {
  const { policy, budgetMs, observe, onPrepared, clock = () => performance.now() } = options;
  const faults = createFaults(observe, clock);
  const running = { policy, budgetMs, faults, hung: createHung(clock), clock };
  const planning = startPlanning(running);
  const { live } = planning;
  const shadow = createShadow({
    ...running,
    policy: options.shadow,
    hung: createHung(clock),
    live: policy.name,
    observe,
  });
  // only functions of users could change what the scheduler goes on with
  const freeze: typeof freezeSnapshot = isTrusted(policy) ? (snapshot) => snapshot : freezeSnapshot;
  const savable = (part: string, value: Json): boolean => canBeSaved(live, part, value);
  const saving = createSaving({ softParts: policy.softParts ?? [], clock, savable });
  let state = policy.initial;
  let pending: Pending | undefined;
  let lanes: Snapshot['lanes'] = [];
  const leading = (part: string): Leading | undefined => leadingBy(options, state, part);
  const preparing = createPreparing({
    ...running,
    leading,
    ...(onPrepared === undefined ? {} : { onPrepared }),
  });

  const end = (written: Written | null): void => {
    if (pending !== undefined) shadow?.see(pending.snapshot, pending.plan, written);
    pending = undefined;
  };
  return {
    plan: (snapshot) => {
      faults.now(snapshot.nowMs);
      freeze(snapshot, lanes);
      ({ lanes } = snapshot);
      const { plan, byPolicy } = planBy(planning, snapshot, state);
      const busy = isBusy(plan, snapshot);
      const parts = plan.recall.length > 0 ? null : saving.due(plan.state, busy);
      pending = { snapshot, plan, parts, busy, byPolicy };
      const { state: _, ...safe } = plan;
      return { ...safe, parts };
    },
    written: (written) => {
      if (pending === undefined) return;
      // if the plan left every part as it was, there is nothing to correct
      const same = planning.guarded && isSame(state, pending.plan.state);
      state = same ? pending.plan.state : stateAfterWrite(planning, pending, written);
      saving.saved(pending.parts, state, pending.busy);
      end(written);
    },
    dropped: () => end(null),
    aside: () => {
      let from = state;
      return (snapshot) => {
        const plan = planning.aside.plan(freeze(snapshot), from);
        if (plan !== undefined) from = plan.state;
        return plan;
      };
    },
    explain: (snapshot, job, lane) => explainBy(planning, { snapshot: freeze(snapshot), state, job, lane }),
    restore: (saved) => {
      pending = undefined;
      state = restoreBy(planning, saved);
      saving.begin(state);
      shadow?.restart();
    },
    needs: needsOf([policy, planning.standard, options.shadow]),
    faults: faults.current,
    shadow: () => shadow?.report() ?? null,
    prepared: preparing.prepared,
    start: () => {
      preparing.start();
      shadow?.start();
    },
    stop: async () => {
      await Promise.all([preparing.stop(), shadow?.stop()]);
    },
  };
}

function leadingBy({ term }: PlannerOptions, state: PolicyState, part: string): Leading | undefined {
  const now = term?.();
  return now === undefined ? undefined : { ...now, state: own(state, part) };
}

/**
 * Shortest time limit of the fallback, in milliseconds. If the fallback fails, too, only an empty plan is
 * left.
 */
const fallbackMs = 250;

function startPlanning(running: RunnerOptions): Planning {
  const { policy } = running;
  const standard = compose({ name: 'standard', order: turns() });
  return {
    live: createRunner(running),
    instead: createRunner({
      ...running,
      policy: policy.fallback ?? standard,
      trusted: policy.fallback === undefined,
      budgetMs: Math.max(fallbackMs, running.budgetMs),
      name: policy.name,
      suspends: false,
    }),
    aside: asideOf(running),
    standard,
    guarded: isGuarded(policy),
    failed: false,
  };
}

/** Makes the runner of plans beside the ticks. It reports no faults, and leaves out the parts that hung in either. */
function asideOf(running: RunnerOptions): Runner {
  const { hung, faults, clock } = running;
  const here = createHung(clock);
  return createRunner({
    ...running,
    faults: { ...faults, report: () => {} },
    hung: { add: here.add, avoids: (part, job) => hung.avoids(part, job) || here.avoids(part, job) },
    aside: true,
  });
}

/** Tells why a job waits after a plan of {@link nothing}, whatever else holds it. */
const noPlan: Hold = {
  gate: 'policy',
  message: 'the last plan failed, and so did its fallback: see the status of the scheduler',
  untilMs: null,
};

/** Makes a plan, by the policy, or by its fallback. */
function planBy(
  planning: Planning,
  snapshot: Snapshot,
  state: PolicyState,
): Pick<Pending, 'plan' | 'byPolicy'> {
  const byPolicy = planning.live.plan(snapshot, state);
  const plan = byPolicy ?? planning.instead.plan(snapshot, state);
  planning.failed = plan === undefined;
  return { plan: plan ?? nothing(state), byPolicy: byPolicy !== undefined };
}

/** Returns an empty plan, for the case that both the policy and its fallback fail. */
function nothing(state: PolicyState): CleanPlan {
  return completePlan({ dispatch: [], held: {}, state });
}

function stateAfterWrite(
  { live, instead, standard, guarded }: Planning,
  { plan: { state }, byPolicy }: Pending,
  written: Written,
): PolicyState {
  const after = byPolicy ? live.written(state, written) : undefined;
  if (guarded) {
    const limited = after ?? instead.written(state, written);
    if (limited !== undefined) return limited;
  }
  return withLimits(after ?? state, standard.written?.(state, written) ?? state);
}

function isSame(before: PolicyState, after: PolicyState): boolean {
  return Object.entries(after).every(([part, value]) => before[part] === value);
}

function restoreBy(
  { live, standard, guarded }: Planning,
  saved: Readonly<Record<string, SavedPart>>,
): PolicyState {
  const state = live.restore(saved);
  return guarded ? state : withLimits(state, standard.restore?.(saved) ?? {});
}

function explainBy(planning: Planning, asked: Asked): Explanation | null {
  const explained = rulesBy(planning, asked);
  return planning.failed && explained !== null
    ? { ...explained, holds: [noPlan, ...explained.holds] }
    : explained;
}

function rulesBy({ live, instead, guarded }: Planning, asked: Asked): Explanation | null {
  const own = live.explain(asked);
  if (guarded && own !== undefined) return own;
  const limits = instead.explain(asked);
  if (limits === undefined || own === undefined) return limits ?? null;
  const said = new Set(limits.holds.map(({ gate }) => gate));
  return { holds: [...limits.holds, ...own.holds.filter(({ gate }) => !said.has(gate))], ahead: own.ahead };
}

function canBeSaved(live: Runner, part: string, value: Json): boolean {
  if (limitNames.has(part)) return true;
  const checked = live.call(part, () => {
    const problem = jsonProblem(value);
    if (problem !== undefined) throw new Error(`its state can't be saved: ${problem}`);
    return true;
  });
  return checked === true;
}

function needsOf(policies: readonly (Policy | undefined)[]): Needs {
  return {
    settlements: policies.some((policy) => policy?.needs?.settlements === true),
    health: policies.some((policy) => policy?.needs?.health === true),
  };
}
