import { laneName } from '@pgqueue/core';
import { jain } from '../simulation/fairness.ts';
import type { SimLane } from '../simulation/lanes.ts';
import { quantile, sorted, spreadOf } from '../simulation/quantiles.ts';
import { attemptsOf, ratioOf, resultOf, sumJobs } from '../simulation/report.ts';
import type { Joint, Run } from '../simulation/run.ts';
import type { HomeLoad, HottestKey, RoutedResult } from './result.ts';

/** Summarizes the runs of installations that were simulated together. */
export function summaryOf(
  runs: readonly Run[],
  { overall, fairness, startMs, slots: shared }: Joint,
): RoutedResult {
  const results = runs.map(resultOf);
  const lanes = runs.map((run) => [...run.lanes.all()]);
  const all = lanes.flat();
  const spanMs = Math.max(...results.map(({ endMs }) => endMs)) - startMs;
  const own = results.map(({ slots }) => slots);
  const slots = shared === undefined ? own.reduce((sum, each) => sum + each, 0) : (own[0] ?? 0);
  const busyMs = overall.busyArea;
  const attempts = all.reduce((sum, lane) => sum + attemptsOf(lane), 0);
  const byKey = [...Map.groupBy(all, laneName).values()];
  const ratios = byKey.flatMap(
    (parts) =>
      ratioOf(
        parts.map(({ part }) => part),
        busyMs / Math.max(1, attempts),
      ) ?? [],
  );
  const p95s = byKey.flatMap((parts) => quantile(sorted(parts.map(({ waits }) => waits)), 0.95) ?? []);
  return {
    installations: runs.length,
    slots,
    jobs: sumJobs(results.map(({ jobs }) => jobs)),
    waits: spreadOf(sorted(all.map(({ waits }) => waits))),
    worstP95Ms: p95s.reduce<number | null>((worst, p95) => Math.max(worst ?? 0, p95), null),
    makespans: spreadOf(
      sorted(runs.flatMap(({ flows }) => [...flows.values()].map(({ makespans }) => makespans))),
    ),
    spanMs,
    utilisation: spanMs === 0 ? 0 : busyMs / (spanMs * slots),
    busyWhileWaiting:
      overall.backloggedMs === 0 ? null : overall.busyBacklogged / (overall.backloggedMs * slots),
    jain: ratios.length < 2 ? null : jain(ratios),
    contendedMs: fairness.contendedMs,
    hottest: hottestOf(all, busyMs),
    homes: results.map(({ jobs, waits, slots }, index): HomeLoad => {
      const found = lanes[index] ?? [];
      const used = runs[index]?.total.busyArea ?? 0;
      return {
        installation: index + 1,
        slots,
        keys: keysOf(found).size,
        jobs,
        share: busyMs === 0 ? 0 : used / busyMs,
        utilisation: spanMs === 0 ? 0 : used / (spanMs * slots),
        waits,
        waitingMax: runs[index]?.total.waitingMax ?? 0,
        hottest: hottestOf(found, used),
      };
    }),
    faults: results.flatMap(({ faults }) => faults),
  };
}

/** Returns the lanes of each key, whatever their queues. */
function keysOf(lanes: readonly SimLane[]): ReadonlyMap<string, readonly SimLane[]> {
  return Map.groupBy(
    lanes.filter(({ key }) => key !== ''),
    ({ key }) => key,
  );
}

function hottestOf(lanes: readonly SimLane[], busyMs: number): HottestKey | null {
  let hottest: HottestKey | null = null;
  for (const [key, own] of keysOf(lanes)) {
    const used = own.reduce((sum, { gauge }) => sum + gauge.busyArea, 0);
    const share = busyMs === 0 ? 0 : used / busyMs;
    if (hottest === null || share > hottest.share) hottest = { key, share };
  }
  return hottest;
}
