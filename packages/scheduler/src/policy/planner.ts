import type {
  Explanation,
  Json,
  Needs,
  Observer,
  Policy,
  PolicyState,
  Prepared,
  SavedPart,
  Snapshot,
  Written,
} from '@pgqueue/core';
import { isGuarded, policy as compose, turns } from '@pgqueue/core';
import type { CleanPlan } from './validate-plan.ts';
import { completePlan } from './validate-plan.ts';
import type { Fault } from './faults.ts';
import { createFaults } from './faults.ts';
import { freezeSnapshot } from '../freeze.ts';
import { createHung } from './suspended-parts.ts';
import { jsonProblem } from './plain-json.ts';
import { limitNames, withLimits } from './queue-limits.ts';
import { createPreparing } from './prepare.ts';
import type { Asked, Runner, RunnerOptions } from './runner.ts';
import { createRunner } from './runner.ts';
import type { Parts } from './state-writer.ts';
import { createSaving } from './state-writer.ts';
import type { ShadowReport } from './shadow.ts';
import { createShadow } from './shadow.ts';

/** The user's policy made safe: whatever it does, each tick has a plan that can be written, and that keeps to the limits. */
export interface Planner {
  /**
   * Makes the snapshot read-only. Each plan is followed by {@link Planner.written} or {@link Planner.dropped}; the next plan drops
   * one that was not: attempts that ended must be in the next snapshot again then.
   */
  readonly plan: (snapshot: Snapshot) => SafePlan;
  /** The plan was written, with its parts; or there was nothing of it to write, and it counts (`ids`: none). */
  readonly written: (written: Written) => void;
  /** The plan was not written: the state goes back to what it was before. */
  readonly dropped: () => void;
  /** Null: nothing can be said, because the policy failed. */
  readonly explain: (snapshot: Snapshot, job: Asked['job'], lane: Asked['lane']) => Explanation | null;
  /** A reign begins: `saved`, the parts of all policies. */
  readonly restore: (saved: Readonly<Record<string, SavedPart>>) => void;
  readonly needs: Needs;
  /** What failed within the last minute, or is left out because it did not come back. */
  readonly faults: () => readonly Fault[];
  /** How the shadow policy's plans differ; null: there is none. */
  readonly shadow: () => ShadowReport | null;
  /** Snapshot.prepared. */
  readonly prepared: (nowMs: number) => Readonly<Record<string, Prepared>>;
  /** Fetches what policies prepare, from here to {@link Planner.stop}: while this scheduler leads. */
  readonly start: () => void;
  readonly stop: () => Promise<void>;
}

export interface SafePlan extends Omit<CleanPlan, 'state'> {
  /**
   * What must be saved with the batch, by part; null: nothing. Where nothing is dispatched and no attempts ended, they are left over from
   * batches before, and want to be saved alone.
   */
  readonly parts: Readonly<Record<string, Json>> | null;
}

export interface PlannerOptions {
  readonly policy: Policy;
  readonly shadow?: Policy | undefined;
  readonly budgetMs: number;
  readonly observe: Observer;
  /** Something new was prepared: what waited for it may go. */
  readonly onPrepared?: () => void;
  /** Monotonic milliseconds. Default: performance.now. */
  readonly clock?: () => number;
}

/** The policies that a planner works with. */
interface Planning {
  readonly live: Runner;
  /** Plans where `live` fails: its own limits, FIFO per key. */
  readonly instead: Runner;
  /** The limits of queue_config alone: our own code. */
  readonly standard: Policy;
  /** Whether `live` asks the standard gates itself. */
  readonly guarded: boolean;
}

/** What waits to hear whether it was written. */
interface Pending {
  readonly snapshot: Snapshot;
  readonly plan: CleanPlan;
  readonly parts: Parts | null;
  readonly busy: boolean;
  readonly byPolicy: boolean;
}

export function createPlanner(options: PlannerOptions): Planner {
  const { policy, budgetMs, observe, onPrepared, clock = (): number => performance.now() } = options;
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
  const preparing = createPreparing({ ...running, ...(onPrepared === undefined ? {} : { onPrepared }) });
  const savable = (part: string, value: Json): boolean => canBeSaved(live, part, value);
  const saving = createSaving({ softParts: policy.softParts ?? [], clock, savable });
  let state = policy.initial;
  let pending: Pending | undefined;
  let lanes: Snapshot['lanes'] = [];

  const end = (written: Written | null): void => {
    if (pending !== undefined) shadow?.see(pending.snapshot, pending.plan, written);
    pending = undefined;
  };
  return {
    plan: (snapshot) => {
      faults.now(snapshot.nowMs);
      freezeSnapshot(snapshot, lanes);
      ({ lanes } = snapshot);
      const byPolicy = live.plan(snapshot, state);
      const plan = byPolicy ?? planning.instead.plan(snapshot, state) ?? nothing(state);
      const busy = plan.dispatch.length > 0 || snapshot.settled.length > 0;
      const parts = plan.recall.length > 0 ? null : saving.due(plan.state, busy);
      pending = { snapshot, plan, parts, busy, byPolicy: byPolicy !== undefined };
      const { state: _, ...safe } = plan;
      return { ...safe, parts };
    },
    written: (written) => {
      if (pending === undefined) return;
      // a part that a plan left as it was has nothing to correct
      const same = planning.guarded && isSame(state, pending.plan.state);
      state = same ? pending.plan.state : settle(planning, pending, written);
      saving.saved(pending.parts, state, pending.busy);
      end(written);
    },
    dropped: () => end(null),
    explain: (snapshot, job, lane) =>
      explainBy(planning, { snapshot: freezeSnapshot(snapshot), state, job, lane }),
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

/** What stands in has so long at least: after it there is only an empty plan. */
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
    standard,
    guarded: isGuarded(policy),
  };
}

/** The last resort: for a limit of the user's that fails as a whole. */
function nothing(state: PolicyState): CleanPlan {
  return completePlan({ dispatch: [], held: {}, state });
}

function settle(
  { live, instead, standard, guarded }: Planning,
  { plan: { state }, byPolicy }: Pending,
  written: Written,
): PolicyState {
  const settled = byPolicy ? live.written(state, written) : undefined;
  if (guarded) {
    const limited = settled ?? instead.written(state, written);
    if (limited !== undefined) return limited;
  }
  return withLimits(settled ?? state, standard.written?.(state, written) ?? state);
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

function explainBy({ live, instead, guarded }: Planning, asked: Asked): Explanation | null {
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
