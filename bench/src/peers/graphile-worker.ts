import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import type { RunnerOptions } from 'graphile-worker';
import type { BenchJob, Payload } from '../load.ts';
import type { BenchProducer, Peer, Place, Runner, Stoppable, Wish } from './peer.ts';
import { anyRow } from './sql.ts';

/** Discards log output: graphile-worker logs every job, and the benchmark would measure the terminal. */
const logger = new Logger(() => () => {});

export const peer: Peer = {
  name: 'graphile-worker',
  store: 'postgres',
  packageName: 'graphile-worker',
  settings: [
    {
      name: 'best',
      says: 'concurrentJobs 24, maxPoolSize 25, localQueue.size 500, completeJobBatchDelay 0, failJobBatchDelay 0 (its documentation on performance), no log; with queue names none of that, but as many concurrentJobs as the work has, maxPoolSize 2',
    },
    { name: 'readme', says: 'concurrency 5, pollInterval 1000 (its quick start), no log', readme: true },
  ],
  install: async ({ databaseUrl }) => {
    const utils = await makeWorkerUtils({ connectionString: databaseUrl, logger });
    try {
      await utils.migrate();
    } finally {
      await utils.release();
    }
  },
  remains: ({ databaseUrl }) =>
    anyRow(databaseUrl, 'select 1 from graphile_worker._private_jobs order by id limit 1'),
  startWorker,
  openProducer,
};

function options(wish: Wish): RunnerOptions {
  if (wish.setting === 'readme') {
    return { concurrency: wish.concurrency ?? 5, pollInterval: 1_000, noHandleSignals: true };
  }
  if (wish.ownKeys) return queuedOptions(wish);
  return {
    noHandleSignals: true,
    preset: {
      worker: {
        concurrentJobs: wish.concurrency ?? 24,
        maxPoolSize: (wish.concurrency ?? 24) + 1,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
  };
}

/**
 * Options for jobs with queue names.
 *
 * No local queue. From each batch it fetches, which holds the earliest jobs, it keeps one job per queue name,
 * and takes a batch with fewer than `size` jobs as the last one for `pollInterval`. It would run one of A's
 * jobs every 2 s, and none of B's.
 *
 * One connection besides the one for LISTEN. The worker completes a job without waiting for the result and
 * fetches the next at once. On another connection the fetch overtakes the completion and finds A's queue
 * still locked; then the worker waits for `pollInterval`, having read all of A's jobs in vain. A shorter
 * `pollInterval` only repeats that more often.
 */
function queuedOptions({ concurrency = 24 }: Wish): RunnerOptions {
  return { noHandleSignals: true, preset: { worker: { concurrentJobs: concurrency, maxPoolSize: 2 } } };
}

async function startWorker({ databaseUrl }: Place, wish: Wish, { handle }: Runner): Promise<Stoppable> {
  const runner = await run({
    ...options(wish),
    connectionString: databaseUrl,
    logger,
    taskList: { bench: (payload) => handle(payload as Payload) },
  });
  return { stop: () => runner.stop() };
}

async function openProducer(
  { databaseUrl }: Place,
  { ownKeys }: Wish,
  { calls }: { readonly calls: number },
): Promise<BenchProducer> {
  const utils = await makeWorkerUtils({ connectionString: databaseUrl, maxPoolSize: calls + 1, logger });
  const spec = ({ key }: BenchJob): { readonly queueName?: string } =>
    ownKeys && key !== undefined ? { queueName: key } : {};
  return {
    one: async (job) => void (await utils.addJob('bench', job.payload, spec(job))),
    many: async (jobs) =>
      void (await utils.addJobs(
        jobs.map((job) => ({ identifier: 'bench', payload: job.payload, ...spec(job) })),
      )),
    close: async () => {
      await utils.release();
    },
  };
}
