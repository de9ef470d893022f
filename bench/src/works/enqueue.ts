import type { BenchOptions } from '../options.ts';
import type { Wish } from '../peers/peer.ts';
import type { Stage } from '../actors/stage.ts';
import { drained, shareOf } from './drain.ts';
import { assemble } from './measure.ts';
import type { Case, Measured, Work } from './work.ts';

interface Shape {
  readonly batch: number;
  readonly connections: number;
}

const shapes: readonly Shape[] = [
  { batch: 1, connections: 1 },
  { batch: 1, connections: 10 },
  { batch: 1_000, connections: 1 },
  { batch: 1_000, connections: 4 },
];
/** Longest measurement, in seconds: shorter than that of the other works. */
const secondsMax = 10;
const warmUpJobs = 2_000;
const runMs = 60_000;

export const enqueue: Work = {
  name: 'enqueue',
  says: 'Jobs a second that one producer process puts in, while nothing else runs: one by one, by the call for one job; by 1000, by the bulk call; so many calls at a time, each on its own connection; a pool has one more, for what the peer does beside.',
  cases: ({ smoke }) =>
    shapes
      .filter((_, index) => !smoke || index % 3 === 1 || index === 2)
      .map((shape): Case => ({
        name: `${shape.batch === 1 ? 'one by one' : 'by 1000'}, ${shape.connections} ${shape.connections === 1 ? 'connection' : 'connections'}`,
        // README settings differ in worker options only
        takes: (_peer, { readme }) => readme !== true,
        run: (stage, options) => put(stage, options, shape),
      })),
};

async function put(stage: Stage, options: BenchOptions, shape: Shape): Promise<Measured> {
  const wish: Wish = { setting: stage.setting.name };
  const producer = await stage.hire('producer');
  const seconds = Math.min(secondsMax, options.seconds);
  const warm = Math.min(warmUpJobs, options.jobs);
  const order = { kind: 'enqueue', wish, ...shape } as const;
  const warmed = await producer.tell({ ...order, from: 0, count: warm, seconds: Math.min(2, seconds) });
  await stage.settle();
  const before = await stage.usage();
  const count = Math.ceil(options.jobs * shareOf(stage.setting));
  const answer = await producer.tell({ ...order, from: warm, count, seconds });
  const after = await stage.usage();
  if (answer.kind !== 'enqueued' || warmed.kind !== 'enqueued')
    throw new Error(`a producer answered "${answer.kind}"`);
  const { jobs } = answer;
  const metrics = {
    jobsPerSecond: jobs / answer.seconds,
    nodeMicros: ((after.producerMs - before.producerMs) * 1_000) / jobs,
    storeMicros: ((after.storeMs - before.storeMs) * 1_000) / jobs,
    walBytes: (after.walBytes - before.walBytes) / jobs,
    jobs,
  };
  if (!options.smoke) return { metrics, faults: [] };
  const crew = await assemble(stage, wish, 1);
  const all = { jobs: warmed.jobs + jobs, capacity: warm + count };
  const { faults } = await drained(stage, crew, { wish, ...all, ms: runMs });
  return { metrics, faults };
}
