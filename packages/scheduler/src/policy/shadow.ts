import type { Lane, Observer, Policy, PolicyState, Snapshot, Written } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { CleanPlan } from './validate-plan.ts';
import type { Faults } from './faults.ts';
import { createPreparing } from './prepare.ts';
import type { RunnerOptions } from './runner.ts';
import { createRunner } from './runner.ts';
import { whyHeld } from './why-held.ts';

/** How a second policy's plans differ from the ones that count, since the scheduler leads. Plain JSON. */
export interface ShadowReport {
  readonly policy: string;
  /** Snapshots that both planned. */
  readonly snapshots: number;
  /**
   * Those that the shadow was not asked about, because its time was used up; and those on which it, or a gate or its order, failed. Where a
   * plan came out all the same, as it would have had it been live, that is among `snapshots`, too.
   */
  readonly skipped: number;
  readonly failed: number;
  /** Jobs that both would have dispatched, over all snapshots: one that waits on counts again at the next. */
  readonly both: number;
  /** Jobs that only the live policy dispatched, by why the shadow would not have: the gate, or `later` where others went first. */
  readonly liveOnly: Readonly<Record<string, number>>;
  /** Jobs that only the shadow would have dispatched, by why the live policy did not. */
  readonly shadowOnly: Readonly<Record<string, number>>;
  /** How far apart the two have a job in their batch, on average, of those in both; null: there was none. */
  readonly rankDifference: number | null;
  /** The keys whose shares of all dispatched jobs differ most. */
  readonly keys: readonly KeyShare[];
  /** Milliseconds that the shadow took for a plan, on average. */
  readonly meanMs: number | null;
}

/** A key's part of all jobs that were dispatched, and would have been, 0 to 1. */
export interface KeyShare {
  readonly queue: string;
  readonly key: string;
  readonly live: number;
  readonly shadow: number;
}

/** A policy that plans on the same snapshots as the live one, and dispatches nothing. What it does never reaches the live plan. */
export interface Shadow {
  /**
   * The live plan for a snapshot is made, and written (null: it was not); only then, so that no job waits for it. The shadow is
   * told which of its own choices were written: those that the live policy made, too.
   */
  readonly see: (snapshot: Snapshot, live: CleanPlan, written: Written | null) => void;
  readonly report: () => ShadowReport;
  /** A reign begins: it starts from nothing. */
  readonly restart: () => void;
  readonly start: () => void;
  readonly stop: () => Promise<void>;
}

export interface ShadowOptions extends RunnerOptions {
  /** The name of the live policy. */
  readonly live: string;
  readonly observe: Observer;
}

/** The shadow may take this part of all time, saved up for so long at most: it plans in the way of the ticks. */
const timeShare = 0.1;
const savedUpMs = 100;
const reportEveryMs = 1_000;
/** Keys that are counted one by one; the others are left out of the shares. */
const keysMax = 1_000;
const keysShown = 10;

interface Counts {
  /** Snapshots that it was asked about. */
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
  // what fails within a plan is told here, and the plan goes on without it
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
      // a recall decides nothing yet: the next plan does
      if (plan.recall.length > 0 || snapshot.lanes.length === 0) return;
      if (!time.left()) {
        counts.skipped += 1;
        return;
      }
      failing = false;
      counts.asked += 1;
      const startedAt = clock();
      const prepared = preparing.prepared(snapshot.nowMs);
      const other = runner.plan(Object.freeze({ ...snapshot, prepared }), state);
      counts.tookMs += clock() - startedAt;
      if (other !== undefined) {
        compare(counts, snapshot, { live: plan, shadow: other });
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

/** Time that grows with the clock, and is used up: a plan that takes long is paid for before the next. */
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
}

function compare(counts: Counts, snapshot: Snapshot, { live, shadow }: Two): void {
  counts.snapshots += 1;
  const ranks = new Map(live.dispatch.map(({ id }, rank) => [id, rank] as const));
  const others = new Map(shadow.dispatch.map(({ id }, rank) => [id, rank] as const));
  if (ranks.size === 0 && others.size === 0) return;
  const [why, whyShadow] = [whyHeld(live.holds), whyHeld(shadow.holds)];
  for (const lane of snapshot.lanes) {
    for (const [place, job] of lane.jobs.entries()) {
      const { id } = job;
      const [rank, other] = [ranks.get(id), others.get(id)];
      if (rank === undefined && other === undefined) continue;
      const share = shareOf(counts, lane);
      if (rank !== undefined && share !== undefined) share.live += 1;
      if (other !== undefined && share !== undefined) share.shadow += 1;
      if (rank === undefined) count(counts.shadowOnly, why(lane, job, place) ?? later);
      else if (other === undefined) count(counts.liveOnly, whyShadow(lane, job, place) ?? later);
      else {
        counts.both += 1;
        counts.ranks += Math.abs(rank - other);
      }
    }
  }
}

/** Others went first. */
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
