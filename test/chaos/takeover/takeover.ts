// Two schedulers, either of them killed with -9 at any moment and started again, while jobs are enqueued and worked.
import { createOperator } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Database } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { reignOf } from '../../proofs/chaos.ts';
import { seeded } from '../../proofs/checks.ts';
import type { Actor } from '../../support/actors.ts';
import { startActor } from '../../support/actors.ts';
import { quick } from '../../support/actors/tasks.ts';
import { until } from '../../support/until.ts';

export interface TakeoverOptions {
  readonly url: string;
  /** Ends when that many processes have been killed. */
  readonly kills: number;
  /** Replays the same choices: whom to kill, and when. */
  readonly seed: number;
}

export interface TakeoverReport {
  readonly enqueued: number;
  /** Terminal rows by job: all must be 1. */
  readonly lost: number;
  readonly twice: number;
  readonly kills: number;
  readonly elections: number;
  /** Milliseconds from each kill of a leader until another one led. */
  readonly takeoverMs: readonly number[];
  readonly doctorRuns: number;
  readonly findings: readonly string[];
}

/** Enqueues batches until told to stop; resolves to the ids that were acknowledged. */
async function produce(url: string, stopped: AbortSignal): Promise<readonly string[]> {
  const producer = createProducer({ connectionString: url });
  const ids: string[] = [];
  try {
    for (let n = 0; !stopped.aborted; n += 1) {
      const batch = Array.from({ length: 20 }, (_, i) =>
        quick.job({ n: n * 20 + i, tenant: `tenant-${i % 4}` }),
      );
      const enqueued = await producer.enqueueMany(batch);
      ids.push(...enqueued.map(({ id }) => id));
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
  } finally {
    await producer.close();
  }
  return ids;
}

/** Runs the doctor every second; resolves to everything it found. */
async function examine(
  url: string,
  stopped: AbortSignal,
): Promise<{ readonly runs: number; readonly findings: readonly string[] }> {
  const operator = createOperator({ connectionString: url });
  const findings: string[] = [];
  let runs = 0;
  try {
    while (!stopped.aborted) {
      const { findings: found } = await operator.doctor();
      runs += 1;
      findings.push(...found.map(({ check, count }) => `${check}: ${count}`));
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
  } finally {
    await operator.close();
  }
  return { runs, findings };
}

/** Longer than any takeover lasts, on however busy a machine. */
const waitMaxMs = 60_000;

/** As it is where nobody says otherwise. */
const leaseMs = 5_000;

const startScheduler = (url: string, name: string): Promise<Actor> =>
  startActor('scheduler', { url, name, options: { leaseMs } });

/** Kills one of the two, more often the leader, and starts it again; never both at once. Resolves to how long each takeover took. */
async function killSchedulers(
  database: Database,
  { url, kills, seed }: TakeoverOptions,
  schedulers: Map<string, Actor>,
): Promise<readonly number[]> {
  const random = seeded(seed);
  const takeoverMs: number[] = [];
  for (let n = 0; n < kills; n += 1) {
    await new Promise((resolve) => setTimeout(resolve, 300 + random() * 1_500));
    await until('a leader', async () => (await reignOf(database)).leader !== null, waitMaxMs);
    const before = await reignOf(database);
    const wantsLeader = random() < 0.7;
    const name =
      [...schedulers.keys()].find((one) => before.leader?.startsWith(one) === wantsLeader) ?? 'left';
    schedulers.get(name)?.signal('SIGKILL');
    if (before.leader?.startsWith(name) === true) {
      const epochOf = async (): Promise<number> => (await reignOf(database)).epoch;
      const beganMs = performance.now();
      await until('the standby to lead', async () => (await epochOf()) > before.epoch, waitMaxMs);
      takeoverMs.push(performance.now() - beganMs);
    }
    schedulers.set(name, await startScheduler(url, name));
  }
  return takeoverMs;
}

async function terminalRows(
  database: Database,
  ids: readonly string[],
): Promise<{ readonly lost: number; readonly twice: number }> {
  const [row] = await database.query<{ lost: number; twice: number }>(
    `select count(*) filter (where t.n = 0)::integer as lost, count(*) filter (where t.n > 1)::integer as twice
     from unnest($1::uuid[]) as x (id), lateral (
       select (select count(*) from pgqueue.history h where h.id = x.id)
            + (select count(*) from pgqueue.dead_letter d where d.id = x.id) as n) t`,
    [ids],
  );
  return row ?? { lost: -1, twice: -1 };
}

export async function takeoverRun(options: TakeoverOptions): Promise<TakeoverReport> {
  const { url } = options;
  const database = openDatabase({ connectionString: url });
  const schedulers = new Map<string, Actor>();
  const workers: Actor[] = [];
  const enough = new AbortController();
  const over = new AbortController();
  try {
    for (const name of ['left', 'right']) schedulers.set(name, await startScheduler(url, name));
    for (const name of ['node-1', 'node-2']) workers.push(await startActor('worker', { url, name }));
    const producing = produce(url, enough.signal);
    const examining = examine(url, over.signal);
    const takeoverMs = await killSchedulers(database, options, schedulers);
    enough.abort();
    const ids = await producing;
    const open = (): Promise<readonly { readonly open: boolean }[]> =>
      database.query<{ open: boolean }>('select exists (select from pgqueue.queue) as open', []);
    await until('every job to end', async () => (await open())[0]?.open === false, 240_000);
    over.abort();
    const { runs, findings } = await examining;
    const { epoch } = await reignOf(database);
    const rows = await terminalRows(database, ids);
    return {
      enqueued: ids.length,
      ...rows,
      kills: options.kills,
      elections: epoch,
      takeoverMs,
      doctorRuns: runs,
      findings,
    };
  } finally {
    enough.abort();
    over.abort();
    await Promise.all([...schedulers.values(), ...workers].map((actor) => actor.stop()));
    await database.close();
  }
}
