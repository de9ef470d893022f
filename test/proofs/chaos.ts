// Kills and freezes workers and leaders, by a seed.
import type { Database } from '@pgqueue/postgres';
import type { Actor } from '../support/actors.ts';
import { until } from '../support/until.ts';
import type { ProofConfig } from './actors/config.ts';
import { seeded } from './checks.ts';
import type { Fleet } from './fleet.ts';

export interface ChaosOptions {
  readonly fleet: Fleet;
  readonly seconds: number;
  readonly seed: number;
  readonly scheduler: ProofConfig;
  readonly worker: ProofConfig;
}

/** How often each of them happened. */
export interface Mischief {
  workersKilled: number;
  workersFrozen: number;
  leadersKilled: number;
  leadersFrozen: number;
}

export interface Reign {
  readonly leader: string | null;
  readonly epoch: number;
}

export async function reignOf(database: Database): Promise<Reign> {
  const [row] = await database.query<Reign>(
    'select case when expires > clock_timestamp() then leader end as leader, epoch::float8 as epoch from pgqueue.scheduler_lease',
    [],
  );
  return row ?? { leader: null, epoch: 0 };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function freeze(actor: Actor, ms: number): Promise<void> {
  actor.signal('SIGSTOP');
  await pause(ms);
  actor.signal('SIGCONT');
}

/** The process that leads at present. */
async function leaderIn({ database, schedulers }: Fleet): Promise<readonly [string, Actor] | undefined> {
  const { leader } = await reignOf(database);
  return [...schedulers].find(([name]) => leader?.startsWith(name) === true);
}

/** Resolves when the time is up, everything runs again, and somebody leads. */
export async function mischief(options: ChaosOptions): Promise<Mischief> {
  const { fleet, seconds, seed } = options;
  const random = seeded(seed);
  const done: Mischief = { workersKilled: 0, workersFrozen: 0, leadersKilled: 0, leadersFrozen: 0 };
  const under: Promise<void>[] = [];
  // whoever is dead or frozen at present is left alone
  const busy = new Set<string>();
  const apart = (name: string, act: () => Promise<void>): void => {
    busy.add(name);
    under.push(act().finally(() => busy.delete(name)));
  };
  const hitWorker = (): void => {
    const free = [...fleet.workers].filter(([name]) => !busy.has(name));
    const [name, actor] = free[Math.floor(random() * free.length)] ?? [];
    if (name === undefined || actor === undefined || busy.size >= 3) return;
    if (random() < 0.6) {
      done.workersKilled += 1;
      actor.signal('SIGKILL');
      apart(name, () => fleet.startWorkers([name], options.worker));
    } else {
      // past the heartbeat's limit and the leases' ends: what it held is run by others before it wakes
      done.workersFrozen += 1;
      apart(name, () => freeze(actor, 1_800 + random() * 1_000));
    }
  };
  const hitLeader = async (): Promise<void> => {
    const [name, actor] = (await leaderIn(fleet)) ?? [];
    if (
      name === undefined ||
      actor === undefined ||
      [...fleet.schedulers.keys()].some((one) => busy.has(one))
    )
      return;
    if (random() < 0.6) {
      done.leadersKilled += 1;
      actor.signal('SIGKILL');
      apart(name, () => fleet.startSchedulers([name], options.scheduler));
    } else {
      done.leadersFrozen += 1;
      apart(name, () => freeze(actor, 1_200 + random() * 600));
    }
  };
  const deadline = performance.now() + seconds * 1_000;
  while (performance.now() < deadline) {
    await pause(150 + random() * 500);
    if (random() < 0.7) hitWorker();
    else await hitLeader();
  }
  await Promise.all(under);
  await until('somebody to lead', async () => (await reignOf(fleet.database)).leader !== null);
  return done;
}
