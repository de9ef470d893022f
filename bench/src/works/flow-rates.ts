import { setTimeout as delay } from 'node:timers/promises';
import type { BenchOptions } from '../options.ts';
import type { Wish } from '../peers/peer.ts';
import type { Stage } from '../actors/stage.ts';
import type { Sample } from '../statistics.ts';
import { percentile, perSecond as ratesOf } from '../statistics.ts';
import { chain, outOfOrder, waitsOf } from './chains.ts';
import type { Crew } from './measure.ts';
import { assemble, costs, faultsOf, runsOf, startWorkers, stopWorkers, waitFor } from './measure.ts';
import type { Measured, Metrics } from './work.ts';

/** Flows a second, and those of a smoke run. */
const [wanted, few] = [1_000, 50];
/** Callers, each of which waits for its flow to start: enough for arrivals not to wait for them. */
const callers = 64;
const sampleMs = 50;
const drainMs = 300_000;
/**
 * A rate is sustained if at least this share of the flows that are due begins, and of those that begin in its
 * later half, as many end in it. Arrivals are random, so two standard deviations may be missing besides.
 */
const enough = 0.95;
/** Fraction of `--seconds` that each further rate is offered, and the number of rates, at most. */
const share = 1 / 3;
const triesMax = 7;
/** Offered for so many times as long as a flow takes at least: one with slow steps ends nothing before. */
const flowTimes = 4;

/** Starts flows at the wanted rate, and then at others, to find the highest that is sustained. */
export async function atRates(stage: Stage, options: BenchOptions): Promise<Measured> {
  const wish: Wish = { setting: stage.setting.name };
  const crew = await assemble(stage, wish, 1);
  const { seconds } = options;
  const rate = options.smoke ? few : wanted;
  if (!options.smoke) await offer(stage, crew, { wish, rate: wanted / 5, seconds: Math.min(2, seconds) });
  const first = await offer(stage, crew, { wish, rate, seconds });
  const all = [first];
  const again = Math.min(seconds, Math.max(1, seconds * share, (flowTimes * first.p50Ms) / 1_000));
  for (
    let next = options.smoke ? undefined : nextRate(all);
    next !== undefined && all.at(-1)?.faults.length === 0;
    next = nextRate(all)
  )
    all.push(await offer(stage, crew, { wish, rate: next, seconds: again }));
  await crew.scheduler?.tell({ kind: 'stop' });
  return {
    metrics: { highest: highestOf(all), ...first.metrics },
    series: { 'flows ended/s': first.ended },
    faults: all.flatMap(({ faults }) => faults),
  };
}

/** A rate, and if it was sustained. */
export interface Tried {
  readonly rate: number;
  readonly sustained: boolean;
}

function highestOf(tried: readonly Tried[]): number {
  return Math.max(0, ...tried.flatMap(({ rate, sustained }) => (sustained ? [rate] : [])));
}

/** Returns the next rate to try; undefined if the highest one that is sustained is known well enough. */
export function nextRate(tried: readonly Tried[]): number | undefined {
  const low = highestOf(tried);
  const high = Math.min(...tried.flatMap(({ rate, sustained }) => (sustained || rate <= low ? [] : [rate])));
  if (tried.length >= triesMax || high / low <= 1.2) return undefined;
  if (high === Infinity) return Math.round(low * 1.5);
  return Math.max(1, Math.round(low === 0 ? high / 2 : Math.sqrt(low * high)));
}

interface Offered extends Tried {
  readonly p50Ms: number;
  readonly metrics: Metrics;
  /** Flows that ended in each second. */
  readonly ended: readonly number[];
  readonly faults: readonly string[];
}

/** Starts chains at a rate for a while, measures how many end, and waits until the rest have ended. */
async function offer(
  stage: Stage,
  crew: Crew,
  { wish, rate, seconds }: { readonly wish: Wish; readonly rate: number; readonly seconds: number },
): Promise<Offered> {
  const { producer, workers } = crew;
  const capacity = Math.ceil(rate * (seconds + 1) * 1.2 + 100) * chain.length;
  await stage.settle();
  await startWorkers(workers, {
    wish,
    handling: { kind: 'nothing' },
    remember: 'waited',
    capacity,
    watchFrom: 0,
    watchEvery: chain.length,
  });
  const before = await stage.usage();
  await producer.tell({
    kind: 'feed',
    wish,
    from: 0,
    to: capacity,
    batch: chain.length,
    connections: callers,
    leadMax: capacity,
    perSecond: rate * chain.length,
    steps: chain,
  });
  const samples = await sampled(crew, seconds);
  const ran = runsOf(workers);
  const after = await stage.usage();
  const fed = await producer.tell({ kind: 'stop' });
  const jobs = fed.kind === 'enqueued' ? fed.jobs : 0;
  const empty =
    (await waitFor(() => runsOf(workers) >= jobs, { timeoutMs: drainMs })) &&
    (await waitFor(async () => !(await stage.remains()), { timeoutMs: drainMs, everyMs: 20 }));
  const tally = await stopWorkers(workers);
  const { deadRows: _, ...spent } = costs(
    { before, after, jobs: ran },
    { before: { made: 0, waiting: 0 }, after: { made: 0, waiting: 0 } },
  );
  const waits = waitsOf(tally, { from: 0, count: jobs }, chain.length);
  const p50 = percentile(waits, 0.5);
  return {
    rate,
    ...countsOf(samples, { rate, seconds, more: { p50, p99: percentile(waits, 0.99), ...spent } }),
    p50Ms: p50,
    faults: [
      ...faultsOf(tally, { jobs, left: !empty }),
      ...outOfOrder(tally, { from: 0, count: jobs }, chain.length),
    ],
  };
}

/** Flows started and ended until a moment. */
interface Counts {
  readonly atMs: number;
  readonly started: number;
  readonly ended: number;
}

async function sampled({ producer, workers }: Crew, seconds: number): Promise<readonly Counts[]> {
  const samples: Counts[] = [];
  const fromMs = performance.now();
  for (;;) {
    const atMs = performance.now();
    const started = producer.progress().enqueued / chain.length;
    const ended = workers.reduce((sum, { progress }) => sum + progress().watched, 0);
    samples.push({ atMs, started, ended });
    if (atMs >= fromMs + seconds * 1_000) return samples;
    await delay(sampleMs);
  }
}

function countsOf(
  samples: readonly Counts[],
  { rate, seconds, more }: { readonly rate: number; readonly seconds: number; readonly more: Metrics },
): Pick<Offered, 'metrics' | 'ended' | 'sustained'> {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined) throw new Error('nothing was sampled');
  const middle = samples.find(({ atMs }) => atMs >= (first.atMs + last.atMs) / 2) ?? first;
  const per = (name: 'started' | 'ended'): number =>
    ((last[name] - first[name]) * 1_000) / (last.atMs - first.atMs);
  const ended = samples.map(({ atMs, ended: value }): Sample => ({ atMs, value }));
  return {
    sustained:
      areEnough(last.started - first.started, (rate * (last.atMs - first.atMs)) / 1_000) &&
      areEnough(last.ended - middle.ended, last.started - middle.started),
    ended: ratesOf(ended, first.atMs, first.atMs + seconds * 1_000),
    metrics: {
      startedPerSecond: per('started'),
      endedPerSecond: per('ended'),
      backlog: last.started - last.ended,
      ...more,
    },
  };
}

/** Reports whether a random number that is expected to be `of` is not clearly below. */
export function areEnough(count: number, of: number): boolean {
  return count >= enough * of - 2 * Math.sqrt(of);
}
