// Measures a small tenant beside a flood: the time of its jobs, and each tenant's share of the workers' time.
import { until } from '../support/until.ts';
import { median, timeShares } from './checks.ts';
import type { Fleet } from './fleet.ts';
import { doneJobs, load, openFleet } from './fleet.ts';
import { databaseNow } from './recorder.ts';

export interface FloodOptions {
  readonly url: string;
  /** Jobs of tenant A, enqueued before B's. */
  readonly flood: number;
  /** Number of rounds in which B enqueues its 100 jobs, alone and beside A's. */
  readonly rounds: number;
  readonly policy?: string;
}

/** From B's enqueue to the end of its last job, in milliseconds, round by round. */
export interface FloodReport {
  readonly aloneMs: readonly number[];
  readonly besideMs: readonly number[];
  /** Ratio of the medians. */
  readonly ratio: number;
  /** Jobs of A that ended a second while B's rounds ran: shows that the flood was active. */
  readonly floodPerSecond: number;
  /** A's jobs still waiting when the last round had ended; 0 would mean that B was alone at the end. */
  readonly floodLeft: number;
}

const slotsMost = 20;
const jobsOfB = 100;

/** Runs one round of B: enqueues its jobs, and waits until all have ended. */
async function roundOfB({ database }: Fleet): Promise<number> {
  const begunMs = await load(database, { count: jobsOfB, key: 'b', tenant: 'b' });
  await until(
    "B's jobs to end",
    async () => {
      const [row] = await database.query<{ waits: boolean }>(
        `select exists (select from pgqueue.queue where queue = 'default' and key = 'b' and run_after is null) as waits`,
        [],
      );
      return row?.waits === false;
    },
    120_000,
  );
  const [row] = await database.query<{ last: number; n: number }>(
    `select extract(epoch from max(finished))::float8 * 1000 as last, count(*)::integer as n from pgqueue.history
     where key = 'b' and finished >= to_timestamp($1::float8 / 1000)`,
    [begunMs],
  );
  if (row?.n !== jobsOfB) throw new Error(`${row?.n} of B's ${jobsOfB} jobs are done`);
  return row.last - begunMs;
}

async function waiting({ database }: Fleet, key: string): Promise<number> {
  const [row] = await database.query<{ n: number }>(
    `select count(*)::integer as n from pgqueue.queue where queue = 'default' and key = $1 and run_after is null`,
    [key],
  );
  return row?.n ?? 0;
}

async function rounds(fleet: Fleet, count: number): Promise<readonly number[]> {
  const times: number[] = [];
  for (let n = 0; n < count; n += 1) times.push(await roundOfB(fleet));
  return times;
}

/**
 * Floods as tenant A with 20 slots while B enqueues 100 jobs of 1 ms; and runs B alone with half of the
 * slots.
 */
export async function floodRun({
  url,
  flood,
  rounds: count,
  policy = 'fair',
}: FloodOptions): Promise<FloodReport> {
  const fleet = openFleet(url);
  try {
    await fleet.startSchedulers(['scheduler'], { policy });
    await fleet.startWorkers(['half'], { concurrency: slotsMost / 2 });
    await rounds(fleet, 2); // both processes have compiled what they run
    const aloneMs = await rounds(fleet, count);
    await fleet.stopWorkers();
    await fleet.startWorkers(['full'], { concurrency: slotsMost });
    await load(fleet.database, { count: flood, key: 'a', tenant: 'a' });
    const before = { left: await waiting(fleet, 'a'), atMs: await databaseNow(fleet.database) };
    const besideMs = await rounds(fleet, count);
    const floodLeft = await waiting(fleet, 'a');
    const seconds = ((await databaseNow(fleet.database)) - before.atMs) / 1_000;
    return {
      aloneMs,
      besideMs,
      ratio: median(besideMs) / median(aloneMs),
      floodPerSecond: (before.left - floodLeft) / seconds,
      floodLeft,
    };
  } finally {
    await fleet.stop();
  }
}

export interface SharesOptions {
  readonly url: string;
  readonly seconds: number;
  /** B's weight; A's is 1. The policy `fair-time-<weight>` has the same weight. */
  readonly weight: 1 | 3;
  /** Default 20. */
  readonly slots?: number;
  /** Milliseconds of each of B's jobs; A's take 50 times as long. Default 1. */
  readonly bMs?: number;
}

export interface SharesReport {
  /** B's share of the workers' time: of its leases from begin to end, by the database's clock. */
  readonly share: number;
  readonly fair: number;
  /** Deviation from the fair share, relative to the smaller of the two fair shares. */
  readonly error: number;
  readonly jobs: Readonly<Record<string, number>>;
}

/**
 * Runs two tenants with plenty of jobs; A's take 50 times as long as B's. Time is shared by weight, whatever
 * the number of jobs.
 */
export async function sharesRun({
  url,
  seconds,
  weight,
  slots = slotsMost,
  bMs = 1,
}: SharesOptions): Promise<SharesReport> {
  const fleet = openFleet(url);
  try {
    await load(fleet.database, {
      count: Math.ceil((slots * seconds * 40) / bMs),
      key: 'a',
      tenant: 'a',
      ms: 50 * bMs,
    });
    // the most that B's slots can run
    const most = ((slots * weight) / (1 + weight) / bMs) * 1_000 * (seconds + 5);
    await load(fleet.database, { count: Math.ceil(most), key: 'b', tenant: 'b', ms: bMs });
    await fleet.startSchedulers(['scheduler'], { policy: `fair-time-${weight}` });
    await fleet.startWorkers(['node'], { concurrency: slots });
    const begunMs = await databaseNow(fleet.database);
    // the first seconds teach the estimates what a job of each tenant takes
    const fromMs = begunMs + 2_000;
    const toMs = fromMs + seconds * 1_000;
    await until(
      'the window to pass',
      async () => (await databaseNow(fleet.database)) > toMs + 500,
      (seconds + 10) * 1_000,
    );
    for (const key of ['a', 'b']) {
      if ((await waiting(fleet, key)) === 0) throw new Error(`${key} ran out of jobs: nothing to share`);
    }
    const done = (await doneJobs(fleet.database, fromMs)).filter(({ startedMs }) => startedMs < toMs);
    const stretches = done.map(({ tenant, startedMs, finishedMs }) => ({
      group: tenant,
      beginMs: startedMs,
      endMs: finishedMs,
    }));
    const share = timeShares(stretches, { fromMs, toMs }).get('b') ?? 0;
    const fair = weight / (1 + weight);
    return {
      share,
      fair,
      error: Math.abs(share - fair) / Math.min(fair, 1 - fair),
      jobs: Object.fromEntries(
        [...Map.groupBy(done, ({ tenant }) => tenant)].map(([tenant, own]) => [tenant, own.length]),
      ),
    };
  } finally {
    await fleet.stop();
  }
}
