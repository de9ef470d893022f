import type { BenchOptions } from '../options.ts';
import type { Wish } from '../peers/peer.ts';
import type { FlowSteps } from '../actors/orders.ts';
import type { Stage } from '../actors/stage.ts';
import { percentile } from '../statistics.ts';
import type { Crew, Tally } from './measure.ts';
import { assemble, faultsOf, runsOf, startWorkers, stopWorkers, waitFor } from './measure.ts';
import type { Measured } from './work.ts';

/** A flow of ten steps of one job. */
export const chain: FlowSteps = Array.from({ length: 10 }, () => 1);
/** Arrivals a second, and the seconds they last, at most. Chains seldom meet each other. */
const arrivals = { single: 20, chain: 5, secondsMax: 40 };
/** Single jobs and chains take turns so many times. */
const rounds = 4;
const finishMs = 60_000;

/** Jobs that came one by one or in chains, by the number of the first. */
export interface Fed {
  readonly from: number;
  readonly count: number;
}

/** Measures chains and single jobs in turn, in the same processes. */
export async function chains(stage: Stage, options: BenchOptions): Promise<Measured> {
  const wish: Wish = { setting: stage.setting.name, quick: true };
  const crew = await assemble(stage, wish, 1);
  const seconds = Math.min(arrivals.secondsMax, options.seconds) / (2 * rounds);
  const [singlesOf, chainsOf] = [arrivals.single, arrivals.chain].map((rate) =>
    Math.max(2, Math.round(rate * seconds)),
  );
  const size = { single: singlesOf ?? 2, chain: (chainsOf ?? 2) * chain.length };
  const jobs = rounds * (size.single + size.chain);
  await startWorkers(crew.workers, {
    wish,
    handling: { kind: 'nothing' },
    remember: 'waited',
    capacity: jobs,
  });
  const fed: { readonly single: Fed; readonly chain: Fed }[] = [];
  for (let from = 0; from < jobs; from += size.single + size.chain) {
    const single = { from, count: size.single };
    const chained = { from: from + size.single, count: size.chain };
    await feedAll(crew, { wish, ...single, perSecond: arrivals.single });
    await feedAll(crew, { wish, ...chained, perSecond: arrivals.chain * chain.length, steps: chain });
    fed.push({ single, chain: chained });
  }
  const left = !(await waitFor(async () => !(await stage.remains()), { timeoutMs: finishMs, everyMs: 20 }));
  const tally = await stopWorkers(crew.workers);
  await crew.scheduler?.tell({ kind: 'stop' });
  const singles = fed.flatMap(({ single }) => waitsOf(tally, single, 1));
  const whole = fed.flatMap(({ chain: chained }) => waitsOf(tally, chained, chain.length));
  const [single, p50] = [percentile(singles, 0.5), percentile(whole, 0.5)];
  return {
    metrics: {
      ofTenSingles: p50 / (chain.length * single),
      p50,
      p90: percentile(whole, 0.9),
      p99: percentile(whole, 0.99),
      single,
      flows: whole.length,
    },
    faults: [
      ...faultsOf(tally, { jobs, left }),
      ...fed.flatMap(({ chain: chained }) => outOfOrder(tally, chained, chain.length)),
    ],
  };
}

/** Feeds jobs at random times, and waits until they have run. */
async function feedAll(
  { producer, workers }: Crew,
  feed: Fed & { readonly wish: Wish; readonly perSecond: number; readonly steps?: FlowSteps },
): Promise<void> {
  const { from, count, wish, perSecond, steps } = feed;
  await producer.tell({
    kind: 'feed',
    wish,
    from,
    to: from + count,
    batch: steps?.length ?? 1,
    connections: 1,
    leadMax: from + count,
    perSecond,
    ...(steps === undefined ? {} : { steps }),
  });
  const timeoutMs = (count / perSecond) * 2_000 + finishMs;
  await waitFor(() => runsOf(workers) >= from + count, { timeoutMs });
  await producer.tell({ kind: 'stop' });
}

/**
 * Returns for each flow of so many jobs how long its last job waited, in milliseconds since the call that
 * started the flow. Leaves out the first tenth, which opens connections.
 */
export function waitsOf(
  { remembered }: Pick<Tally, 'remembered'>,
  { from, count }: Fed,
  size: number,
): readonly number[] {
  const waited = (remembered[0] ?? new Float64Array()).subarray(from, from + count);
  const all = Array.from(
    { length: count / size },
    (_, flow) => (waited[(flow + 1) * size - 1] ?? NaN) / 1_000,
  );
  return all.slice(Math.ceil(all.length / 10));
}

/** Returns a fault if jobs of chains began before the job that they wait for. */
export function outOfOrder(
  { remembered }: Pick<Tally, 'remembered'>,
  { from, count }: Fed,
  size: number,
): readonly string[] {
  const waited = (remembered[0] ?? new Float64Array()).subarray(from, from + count);
  let early = 0;
  for (let at = 1; at < count; at += 1) {
    const [before = 0, own = 0] = [waited[at - 1], waited[at]];
    if (at % size !== 0 && own !== 0 && (before === 0 || own < before)) early += 1;
  }
  return early === 0 ? [] : [`${early} jobs of flows began before the job that they wait for`];
}
