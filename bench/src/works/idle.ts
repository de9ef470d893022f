import { setTimeout as delay } from 'node:timers/promises';
import type { BenchOptions } from '../options.ts';
import type { Wish } from '../peers/peer.ts';
import { withClient } from '../peers/sql.ts';
import type { Stage } from '../actors/stage.ts';
import { assemble, hireScheduler, startWorkers, stopWorkers } from './measure.ts';
import type { Measured, Work } from './work.ts';

const workers = 3;
const secondsMax = 30;
/**
 * Wait before the measurement: the processes find nothing to do, and the server has counted their start-up.
 */
const settleSeconds = 15;

export const idle: Work = {
  name: 'idle',
  says: `What a system takes that has nothing to do: ${workers} worker processes, and where the peer has one a scheduler with a standby. Transactions a second by PostgreSQL's count; CPU in percent of a core.`,
  cases: () => [
    { name: `${workers} worker processes`, takes: (peer) => peer.store === 'postgres', run: nothing },
  ],
};

async function nothing(stage: Stage, options: BenchOptions): Promise<Measured> {
  const wish: Wish = { setting: stage.setting.name };
  const crew = await assemble(stage, wish, options.smoke ? 1 : workers);
  const standby = await hireScheduler(stage, wish);
  const order = { wish, handling: { kind: 'nothing' }, remember: 'nothing', capacity: 8 } as const;
  await startWorkers(crew.workers, { ...order, idle: true });
  const seconds = Math.min(secondsMax, options.seconds);
  await delay((options.smoke ? 0.2 : settleSeconds) * 1_000);
  const before = { usage: await stage.usage(), transactions: await transactions(stage) };
  await delay(seconds * 1_000);
  const after = { usage: await stage.usage(), transactions: await transactions(stage) };
  const tally = await stopWorkers(crew.workers);
  await standby?.tell({ kind: 'stop' });
  await crew.scheduler?.tell({ kind: 'stop' });
  const percent = (name: 'nodeMs' | 'storeMs'): number =>
    ((after.usage[name] - before.usage[name]) / (seconds * 1_000)) * 100;
  return {
    metrics: {
      transactionsPerSecond: (after.transactions - before.transactions) / seconds,
      nodePercent: percent('nodeMs'),
      storePercent: percent('storeMs'),
    },
    faults: tally.runs === 0 ? [] : [`${tally.runs} runs of jobs that nobody enqueued`],
  };
}

/** Transactions of the stage's database. The query runs in another database, so that it is not counted. */
function transactions({ place }: Stage): Promise<number> {
  const database = new URL(place.databaseUrl).pathname.slice(1);
  const elsewhere = new URL(place.databaseUrl);
  elsewhere.pathname = '/postgres';
  return withClient(elsewhere.href, async (client) => {
    const { rows } = await client.query<{ count: number }>(
      'select (xact_commit + xact_rollback)::float8 as count from pg_stat_database where datname = $1',
      [database],
    );
    return rows[0]?.count ?? NaN;
  });
}
