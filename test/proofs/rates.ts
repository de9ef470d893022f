// A rate over every window, with several worker processes, and through changes of the leader.
import { until } from '../support/until.ts';
import type { ProofConfig } from './actors/config.ts';
import { rateOfProof } from './actors/config.ts';
import { reignOf } from './chaos.ts';
import type { Excess } from './checks.ts';
import { percentile, worstWindow } from './checks.ts';
import type { Fleet } from './fleet.ts';
import { doneJobs, load, openFleet } from './fleet.ts';
import { databaseNow, record, recordedItems } from './recorder.ts';

export interface RatesOptions {
  readonly url: string;
  /** Without a change of the leader: what counts for the use of the rate and the starts. */
  readonly seconds: number;
  /** Then the leader is killed, and stopped in order, this often: what counts for the windows, too. */
  readonly changes: number;
  readonly workers?: number;
}

export interface RatesReport {
  /** By the database's time of dispatch, as the rate is charged. */
  readonly worst: Excess;
  /** By the moment of the insert itself, which is some fraction of a millisecond later, not always the same. */
  readonly worstInserted: Excess;
  /** The share of the rate that was used while one scheduler led. */
  readonly used: number;
  /** From dispatch to the begin of the handler, by the worker's clock, in milliseconds. */
  readonly startMs: { readonly p50: number; readonly p99: number; readonly max: number };
  readonly dispatched: number;
  readonly elections: number;
}

/** Kills the leader, or stops it in order, and waits for the other to lead; then the first comes back. */
async function changeLeader(fleet: Fleet, config: ProofConfig, kill: boolean): Promise<void> {
  // a lease may be over on a busy machine, and nobody lead for a moment
  const { before, name, actor } = await until('one of them to lead', async () => {
    const before = await reignOf(fleet.database);
    const found = [...fleet.schedulers].find(([one]) => before.leader?.startsWith(one) === true);
    return found && { before, name: found[0], actor: found[1] };
  });
  if (kill) actor.signal('SIGKILL');
  else await actor.stop();
  await until('the standby to lead', async () => {
    const now = await reignOf(fleet.database);
    return now.epoch > before.epoch && now.leader !== null;
  });
  await fleet.startSchedulers([name], config);
}

async function sinceBegin(fleet: Fleet, atMs: number): Promise<void> {
  await until(
    'the window to pass',
    async () => (await databaseNow(fleet.database)) >= atMs,
    (atMs - (await databaseNow(fleet.database))) * 1.5 + 60_000,
  );
}

/** More jobs than the rate lets go, of 1 ms each. */
export async function ratesRun({ url, seconds, changes, workers = 4 }: RatesOptions): Promise<RatesReport> {
  const fleet = openFleet(url);
  const scheduler: ProofConfig = { policy: 'rate' };
  const { perSecond } = rateOfProof;
  try {
    await record(fleet.database);
    await fleet.startSchedulers(['left', 'right'], scheduler);
    const names = Array.from({ length: workers }, (_, n) => `node-${n}`);
    await fleet.startWorkers(names, { concurrency: 5 });
    for (const key of ['a', 'b', 'c', 'd']) {
      await load(fleet.database, { count: (seconds + changes * 4 + 10) * 30, key, tenant: key });
    }
    // the burst, and the first calls of everything, are over
    const fromMs = (await databaseNow(fleet.database)) + 1_000;
    const toMs = fromMs + seconds * 1_000;
    await sinceBegin(fleet, toMs);
    for (let change = 0; change < changes; change += 1) {
      await changeLeader(fleet, scheduler, change % 2 === 0);
      await sinceBegin(fleet, (await databaseNow(fleet.database)) + 1_000);
    }
    const items = await recordedItems(fleet.database);
    const within = items.filter(({ dispatchedMs }) => dispatchedMs >= fromMs && dispatchedMs < toMs);
    const began = new Map((await doneJobs(fleet.database, fromMs)).map(({ id, beganMs }) => [id, beganMs]));
    const starts = within.flatMap(({ id, dispatchedMs }) => {
      const beganMs = began.get(id);
      return beganMs === undefined ? [] : [beganMs - dispatchedMs];
    });
    return {
      worst: worstWindow(
        items.map(({ dispatchedMs }) => dispatchedMs),
        rateOfProof,
      ),
      worstInserted: worstWindow(
        items.map(({ insertedMs }) => insertedMs),
        rateOfProof,
      ),
      used: within.length / (perSecond * seconds),
      startMs: {
        p50: percentile(starts, 0.5),
        p99: percentile(starts, 0.99),
        max: Math.max(...starts),
      },
      dispatched: items.length,
      elections: (await reignOf(fleet.database)).epoch,
    };
  } finally {
    await fleet.stop();
  }
}
