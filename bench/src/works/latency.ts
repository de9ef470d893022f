import type { BenchOptions } from '../options.ts';
import type { Wish } from '../peers/peer.ts';
import type { Stage } from '../actors/stage.ts';
import { percentile } from '../statistics.ts';
import { assemble, faultsOf, runsOf, startWorkers, stopWorkers, waitFor } from './measure.ts';
import type { Measured, Work } from './work.ts';

const perSecond = 50;
/** Rate of the case in which jobs come all the time, and the connections that enqueue them one by one. */
const busy = { perSecond: 1_000, connections: 4 };
const secondsMax = 20;
const finishMs = 20_000;
/** Time for connections to open and code to be compiled. */
const warmUpSeconds = 2;

export const latency: Work = {
  name: 'latency',
  says: `From the call of an enqueue to the begin of its handler, milliseconds. Jobs come one by one, at random times: ${perSecond} a second, and nothing else runs, or ${busy.perSecond.toLocaleString('en-US')}.`,
  cases: ({ smoke }) => [
    {
      name: 'woken up',
      run: (stage, options) => waited(stage, options, { setting: stage.setting.name, quick: true }),
    },
    {
      name: `${busy.perSecond.toLocaleString('en-US')} a second`,
      takes: (_peer, setting) => setting.readme !== true,
      run: (stage, options) => waited(stage, options, { setting: stage.setting.name, quick: true }, busy),
    },
    {
      name: 'by polling only',
      takes: (peer, setting) =>
        !smoke && setting.readme !== true && ['pgqueue', 'pg-boss'].includes(peer.name),
      run: (stage, options) => waited(stage, options, { setting: stage.setting.name, polling: true }),
    },
  ],
};

async function waited(
  stage: Stage,
  options: BenchOptions,
  wish: Wish,
  flow = { perSecond, connections: 1 },
): Promise<Measured> {
  const crew = await assemble(stage, wish, 1);
  const rate = Math.min(flow.perSecond, (stage.setting.perSecond ?? Infinity) / 2);
  const seconds = Math.min(secondsMax, options.seconds);
  const warmUp = Math.max(1, Math.round(warmUpSeconds * rate));
  const jobs = warmUp + Math.max(1, Math.round(seconds * rate));
  await startWorkers(crew.workers, {
    wish,
    handling: { kind: 'nothing' },
    remember: 'waited',
    capacity: jobs,
  });
  await crew.producer.tell({
    kind: 'feed',
    wish,
    from: 0,
    to: jobs,
    batch: 1,
    connections: flow.connections,
    leadMax: jobs,
    perSecond: rate,
  });
  const timeoutMs = (jobs / rate) * 2_000 + finishMs;
  await waitFor(() => runsOf(crew.workers) >= jobs, { timeoutMs });
  await crew.producer.tell({ kind: 'stop' });
  const left = !(await waitFor(async () => !(await stage.remains()), { timeoutMs: finishMs, everyMs: 20 }));
  const tally = await stopWorkers(crew.workers);
  const waits = Array.from(tally.remembered[0] ?? [], (micros) => micros / 1_000).slice(warmUp);
  return {
    metrics: {
      p50: percentile(waits, 0.5),
      p90: percentile(waits, 0.9),
      p99: percentile(waits, 0.99),
      max: percentile(waits, 1),
      jobs: waits.length,
    },
    faults: faultsOf(tally, { jobs, left }),
  };
}
