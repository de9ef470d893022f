import type { Policy } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';
import type { Conditions } from './options.ts';
import type { LaneResult, Simulation } from './result.ts';
import { simulate } from './simulate.ts';
import { repeatable } from '../workloads/workload.ts';

/** Options of {@link compare}: two policies under the same conditions. */
export interface CompareOptions extends Conditions {
  readonly policy: Policy;
  readonly against: Policy;
}

/** One measure under both policies. Null: it has no value. Makespans are among them if there are flows. */
export interface Difference {
  /** Name of the measure, such as `wait p95` or `utilisation`. */
  readonly measure: string;
  readonly unit: 'ms' | 'share' | 'index' | 'jobs';
  readonly base: number | null;
  readonly other: number | null;
  /** other − base. */
  readonly change: number | null;
  /** Direction that is better for waiting jobs. Null: neither is. */
  readonly better: 'less' | 'more' | null;
}

/** A key under both policies. */
export interface LaneDifference {
  readonly queue: string;
  readonly key: string;
  readonly base: Pick<LaneResult, 'waits' | 'share' | 'served'> | null;
  readonly other: Pick<LaneResult, 'waits' | 'share' | 'served'> | null;
}

/**
 * Results of the same jobs under two policies. Attempts fail alike in both, since randomness belongs to the
 * job.
 */
export interface Comparison {
  readonly base: Simulation;
  readonly other: Simulation;
  readonly differences: readonly Difference[];
  /** Keys, sorted by the change of their p95 wait, the largest first. */
  readonly lanes: readonly LaneDifference[];
}

/**
 * Runs the same workload under `against` (the base) and `policy`.
 * @throws {PgQueueError} as {@link simulate}
 */
export function compare(options: CompareOptions): Comparison {
  const { policy, against, ...conditions } = options;
  const workload = repeatable(conditions.workload);
  const base = simulate({ ...conditions, workload, policy: against });
  const other = simulate({ ...conditions, workload, policy });
  return compareResults(base, other);
}

/** Compares two results. */
export function compareResults(base: Simulation, other: Simulation): Comparison {
  return { base, other, differences: differencesOf(base, other), lanes: lanesOf(base, other) };
}

type Measure = readonly [
  measure: string,
  unit: Difference['unit'],
  better: Difference['better'],
  of: (result: Simulation) => number | null,
];

const measures: readonly Measure[] = [
  ['wait mean', 'ms', 'less', ({ waits }) => waits.meanMs],
  ['wait p50', 'ms', 'less', ({ waits }) => waits.p50Ms],
  ['wait p95', 'ms', 'less', ({ waits }) => waits.p95Ms],
  ['wait p99', 'ms', 'less', ({ waits }) => waits.p99Ms],
  ['longest wait', 'ms', 'less', ({ waits }) => waits.maxMs],
  ['worst p95 of a key', 'ms', 'less', ({ lanes }) => worstP95(lanes)],
  ['time to the end', 'ms', 'less', ({ startMs, endMs }) => endMs - startMs],
  ['utilisation', 'share', 'more', ({ utilisation }) => utilisation],
  ['utilisation while jobs wait', 'share', 'more', ({ busyWhileWaiting }) => busyWhileWaiting],
  ["Jain's index", 'index', 'more', ({ jain }) => jain],
  ['done', 'jobs', 'more', ({ jobs }) => jobs.done],
  ['dead', 'jobs', 'less', ({ jobs }) => jobs.dead],
  ['expired', 'jobs', 'less', ({ jobs }) => jobs.expired],
  ['unfinished', 'jobs', 'less', ({ jobs }) => jobs.unfinished],
  ['missed deadlines', 'jobs', 'less', ({ deadlines }) => (deadlines.set === 0 ? null : deadlines.missed)],
];

const flowMeasures: readonly Measure[] = [
  ['makespan p50', 'ms', 'less', ({ makespans }) => makespans.p50Ms],
  ['makespan p99', 'ms', 'less', ({ makespans }) => makespans.p99Ms],
];

function differencesOf(base: Simulation, other: Simulation): readonly Difference[] {
  const all = base.flows.length === 0 ? measures : [...measures, ...flowMeasures];
  return all.map(([measure, unit, better, of]) => {
    const [one, two] = [of(base), of(other)];
    return {
      measure,
      unit,
      better,
      base: one,
      other: two,
      change: one === null || two === null ? null : two - one,
    };
  });
}

function worstP95(lanes: readonly LaneResult[]): number | null {
  return lanes.reduce<number | null>((worst, { waits: { p95Ms } }) => {
    if (p95Ms === null) return worst;
    return worst === null ? p95Ms : Math.max(worst, p95Ms);
  }, null);
}

function lanesOf(base: Simulation, other: Simulation): readonly LaneDifference[] {
  const pairs = new Map<string, { base: LaneResult | null; other: LaneResult | null }>();
  for (const lane of base.lanes) pairs.set(laneName(lane), { base: lane, other: null });
  for (const lane of other.lanes) {
    const pair = pairs.get(laneName(lane));
    if (pair === undefined) pairs.set(laneName(lane), { base: null, other: lane });
    else pair.other = lane;
  }
  const changeOf = (lane: LaneDifference): number =>
    Math.abs((lane.other?.waits.p95Ms ?? 0) - (lane.base?.waits.p95Ms ?? 0));
  return [...pairs.values()]
    .flatMap(({ base: one, other: two }): LaneDifference[] => {
      const lane = one ?? two;
      if (lane === null) return [];
      return [{ queue: lane.queue, key: lane.key, base: briefly(one), other: briefly(two) }];
    })
    .toSorted((a, b) => changeOf(b) - changeOf(a));
}

function briefly(lane: LaneResult | null): LaneDifference['base'] {
  return lane === null ? null : { waits: lane.waits, share: lane.share, served: lane.served };
}
