import { setTimeout as delay } from 'node:timers/promises';
import { nowMicros } from '../load.ts';
import type { BenchOptions } from '../options.ts';
import type { Wish } from '../peers/peer.ts';
import type { Stage } from '../actors/stage.ts';
import { shareOf } from './drain.ts';
import { assemble, faultsOf, fill, runsOf, startWorkers, stopWorkers, waitFor } from './measure.ts';
import type { Measured, Work } from './work.ts';

const many = 100_000;
const few = 100;
const slots = 10;
const workMs = 1;
const headStartMs = 2_000;
const beginMs = 20_000;
/** Time after which the measurement gives up on B's jobs. */
const doneMs = 90_000;

export const fair: Work = {
  name: 'fair',
  says: `A has ${many.toLocaleString('en-US')} jobs waiting, which run for two seconds already, when B enqueues ${few}. Each takes ${workMs} ms; one worker process, ${slots} at a time. How long until B's are done, and how fast A's went before and meanwhile.`,
  cases: () => [
    {
      name: 'with A and B as keys, nothing else',
      takes: (peer, setting) => setting.readme !== true && peer.name !== 'table',
      run: (stage, options) => run(stage, options, { setting: stage.setting.name, concurrency: slots }),
    },
    {
      name: "with the peer's own means",
      takes: (peer, setting) => setting.name === 'best' && ['graphile-worker', 'pg-boss'].includes(peer.name),
      run: (stage, options) =>
        run(stage, options, { setting: stage.setting.name, concurrency: slots, ownKeys: true }),
    },
  ],
};

async function run(stage: Stage, options: BenchOptions, wish: Wish): Promise<Measured> {
  const crew = await assemble(stage, wish, 1);
  const { workers } = crew;
  const a = Math.ceil(Math.min(many, options.jobs) * shareOf(stage.setting));
  const b = Math.min(few, a);
  await fill(crew, wish, { count: a, key: 'a' });
  await stage.settle();
  await startWorkers(workers, {
    wish,
    handling: { kind: 'sleep', ms: workMs },
    remember: 'ended',
    capacity: a + b,
    watchFrom: a,
  });
  await waitFor(() => runsOf(workers) > 0, { timeoutMs: beginMs });
  const beganAt = nowMicros();
  await delay(options.smoke ? headStartMs / 10 : headStartMs);
  const enqueuedAt = nowMicros();
  await fill(crew, wish, { from: a, count: b, key: 'b' });
  const done = await waitFor(() => watched(workers) >= b, { timeoutMs: doneMs });
  const waitedTo = nowMicros();
  if (options.smoke) await waitFor(() => runsOf(workers) >= a + b, { timeoutMs: doneMs });
  const tally = await stopWorkers(workers);
  const ended = tally.remembered[0] ?? new Float64Array();
  const endsOfB = ended.subarray(a).filter((at) => at > 0 && (done || at <= waitedTo));
  const doneAt = done ? Math.max(...endsOfB) : NaN;
  const rateOfA = (from: number, to: number): number =>
    (ended.subarray(0, a).reduce((sum, at) => sum + (at >= from && at < to ? 1 : 0), 0) * 1e6) / (to - from);
  return {
    metrics: {
      bDoneMs: (doneAt - enqueuedAt) / 1_000,
      aBefore: rateOfA(beganAt, enqueuedAt),
      aMeanwhile: rateOfA(enqueuedAt, done ? doneAt : waitedTo),
    },
    faults: [
      ...faultsOf(tally, { jobs: options.smoke ? a + b : 0, left: false }),
      ...(done
        ? []
        : [`of B's ${b} jobs ${endsOfB.length} were done in ${doneMs / 1_000} s, then it was given up`]),
    ],
  };
}

function watched(workers: readonly { readonly progress: () => { readonly watched: number } }[]): number {
  return workers.reduce((sum, worker) => sum + worker.progress().watched, 0);
}
