import { nowMicros } from '../load.ts';
import type { BenchOptions } from '../options.ts';
import type { Setting, Wish } from '../peers/peer.ts';
import type { Handling } from '../actors/orders.ts';
import type { Stage } from '../actors/stage.ts';
import { deadRows } from '../actors/stage.ts';
import type { Crew, Tally } from './measure.ts';
import { assemble, costs, faultsOf, fill, runsOf, startWorkers, stopWorkers, waitFor } from './measure.ts';
import type { Case, Measured, Work } from './work.ts';

export const drain: Work = {
  name: 'drain',
  says: 'Jobs a second, from the first job that begins until nothing is left of a backlog; the handler does nothing.',
  cases: ({ processes }) =>
    processes.map((count): Case => ({
      name: count === 1 ? '1 worker process' : `${count} worker processes`,
      run: (stage, options) => drainBacklog(stage, options, { processes: count }),
    })),
};

/** README settings can be slow by design: they get a tenth of the jobs and at most 20 s. */
const readmeShare = 0.1;
const readmeMs = 20_000;
const drainMs = 300_000;
const warmUpMs = 20_000;

export function shareOf({ share, readme }: Setting): number {
  return share ?? (readme === true ? readmeShare : 1);
}

/** Number of jobs to drain, and the time limit. */
function limitsOf(setting: Setting, options: BenchOptions): { readonly jobs: number; readonly ms: number } {
  return {
    jobs: Math.ceil(options.jobs * shareOf(setting)),
    ms: setting.readme === true ? Math.min(readmeMs, options.seconds * 1_000) : drainMs,
  };
}

/** A backlog and those who drain it. */
export interface Backlog extends Pick<Wish, 'concurrency'>, Pick<Waiting, 'handling'> {
  readonly processes: number;
  /** Keys that the jobs belong to; default: none. */
  readonly keys?: number;
}

/** Fills the queue while nobody works, after a warm-up in the same processes, and measures how it is drained. */
export async function drainBacklog(
  stage: Stage,
  options: BenchOptions,
  { processes, keys, handling = nothing, ...wished }: Backlog,
): Promise<Measured> {
  const wish: Wish = { setting: stage.setting.name, ...wished };
  const crew = await assemble(stage, wish, processes);
  const { jobs, ms } = limitsOf(stage.setting, options);
  await warmUp(stage, crew, { wish, jobs: warmUpOf(stage, options), handling });
  await fill(crew, wish, { count: jobs, ...(keys === undefined ? {} : { keys }) });
  await stage.settle();
  return drained(stage, crew, { wish, jobs, ms, handling });
}

/** Number of jobs for the warm-up. */
export function warmUpOf({ setting }: Stage, { jobs, smoke }: BenchOptions): number {
  if (smoke) return 0;
  return setting.readme === true ? 5 : Math.ceil((jobs * shareOf(setting)) / 10);
}

/**
 * Runs jobs in the processes and tables that are measured later, so that hot code is compiled. With 0 jobs,
 * it does nothing.
 */
export async function warmUp(
  stage: Stage,
  crew: Crew,
  { wish, jobs, handling = nothing }: Omit<Waiting, 'ms' | 'capacity'>,
): Promise<void> {
  if (jobs === 0) return;
  await fill(crew, wish, { count: jobs });
  await startWorkers(crew.workers, {
    wish,
    handling,
    remember: 'nothing',
    capacity: jobs,
  });
  await waitFor(async () => runsOf(crew.workers) >= jobs && !(await stage.remains()), {
    timeoutMs: warmUpMs,
  });
  await stopWorkers(crew.workers);
}

export interface Waiting {
  readonly wish: Wish;
  readonly jobs: number;
  /** Highest job number plus one; default: `jobs`. */
  readonly capacity?: number;
  /** Time limit, in milliseconds. */
  readonly ms: number;
  /** Default: the handlers do nothing. */
  readonly handling?: Handling;
}

const nothing: Handling = { kind: 'nothing' };

/** Starts the workers on the waiting jobs and measures until all jobs have ended. */
export async function drained(
  stage: Stage,
  { workers, scheduler }: Crew,
  { wish, jobs, ms, capacity = jobs, handling = nothing }: Waiting,
): Promise<Measured> {
  const before = await stage.usage();
  const deadBefore = await deadRows(stage);
  const startedAt = nowMicros();
  await startWorkers(workers, {
    wish,
    handling,
    remember: 'nothing',
    capacity,
  });
  const ran = await waitFor(() => runsOf(workers) >= jobs, { timeoutMs: ms });
  const empty = ran && (await waitFor(async () => !(await stage.remains()), { timeoutMs: ms }));
  const endedAt = nowMicros();
  const after = await stage.usage();
  const tally = await stopWorkers(workers);
  await scheduler?.tell({ kind: 'stop' });
  const cut = stage.setting.readme === true && !ran;
  const done = cut ? tally.runs : jobs;
  const dead = { before: deadBefore, after: await deadRows(stage) };
  return {
    metrics: {
      jobsPerSecond: rate(tally, endedAt, done),
      ...costs({ before, after, jobs: done }, dead),
      startMs: (tally.firstAt - startedAt) / 1_000,
      seconds: (endedAt - tally.firstAt) / 1e6,
      jobs: done,
    },
    faults: cut ? faultsOf(tally, { jobs: 0, left: false }) : faultsOf(tally, { jobs, left: !empty }),
  };
}

function rate({ firstAt }: Tally, endedAt: number, jobs: number): number {
  return jobs === 0 ? 0 : (jobs * 1e6) / (endedAt - firstAt);
}
