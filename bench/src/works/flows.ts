// Flows: jobs that wait for other jobs. `flow.ts` is about a flow of jobs, a producer beside the workers.
import type { BenchOptions } from '../options.ts';
import type { Wish } from '../peers/peer.ts';
import type { FlowSteps } from '../actors/orders.ts';
import type { Stage, Usage } from '../actors/stage.ts';
import { deadRows } from '../actors/stage.ts';
import { mean } from '../statistics.ts';
import { chains } from './chains.ts';
import { shareOf, warmUp, warmUpOf } from './drain.ts';
import { atRates } from './flow-rates.ts';
import type { Crew } from './measure.ts';
import { assemble, costs, faultsOf, runsOf, startWorkers, stopWorkers, waitFor } from './measure.ts';
import type { Case, Measured, Metrics, Work } from './work.ts';

const many = 100_000;
const runMs = 300_000;

export const flows: Work = {
  name: 'flows',
  says:
    'Jobs that wait for other jobs; one worker process. pgqueue and pg-boss have graphs, BullMQ has trees: there the last job is the parent, and a chain is a tree with one branch. ' +
    'A step, then one: the rate from the first job to the last, beside that of as many jobs without a flow, before and after it in the same run; and the milliseconds from the last job’s end to the begin of the one that waits for all. ' +
    'A chain: from the call that starts it to the begin of its last job, beside the latency of single jobs. ' +
    'A rate: chains of ten, started one by one at random times, for so many seconds; and the highest rate at which as many end as begin.',
  cases: () => [
    { name: `a step of ${many.toLocaleString('en-US')} jobs, then one`, takes: hasFlows, run: fanIn },
    { name: 'a chain of ten', takes: hasFlows, run: chains },
    { name: '1,000 flows a second', takes: hasFlows, run: atRates },
  ],
};

const hasFlows: NonNullable<Case['takes']> = ({ openFlowStarter }, { readme }) =>
  openFlowStarter !== undefined && readme !== true;

/** Drains jobs without a flow, a flow, and jobs without one again, so that a drift of the machine cancels out. */
async function fanIn(stage: Stage, options: BenchOptions): Promise<Measured> {
  const wish: Wish = { setting: stage.setting.name };
  const crew = await assemble(stage, wish, 1);
  const jobs = Math.max(2, Math.ceil(Math.min(many, options.jobs) * shareOf(stage.setting)));
  const warm = Math.min(jobs, warmUpOf(stage, options));
  await warmUp(stage, crew, { wish, jobs: warm });
  if (warm > 1) await drainOnce(stage, crew, { wish, jobs: warm, steps: [warm - 1, 1] });
  const before = await drainOnce(stage, crew, { wish, jobs });
  const flow = await drainOnce(stage, crew, { wish, jobs, steps: [jobs - 1, 1] });
  const after = await drainOnce(stage, crew, { wish, jobs });
  await crew.scheduler?.tell({ kind: 'stop' });
  const plain = mean([before.rate, after.rate]);
  const cpuOf = ({ nodeMicros = NaN, storeMicros = NaN }: Metrics): number => nodeMicros + storeMicros;
  return {
    metrics: {
      ofPlain: flow.rate / plain,
      dependentMs: flow.dependentMs,
      jobsPerSecond: flow.rate,
      plainPerSecond: plain,
      cpuOfPlain: cpuOf(flow.costs) / mean([cpuOf(before.costs), cpuOf(after.costs)]),
      ...flow.costs,
      flowStartMs: flow.enqueueMs,
      jobs,
    },
    faults: [before, flow, after].flatMap(({ faults }) => faults),
  };
}

interface Drained {
  /** Jobs a second, from the first job's begin to the end of the last that waits for no other. */
  readonly rate: number;
  /** Milliseconds from that end to the begin of the job that waits; NaN without a flow. */
  readonly dependentMs: number;
  readonly enqueueMs: number;
  readonly costs: Metrics;
  readonly faults: readonly string[];
}

async function drainOnce(
  stage: Stage,
  { producer, workers }: Crew,
  { wish, jobs, steps }: { readonly wish: Wish; readonly jobs: number; readonly steps?: FlowSteps },
): Promise<Drained> {
  const began = performance.now();
  await producer.tell({
    kind: 'enqueue',
    wish,
    from: 0,
    count: jobs,
    ...(steps === undefined ? { batch: 1_000, connections: 4 } : { batch: jobs, connections: 1, steps }),
  });
  const enqueueMs = performance.now() - began;
  await stage.settle();
  const before = await usageOf(stage);
  await startWorkers(workers, { wish, handling: { kind: 'nothing' }, remember: 'ended', capacity: jobs });
  const ran = await waitFor(() => runsOf(workers) >= jobs, { timeoutMs: runMs });
  const empty = ran && (await waitFor(async () => !(await stage.remains()), { timeoutMs: runMs }));
  const after = await stage.usage();
  const tally = await stopWorkers(workers);
  const dead = { before: before.dead, after: await deadRows(stage) };
  const ended = tally.remembered[0] ?? new Float64Array();
  const free = steps?.[0] ?? jobs;
  const lastAt = ended.subarray(0, free).reduce((last, at) => Math.max(last, at), 0);
  const dependentMs = steps === undefined ? NaN : ((ended[free] ?? NaN) - lastAt) / 1_000;
  return {
    rate: (free * 1e6) / (lastAt - tally.firstAt),
    dependentMs,
    enqueueMs,
    costs: costs({ before: before.usage, after, jobs }, dead),
    faults: [
      ...faultsOf(tally, { jobs, left: !empty }),
      ...(dependentMs < 0 ? ['the job that waits began before the last one had ended'] : []),
    ],
  };
}

async function usageOf(
  stage: Stage,
): Promise<{ readonly usage: Usage; readonly dead: Awaited<ReturnType<typeof deadRows>> }> {
  const dead = await deadRows(stage);
  return { usage: await stage.usage(), dead };
}
