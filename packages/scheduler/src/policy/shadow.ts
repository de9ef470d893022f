import type { Lane, Observer, Policy, PolicyState, Snapshot, Written } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { CleanPlan } from './validate-plan.ts';
import type { Faults } from './faults.ts';
import { asIfRead } from './as-if-read.ts';
import { createPreparing } from './prepare.ts';
import type { RunnerOptions } from './runner.ts';
import { createRunner } from './runner.ts';
import { whyHeld } from './why-held.ts';
import { freezeSnapshot } from '../freeze.ts';

/** Differences between the shadow policy's plans and the live ones since the term began. Plain JSON. */
export interface ShadowReport {
  readonly policy: string;
  /** Snapshots that both policies planned. */
  readonly snapshots: number;
  /**
   * `skipped`: snapshots not given to the shadow because its time was used up. `failed`: snapshots on which
   * the shadow, or one of its gates or its order, failed. If a plan came out nevertheless, as it would have
   * live, the snapshot also counts in `snapshots`.
   */
  readonly skipped: number;
  readonly failed: number;
  /**
   * Jobs dispatched by both plans, over all snapshots. A job that keeps waiting counts again in the next
   * snapshot.
   */
  readonly both: number;
  /**
   * Jobs that only the live policy dispatched, by the shadow's reason not to: a gate, or `later` if others
   * went first.
   */
  readonly liveOnly: Readonly<Record<string, number>>;
  /** Jobs that only the shadow would have dispatched, by the live policy's reason not to. */
  readonly shadowOnly: Readonly<Record<string, number>>;
  /**
   * Average distance between a job's positions in the two batches, over the jobs in both; null: there was
   * none.
   */
  readonly rankDifference: number | null;
  /** Keys whose shares of all dispatched jobs differ most. */
  readonly keys: readonly KeyShare[];
  /** Average duration of the shadow's plans, in milliseconds. */
  readonly meanMs: number | null;
}

/** A key's share of all jobs dispatched by either policy, 0 to 1. */
export interface KeyShare {
  readonly queue: string;
  readonly key: string;
  readonly live: number;
  readonly shadow: number;
}

/**
 * A second policy that plans on the live policy's snapshots and dispatches nothing. Nothing it does reaches
 * the live plan. No tick reads lanes for its sake: its snapshots show them all as just read, except those that
 * the live plan asks for, which are compared in the next snapshot.
 */
export interface Shadow {
  /**
   * Call after the live plan was made and written (null: not written), so that no job waits for the shadow.
   * The shadow is told `written`: a job it chose counts as written only if the live policy dispatched it,
   * too.
   */
  readonly see: (snapshot: Snapshot, live: CleanPlan, written: Written | null) => void;
  readonly report: () => ShadowReport;
  /** Starts a term: resets the counts and the state. */
  readonly restart: () => void;
  readonly start: () => void;
  readonly stop: () => Promise<void>;
}

export interface ShadowOptions extends RunnerOptions {
  /** Name of the live policy. */
  readonly live: string;
  readonly observe: Observer;
}

/**
 * Share of the elapsed time that the shadow may use, since it plans between ticks, and the most time it can
 * save up.
 */
const timeShare = 0.1;
const savedUpMs = 100;
const reportEveryMs = 1_000;
/** Most keys counted individually; further keys are left out of the shares. */
const keysMax = 1_000;
const keysShown = 10;

interface Counts {
  /** Snapshots given to the shadow. */
  asked: number;
  snapshots: number;
  skipped: number;
  failed: number;
  both: number;
  ranks: number;
  tookMs: number;
  readonly liveOnly: Map<string, number>;
  readonly shadowOnly: Map<string, number>;
  readonly keys: Map<string, { readonly queue: string; readonly key: string; live: number; shadow: number }>;
}

export function createShadow(
  options: Omit<ShadowOptions, 'policy'> & { readonly policy: Policy | undefined },
): Shadow | undefined {
  const { policy } = options;
  return policy === undefined ? undefined : runShadow({ ...options, policy });
}

function runShadow(options: ShadowOptions): Shadow {
  const { policy, clock, observe, live } = options;
  const name = `shadow ${policy.name}`;
  // a failure within a plan is reported here, and the plan continues without the failed part
  let failing = false;
  const faults: Faults = {
    ...options.faults,
    report: (fault) => {
      failing = true;
      options.faults.report(fault);
    },
  };
  const runner = createRunner({ ...options, faults, name });
  const preparing = createPreparing({ ...options, name });
  const time = createAllowance(clock);
  let counts = noCounts();
  let state: PolicyState = policy.initial;
  let reportedAt = clock();
  let told = 0;

  const tell = (): void => {
    const { snapshots, skipped, both, liveOnly, shadowOnly } = counts;
    if (snapshots === told || clock() - reportedAt < reportEveryMs) return;
    [told, reportedAt] = [snapshots, clock()];
    observe({
      type: 'shadow.compared',
      policy: live,
      shadow: policy.name,
      snapshots,
      skipped,
      both,
      liveOnly: sum(liveOnly),
      shadowOnly: sum(shadowOnly),
    });
  };
  return {
    see: (snapshot, plan, written) => {
      tell();
      // a recall dispatches nothing; the next plan does
      if (plan.recall.length > 0 || snapshot.lanes.length === 0) return;
      if (!time.left()) {
        counts.skipped += 1;
        return;
      }
      failing = false;
      counts.asked += 1;
      const startedAt = clock();
      const prepared = preparing.prepared(snapshot.nowMs);
      const unread = new Set(plan.stale);
      const lanes = asIfRead(snapshot, unread);
      const other = runner.plan(freezeSnapshot({ ...snapshot, lanes, prepared }), state);
      counts.tookMs += clock() - startedAt;
      if (other !== undefined) {
        const { lanes: liveLanes } = snapshot;
        compare(counts, { live: plan, shadow: other, liveLanes, shadowLanes: lanes, unread });
        if (written !== null) state = runner.written(other.state, written) ?? other.state;
      }
      if (failing || other === undefined) counts.failed += 1;
      time.spend(clock() - startedAt);
    },
    report: () => toReport(policy.name, counts),
    restart: () => {
      [counts, state, told] = [noCounts(), policy.initial, 0];
    },
    start: preparing.start,
    stop: preparing.stop,
  };
}

interface Allowance {
  readonly left: () => boolean;
  readonly spend: (ms: number) => void;
}

/** Creates a time budget that grows with the clock. A long plan is paid off before the next. */
function createAllowance(clock: () => number): Allowance {
  let ms = savedUpMs;
  let at = clock();
  return {
    left: () => {
      const now = clock();
      ms = Math.min(savedUpMs, ms + (now - at) * timeShare);
      at = now;
      return ms > 0;
    },
    spend: (spent) => {
      ms -= spent;
    },
  };
}

interface Two {
  readonly live: CleanPlan;
  readonly shadow: CleanPlan;
  readonly liveLanes: Snapshot['lanes'];
  /** Lanes as the shadow saw them, in the same order. */
  readonly shadowLanes: Snapshot['lanes'];
  /** Lanes that the live plan did not judge, by name: it judges them in the next snapshot. */
  readonly unread: ReadonlySet<string>;
}

function compare(counts: Counts, { live, shadow, liveLanes, shadowLanes, unread }: Two): void {
  counts.snapshots += 1;
  const ranks = new Map(live.dispatch.map(({ id }, rank) => [id, rank] as const));
  const others = new Map(shadow.dispatch.map(({ id }, rank) => [id, rank] as const));
  if (ranks.size === 0 && others.size === 0) return;
  const [why, whyShadow] = [whyHeld(live.holds), whyHeld(shadow.holds)];
  for (const [slot, lane] of liveLanes.entries()) {
    if (unread.size > 0 && unread.has(laneName(lane))) continue;
    const shadowLane = shadowLanes[slot] ?? lane;
    for (const [place, job] of lane.jobs.entries()) {
      const { id } = job;
      const [rank, other] = [ranks.get(id), others.get(id)];
      if (rank === undefined && other === undefined) continue;
      const share = shareOf(counts, lane);
      if (rank !== undefined && share !== undefined) share.live += 1;
      if (other !== undefined && share !== undefined) share.shadow += 1;
      if (rank === undefined) count(counts.shadowOnly, why(lane, job, place) ?? later);
      else if (other === undefined) count(counts.liveOnly, whyShadow(shadowLane, job, place) ?? later);
      else {
        counts.both += 1;
        counts.ranks += Math.abs(rank - other);
      }
    }
  }
}

/** Reason of jobs that waited because others went first. */
const later = 'later';

function shareOf({ keys }: Counts, { queue, key }: Lane): { live: number; shadow: number } | undefined {
  const name = laneName({ queue, key });
  const known = keys.get(name);
  if (known !== undefined || keys.size >= keysMax) return known;
  const share = { queue, key, live: 0, shadow: 0 };
  keys.set(name, share);
  return share;
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((all, one) => all + one, 0);
}

function noCounts(): Counts {
  return {
    asked: 0,
    snapshots: 0,
    skipped: 0,
    failed: 0,
    both: 0,
    ranks: 0,
    tookMs: 0,
    liveOnly: new Map(),
    shadowOnly: new Map(),
    keys: new Map(),
  };
}

function toReport(policy: string, counts: Counts): ShadowReport {
  const { asked, snapshots, skipped, failed, both, ranks, tookMs, liveOnly, shadowOnly, keys } = counts;
  const all = { live: both + sum(liveOnly), shadow: both + sum(shadowOnly) };
  const shares = [...keys.values()].map(({ queue, key, live, shadow }): KeyShare => ({
    queue,
    key,
    live: live / Math.max(1, all.live),
    shadow: shadow / Math.max(1, all.shadow),
  }));
  const apart = ({ live, shadow }: KeyShare): number => Math.abs(live - shadow);
  return {
    policy,
    snapshots,
    skipped,
    failed,
    both,
    liveOnly: Object.fromEntries(liveOnly),
    shadowOnly: Object.fromEntries(shadowOnly),
    rankDifference: both === 0 ? null : ranks / both,
    keys: shares.toSorted((a, b) => apart(b) - apart(a)).slice(0, keysShown),
    meanMs: asked === 0 ? null : tookMs / asked,
  };
}
