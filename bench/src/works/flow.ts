// Runs a producer alongside the workers for a while and measures the rate in each second.
import { setTimeout as delay } from 'node:timers/promises';
import type { Actor } from '../actors/crew.ts';
import type { Wish } from '../peers/peer.ts';
import type { Stage, Usage } from '../actors/stage.ts';
import { deadRows } from '../actors/stage.ts';
import type { Sample } from '../statistics.ts';
import { mean, percentile, perSecond } from '../statistics.ts';
import type { Crew, Tally } from './measure.ts';
import { costs, faultsOf, runsOf, startWorkers, stopWorkers, waitFor } from './measure.ts';
import type { Measured, Metrics } from './work.ts';

export interface Flow {
  readonly wish: Wish;
  readonly seconds: number;
  /** Jobs to keep waiting, in addition to those the producer is enqueuing. */
  readonly lead: number;
  /** Jobs that wait already; their numbers come first. */
  readonly before: number;
  /** Jobs a second; default: as many as the workers take. */
  readonly perSecond?: number;
  /** Runs the remaining jobs after the time is over; otherwise they are left. */
  readonly finish: boolean;
  /** Called about once a second, with the seconds since the beginning. */
  readonly look?: (seconds: number) => Promise<void>;
}

export interface Flowed {
  /** Jobs run in each second. */
  readonly rates: readonly number[];
  readonly fromMicros: number;
  readonly tally: Tally;
  readonly faults: readonly string[];
  readonly costs: Metrics;
}

const sampleMs = 50;
const lookMs = 1_000;
const finishMs = 120_000;
/** Upper bound for the rate of any system here; sizes the arrays that count jobs. */
const perSecondMax = 150_000;
/** Jobs of one call of the producer; `connections` is the number of concurrent calls. */
const batch = 1_000;
const connections = 2;

/** Runs the producer and the workers, and measures. */
export async function flow(stage: Stage, crew: Crew, options: Flow): Promise<Flowed> {
  const { producer, workers, scheduler } = crew;
  const { wish, seconds, before } = options;
  const capacity = before + Math.ceil((seconds + 1) * (options.perSecond ?? perSecondMax) * 1.1) + batch;
  const dead = await deadRows(stage);
  await startWorkers(workers, { wish, handling: { kind: 'nothing' }, remember: 'nothing', capacity });
  await producer.tell({
    kind: 'feed',
    wish,
    from: before,
    to: capacity,
    batch: options.perSecond === undefined ? batch : Math.max(1, Math.round(options.perSecond / 50)),
    connections,
    leadMax: options.perSecond === undefined ? options.lead + 2 * batch : capacity,
    ...(options.perSecond === undefined ? {} : { perSecond: options.perSecond }),
  });
  // the measurement begins when the first job has run
  await waitFor(() => runsOf(workers) > 0, { timeoutMs: finishMs });
  const used = await stage.usage();
  const { samples, fromMs } = await sampled(producer, workers, options);
  const usedNow = await stage.usage();
  const ranThen = (samples.at(-1)?.value ?? 0) - (samples[0]?.value ?? 0);
  const fed = await producer.tell({ kind: 'stop' });
  const jobs = before + (fed.kind === 'enqueued' ? fed.jobs : 0);
  const left = options.finish && !(await finished(stage, workers, jobs));
  const tally = await stopWorkers(workers);
  await scheduler?.tell({ kind: 'stop' });
  return {
    fromMicros: (performance.timeOrigin + fromMs) * 1_000,
    rates: perSecond(samples, fromMs, fromMs + seconds * 1_000),
    tally,
    faults: faultsOf(tally, { jobs: options.finish ? jobs : 0, left }),
    costs: flowCosts(
      { used, usedNow, ranThen },
      { jobs: tally.runs, made: (await deadRows(stage)).made - dead.made },
    ),
  };
}

function flowCosts(
  { used, usedNow, ranThen }: { readonly used: Usage; readonly usedNow: Usage; readonly ranThen: number },
  dead: { readonly jobs: number; readonly made: number },
): Metrics {
  const { deadRows: _, ...rest } = costs(
    { before: used, after: usedNow, jobs: ranThen },
    { before: { made: 0, waiting: 0 }, after: { made: 0, waiting: 0 } },
  );
  return { ...rest, deadRows: dead.made / dead.jobs };
}

async function finished(stage: Stage, workers: readonly Actor[], jobs: number): Promise<boolean> {
  const ran = await waitFor(() => runsOf(workers) >= jobs, { timeoutMs: finishMs });
  return ran && (await waitFor(async () => !(await stage.remains()), { timeoutMs: finishMs }));
}

async function sampled(
  producer: Actor,
  workers: readonly Actor[],
  { seconds, look }: Flow,
): Promise<{ readonly samples: readonly Sample[]; readonly fromMs: number }> {
  const samples: Sample[] = [];
  const fromMs = performance.now();
  let looks = 0;
  while (performance.now() < fromMs + seconds * 1_000) {
    const runs = runsOf(workers);
    samples.push({ atMs: performance.now(), value: runs });
    await producer.tell({ kind: 'run', jobs: runs });
    if (look !== undefined && performance.now() >= fromMs + looks * lookMs) {
      looks += 1;
      await look((performance.now() - fromMs) / 1_000);
    }
    await delay(sampleMs);
  }
  samples.push({ atMs: performance.now(), value: runsOf(workers) });
  return { samples, fromMs };
}

/** Part of a flow, in seconds since its beginning. */
interface Stretch {
  readonly from: number;
  readonly to: number;
}

/**
 * Selects the stretches to compare. From 180 s on these are the second and the last minute, since a system
 * warms up in the first. In shorter flows they are the first and last 10 s, or a third if that is less.
 */
export function stretchesOf(seconds: number): { readonly early: Stretch; readonly late: Stretch } {
  const length = seconds >= 180 ? 60 : Math.min(10, Math.max(1, Math.ceil(seconds / 3)));
  const from = seconds >= 180 ? 60 : 0;
  return { early: { from, to: from + length }, late: { from: seconds - length, to: seconds } };
}

/** Reduces a flow to figures: of the whole, and of its early and late stretch. */
export function flowMeasured({ rates, faults, costs, tally, fromMicros }: Flowed): Measured {
  const { early, late } = stretchesOf(rates.length);
  const rateOf = ({ from, to }: Stretch): number => mean(rates.slice(from, to));
  const claimOf = ({ from, to }: Stretch): number =>
    percentile(
      tally.claims
        .filter(({ atMicros }) => atMicros >= fromMicros + from * 1e6 && atMicros < fromMicros + to * 1e6)
        .map(({ ms }) => ms),
      0.99,
    );
  return {
    metrics: {
      jobsPerSecond: mean(rates),
      early: rateOf(early),
      late: rateOf(late),
      kept: rateOf(late) / rateOf(early),
      ...costs,
      ...(tally.claims.length === 0 ? {} : { claimEarly: claimOf(early), claimLate: claimOf(late) }),
    },
    series: { 'jobs/s': rates },
    faults,
  };
}
