// Tests a limit by tenant over three queues, with many worker processes, retries and steals, while every
// process is killed at random moments.
import { createOperator } from '@pgqueue/postgres';
import { until } from '../support/until.ts';
import type { ProofConfig } from './actors/config.ts';
import { limitOfProof } from './actors/config.ts';
import type { Mischief } from './chaos.ts';
import { mischief, reignOf } from './chaos.ts';
import { mostAtOnce, overlapping, seeded } from './checks.ts';
import type { Fleet } from './fleet.ts';
import { countRows, load, openFleet } from './fleet.ts';
import type { RecordedItem } from './recorder.ts';
import { record, recordedItems } from './recorder.ts';

export interface LimitsOptions {
  readonly url: string;
  readonly seconds: number;
  readonly seed: number;
  readonly workers?: number;
}

/** Result of a run; `breaches`, `twice`, `findings` and `open` are empty or 0 if everything held. */
export interface LimitsReport {
  /** Most jobs that each tenant had in flight at one moment. */
  readonly most: Readonly<Record<string, number>>;
  readonly breaches: readonly string[];
  /** Jobs with two work items at one moment. */
  readonly twice: readonly string[];
  /** Findings of the doctor. */
  readonly findings: readonly string[];
  readonly enqueued: number;
  readonly done: number;
  readonly dispatched: number;
  /** Work items that were leased more than once: stolen, or released after a crash. */
  readonly stolen: number;
  readonly retried: number;
  readonly elections: number;
  readonly mischief: Mischief;
}

const tenants = ['north', 'east', 'south', 'west'];
const queues = ['mails', 'reports', 'hooks'];

/** Returns the tenants that exceeded the limit, counting their jobs from dispatch to end. */
export function breachesOf(items: readonly RecordedItem[], most: number = limitOfProof): readonly string[] {
  return crowds(items)
    .filter(({ count }) => count > most)
    .map(({ group, count, atMs }) => `${group}: ${count} at ${new Date(atMs).toISOString()}`);
}

function crowds(items: readonly RecordedItem[]): ReturnType<typeof mostAtOnce> {
  return mostAtOnce(
    items.map(({ tenant, insertedMs, endedMs }) => ({
      group: tenant,
      beginMs: insertedMs,
      endMs: endedMs,
    })),
  );
}

/** Keeps some hundred jobs waiting, of each tenant in each queue; some of them fail once or twice. */
async function produce({ database }: Fleet, seed: number, stopped: AbortSignal): Promise<number> {
  const random = seeded(seed + 1);
  let enqueued = 0;
  while (!stopped.aborted) {
    if ((await countRows(database, 'queue')) < 400) {
      for (const tenant of tenants) {
        const queue = queues[Math.floor(random() * queues.length)] ?? 'mails';
        const key = `${tenant}-${Math.floor(random() * 3)}`;
        const fails = random() < 0.3 ? 1 + Math.floor(random() * 2) : 0;
        const count = 5 + Math.floor(random() * 20);
        await load(database, { count, queue, key, tenant, fails, ms: 2 + random() * 40 });
        enqueued += count;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return enqueued;
}

async function doctor(url: string): Promise<readonly string[]> {
  const operator = createOperator({ connectionString: url });
  try {
    const { findings } = await operator.doctor();
    return findings.map(({ check, count }) => `${check}: ${count}`);
  } finally {
    await operator.close();
  }
}

export async function limitsRun({ url, seconds, seed, workers = 8 }: LimitsOptions): Promise<LimitsReport> {
  const fleet = openFleet(url);
  const enough = new AbortController();
  const scheduler: ProofConfig = { policy: 'limit-tenant' };
  const worker: ProofConfig = { concurrency: 4 };
  try {
    await record(fleet.database);
    await fleet.startSchedulers(['left', 'right'], scheduler);
    const names = Array.from({ length: workers }, (_, n) => `node-${n}`);
    await fleet.startWorkers(names, worker);
    const producing = produce(fleet, seed, enough.signal);
    const done = await mischief({ fleet, seconds, seed, scheduler, worker });
    enough.abort();
    const enqueued = await producing;
    await until('every job to end', async () => (await countRows(fleet.database, 'queue')) === 0, 120_000);
    const items = await recordedItems(fleet.database);
    return {
      most: Object.fromEntries(crowds(items).map(({ group, count }) => [group, count])),
      breaches: breachesOf(items),
      twice: overlapping(
        items.map(({ id, insertedMs, endedMs }) => ({ group: id, beginMs: insertedMs, endMs: endedMs })),
      ),
      findings: await doctor(url),
      enqueued,
      done: await countRows(fleet.database, 'history', "outcome = 'done'"),
      dispatched: items.length,
      stolen: items.filter(({ leases }) => leases > 1).length,
      retried: items.filter(({ tries }) => tries > 0).length,
      elections: (await reignOf(fleet.database)).epoch,
      mischief: done,
    };
  } finally {
    enough.abort();
    await fleet.stop();
  }
}
