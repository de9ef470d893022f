import { compareText, queueOf } from '@pgqueue/core';
import type { Part } from './fairness.ts';
import { compete, jain, settle } from './fairness.ts';
import type { Gauge } from './gauge.ts';
import { bring } from './gauge.ts';
import type { SimLane } from './lanes.ts';
import { firstRow, rowsMax } from './lanes.ts';
import { limitUse } from './limit-use.ts';
import { quantile, sorted, spreadOf } from './quantiles.ts';
import type {
  Deadlines,
  FlowResult,
  HeldResult,
  JobCounts,
  LaneResult,
  QueueResult,
  Simulation,
  TimeSeries,
} from './result.ts';
import type { Run } from './run.ts';
import { laneOf, noteHeld } from './run.ts';

/** Most keys that have a line of their own in the series. */
const linesMax = 12;
/**
 * Jobs of average length that a key must be entitled to for each time it waits. Any order is unfair by one
 * job at a time.
 */
const enoughJobs = 10;

export function resultOf(run: Run): Simulation {
  close(run);
  const { settings, total, startMs, nowMs, fleet } = run;
  const all = [...run.lanes.all()];
  const open = countOpen(run);
  const meanMs =
    total.busyArea /
    Math.max(
      1,
      all.reduce((sum, lane) => sum + attemptsOf(lane), 0),
    );
  const lanes = all
    .map((lane) => laneResult(lane, { total, meanMs, open: open.get(lane) ?? 0 }))
    .toSorted((a, b) => b.busyMs - a.busyMs || compareText(a.queue, b.queue) || compareText(a.key, b.key));
  const waits = sorted(all.map((lane) => lane.waits));
  const ratios = lanes.flatMap(({ served }) => served.ratio ?? []);
  const spanMs = nowMs - startMs;
  return {
    policy: settings.policy.name,
    seed: settings.seed,
    startMs,
    endMs: nowMs,
    slots: fleet.slots,
    jobs: sumJobs(lanes.map(({ jobs }) => jobs)),
    waits: spreadOf(waits),
    waitPercentilesMs:
      waits.length === 0 ? [] : Array.from({ length: 101 }, (_, at) => quantile(waits, at / 100) ?? 0),
    utilisation: spanMs === 0 ? 0 : total.busyArea / (spanMs * fleet.slots),
    busyWhileWaiting:
      total.backloggedMs === 0 ? null : total.busyBacklogged / (total.backloggedMs * fleet.slots),
    jain: ratios.length < 2 ? null : jain(ratios),
    contendedMs: run.fairness.contendedMs,
    deadlines: deadlinesOf(all),
    queues: queueResults(run, all, lanes),
    lanes,
    flows: flowResults(run),
    makespans: spreadOf(sorted([...run.flows.values()].map(({ makespans }) => makespans))),
    limits: limitUse(run, all),
    held: heldResults(run),
    forecast: Object.fromEntries(run.forecast),
    plans: { made: run.plans, empty: run.emptyPlans, recalled: run.recalled },
    faults: run.planning.faults(),
    series: seriesOf(run, all),
  };
}

/** Counts everything up to the end. */
function close(run: Run): void {
  const { nowMs, total } = run;
  noteHeld(run, {});
  if (nowMs > total.sinceMs) {
    const span = { fromMs: total.sinceMs, toMs: nowMs };
    run.series.add(0, span, total.running);
    run.series.add(1, span, total.waiting);
  }
  for (const { lane, startedMs, item } of run.air.all) {
    if (item.node !== null) run.series.add(lane.row, { fromMs: startedMs, toMs: nowMs }, 1);
  }
  for (const gauge of [total, run.overall, ...run.queues.values()]) bring(gauge, nowMs);
  for (const { gauge, part } of run.lanes.all()) {
    bring(gauge, nowMs);
    settle(run.fairness, part);
    compete(run.fairness, part, false, nowMs);
  }
}

/** Counts the jobs of each lane that did not end. A job past its deadline has missed it. */
function countOpen(run: Run): ReadonlyMap<SimLane, number> {
  const open = new Map<SimLane, number>();
  for (const { facts, deadlineMs } of run.jobs.values()) {
    const lane = laneOf(run, facts);
    open.set(lane, (open.get(lane) ?? 0) + 1);
    if (deadlineMs !== null && deadlineMs < run.nowMs) lane.tally.missed += 1;
  }
  return open;
}

export function attemptsOf({ tally }: SimLane): number {
  return tally.done + tally.dead + tally.retries + tally.crashes;
}

function laneResult(
  lane: SimLane,
  { total, meanMs, open }: { readonly total: Gauge; readonly meanMs: number; readonly open: number },
): LaneResult {
  const { queue, key, tally, gauge, part } = lane;
  const { arrived, done, dead, expired, retries, crashes } = tally;
  const { servedMs, entitledMs } = part;
  const ratio = ratioOf([part], meanMs);
  return {
    queue,
    key,
    jobs: { arrived, done, dead, expired, unfinished: open, retries, crashes },
    waits: spreadOf(sorted([lane.waits])),
    deadlines: deadlinesOf([lane]),
    firstMs: tally.firstMs,
    lastMs: tally.lastMs === -Infinity ? null : tally.lastMs,
    busyMs: gauge.busyArea,
    share: shareOf(gauge, total),
    weight: part.weight,
    served: { servedMs, entitledMs, ratio },
    inFlightMax: gauge.inFlightMax,
    waitingMax: gauge.waitingMax,
  };
}

/**
 * Returns served / entitled of the parts of a key. Null: too little to tell.
 * @param meanMs duration of an average attempt, in milliseconds
 */
export function ratioOf(parts: readonly Part[], meanMs: number): number | null {
  const sum = (of: (part: Part) => number): number => parts.reduce((total, part) => total + of(part), 0);
  const entitledMs = sum((part) => part.entitledMs);
  const enoughMs = enoughJobs * meanMs * sum(({ periods }) => periods);
  return entitledMs > 0 && entitledMs >= enoughMs ? sum(({ servedMs }) => servedMs) / entitledMs : null;
}

function shareOf(gauge: Gauge, total: Gauge): number {
  return total.busyArea === 0 ? 0 : gauge.busyArea / total.busyArea;
}

function deadlinesOf(lanes: readonly SimLane[]): Deadlines {
  return {
    set: lanes.reduce((sum, { tally }) => sum + tally.deadlines, 0),
    missed: lanes.reduce((sum, { tally }) => sum + tally.missed, 0),
    late: spreadOf(sorted(lanes.map(({ late }) => late))),
  };
}

export function sumJobs(counts: readonly JobCounts[]): JobCounts {
  const sum = { arrived: 0, done: 0, dead: 0, expired: 0, unfinished: 0, retries: 0, crashes: 0 };
  for (const count of counts) {
    for (const name of Object.keys(sum) as (keyof JobCounts)[]) sum[name] += count[name];
  }
  return sum;
}

function queueResults(
  run: Run,
  all: readonly SimLane[],
  lanes: readonly LaneResult[],
): readonly QueueResult[] {
  const byQueue = Map.groupBy(all, ({ queue }) => queue);
  const results = Map.groupBy(lanes, ({ queue }) => queue);
  return [...run.queues]
    .map(([queue, gauge]): QueueResult => {
      const own = byQueue.get(queue) ?? [];
      return {
        queue,
        jobs: sumJobs((results.get(queue) ?? []).map(({ jobs }) => jobs)),
        waits: spreadOf(sorted(own.map(({ waits }) => waits))),
        deadlines: deadlinesOf(own),
        busyMs: gauge.busyArea,
        share: shareOf(gauge, run.total),
        weight: queueOf(run.settings, queue).weight,
        inFlightMax: gauge.inFlightMax,
        waitingMax: gauge.waitingMax,
      };
    })
    .toSorted((a, b) => compareText(a.queue, b.queue));
}

function flowResults({ flows }: Run): readonly FlowResult[] {
  return [...flows]
    .map(([flow, { arrived, done, failed, makespans }]): FlowResult => ({
      flow,
      flows: { arrived, done, failed, unfinished: arrived - done - failed },
      makespans: spreadOf(sorted([makespans])),
    }))
    .toSorted((a, b) => compareText(a.flow, b.flow));
}

function heldResults(run: Run): readonly HeldResult[] {
  const spanMs = Math.max(1, run.nowMs - run.startMs);
  return [...run.held]
    .flatMap(([queue, reasons]) =>
      [...reasons].map(([reason, { area, max, plans }]): HeldResult => ({
        queue,
        reason,
        meanJobs: area / spanMs,
        maxJobs: max,
        plans,
      })),
    )
    .toSorted(
      (a, b) => compareText(a.queue, b.queue) || b.meanJobs - a.meanJobs || compareText(a.reason, b.reason),
    );
}

function seriesOf(run: Run, all: readonly SimLane[]): TimeSeries {
  const { stepMs, rows } = run.series.means();
  const own = all
    .filter(({ row }) => row < firstRow + rowsMax)
    .toSorted((a, b) => b.gauge.busyArea - a.gauge.busyArea)
    .slice(0, linesMax);
  return {
    startMs: run.startMs,
    stepMs,
    running: rows[0] ?? [],
    waiting: rows[1] ?? [],
    lanes: own.map(({ queue, key, row }) => ({ queue, key, running: rows[row] ?? [] })),
  };
}
