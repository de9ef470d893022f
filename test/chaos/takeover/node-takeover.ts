// Measures a pool whose slots are all busy, with a backlog behind, when one of its nodes is killed with -9:
// the time until each of its jobs runs elsewhere. Nobody starts the node again before that.
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '@pgqueue/postgres';
import { openDatabase, resetNode } from '@pgqueue/postgres/internal';
import type { Producer } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import type { Actor } from '../../support/actors.ts';
import { startActor } from '../../support/actors.ts';
import { harmless } from '../../support/actors/tasks.ts';
import { until } from '../../support/until.ts';

export interface NodeTakeoverOptions {
  readonly url: string;
  /** Number of rounds; one node dies in each. */
  readonly rounds: number;
  readonly nodes: number;
  /**
   * The way in which the dead node is found: by the end of its session, with default clocks; by a second of
   * silence; by an operator at once.
   */
  readonly by: 'session' | 'silence' | 'reset';
  /** Milliseconds of the shortest and the longest job. */
  readonly jobMs: readonly [from: number, to: number];
}

export interface NodeTakeover {
  /** Milliseconds from the kill until no job was leased by the dead node any more, by round. */
  readonly foundMs: readonly number[];
  /** Milliseconds from the kill until another node had the job, for each job that the dead node held. */
  readonly tookMs: readonly number[];
  /** Number of work items that began on other nodes while those jobs waited. */
  readonly wentOn: number;
}

/** Slots of each node. */
export const slots = 10;
const lostAfterMs = 1_000;
/** Longest milliseconds until a dead node is found. */
export const foundMaxMs = { session: 5_000, silence: lostAfterMs, reset: 0 } as const;
const backlog = 20 * slots;

const waitMaxMs = 150_000;

export async function nodeTakeover(options: NodeTakeoverOptions): Promise<NodeTakeover> {
  const { url, rounds } = options;
  const nodes = nodesOf(options);
  const database = openDatabase({ connectionString: url, connectionsMax: 3 });
  const producer = createProducer({ connectionString: url });
  const actors = new Map<string, Actor>();
  const over = new AbortController();
  let feeding: Promise<void> | undefined;
  try {
    const begin = async (name: string, start: () => Promise<Actor>): Promise<void> => {
      actors.set(name, await start());
    };
    await Promise.all([
      begin('scheduler', () => startActor('scheduler', { url, name: 'scheduler' })),
      ...nodes.map((name) => begin(name, () => startNode(options, name))),
    ]);
    feeding = feed({ database, producer, options, stopped: over.signal });
    feeding.catch(() => {}); // reported when everything has ended
    const took: number[] = [];
    const foundMs: number[] = [];
    let wentOn = 0;
    for (let round = 0; round < rounds; round += 1) {
      const name = nodes[round % nodes.length] ?? '';
      const victim = actors.get(name);
      if (victim === undefined) throw new Error(`no process ${name}`);
      const one = await strike(database, victim, options);
      took.push(...one.tookMs);
      foundMs.push(one.foundMs);
      wentOn += one.wentOn;
      if (round + 1 < rounds) await begin(name, () => startNode(options, name));
    }
    return { foundMs, tookMs: took, wentOn };
  } finally {
    over.abort();
    await feeding;
    await Promise.all([...actors.values()].map((actor) => actor.stop()));
    await Promise.all([producer.close(), database.close()]);
  }
}

function nodesOf({ nodes }: NodeTakeoverOptions): readonly string[] {
  return Array.from({ length: nodes }, (_, index) => `node-${index + 1}`);
}

function startNode({ url, by }: NodeTakeoverOptions, name: string): Promise<Actor> {
  const file = new URL('../../support/actors/poisoned.ts', import.meta.url);
  const clocks = by === 'session' ? {} : { heartbeatMs: 200, lostAfterMs };
  return startActor('worker', { url, name, file, options: { node: name, ...clocks } });
}

interface Feeding {
  readonly database: Database;
  readonly producer: Producer;
  readonly options: NodeTakeoverOptions;
  readonly stopped: AbortSignal;
}

/** Keeps a backlog behind the slots, until `stopped` aborts. */
async function feed({ database, producer, options, stopped }: Feeding): Promise<void> {
  const [from, to] = options.jobMs;
  for (let n = 0; !stopped.aborted; n += 1) {
    const [row] = await database.query<{ n: number }>('select count(*)::integer as n from pgqueue.queue', []);
    const missing = backlog + options.nodes * slots - (row?.n ?? 0);
    // job lengths take turns, so that no two runs differ by chance
    const jobs = Array.from({ length: Math.max(0, missing) }, (_, index) =>
      harmless.job({ ms: Math.round(from + ((to - from) * ((n * 7 + index * 3) % 10)) / 9) }),
    );
    if (jobs.length > 0) await producer.enqueueMany(jobs);
    await delay(100, undefined, { signal: stopped }).catch(() => {});
  }
}

/** Kills a node when all nodes are busy. Resolves when others run, or have done, the jobs that it held. */
async function strike(
  database: Database,
  victim: Actor,
  options: NodeTakeoverOptions,
): Promise<{ readonly foundMs: number; readonly tookMs: readonly number[]; readonly wentOn: number }> {
  await until('all nodes to be busy', () => busy(database, options), 60_000);
  const exited = new Promise((resolve) => victim.process.once('exit', resolve));
  const began = performance.now();
  victim.signal('SIGKILL');
  await exited;
  const held = await database.query<{ id: string }>('select id from pgqueue.work_item where lock_key = $1', [
    victim.name,
  ]);
  if (options.by === 'reset') await resetNode(database, victim.name);
  const left = new Set(held.map(({ id }) => id));
  const tookMs: number[] = [];
  let foundMs = Infinity;
  await until(
    `others to have what ${victim.name} held`,
    async () => {
      const rows = await database.query<{ id: string; held: boolean }>(
        `select id, lock_key is not null as held from pgqueue.work_item
         where id = any ($1::uuid[]) and (lock_key is null or lock_key = $2)`,
        [[...left], victim.name],
      );
      if (rows.every(({ held: stillHeld }) => !stillHeld))
        foundMs = Math.min(foundMs, performance.now() - began);
      const waiting = new Set(rows.map(({ id }) => id));
      for (const id of left) {
        if (waiting.has(id)) continue;
        left.delete(id);
        tookMs.push(performance.now() - began);
      }
      return left.size === 0;
    },
    waitMaxMs,
  );
  const [row] = await database.query<{ n: number }>(
    `select count(*)::integer as n from pgqueue.work_item
     where lock_key is not null and not suspect and started > clock_timestamp() - $1 * interval '1 millisecond'`,
    [performance.now() - began],
  );
  return { foundMs, tookMs, wentOn: row?.n ?? 0 };
}

/**
 * True if at least half of the slots of every node run jobs that were never lost. Lost jobs of an earlier
 * round begin one by one. Short jobs leave some slots free at any moment.
 */
async function busy(database: Database, { nodes }: NodeTakeoverOptions): Promise<boolean> {
  const rows = await database.query<{ n: number; suspects: number }>(
    `select count(*)::integer as n, count(*) filter (where suspect)::integer as suspects
     from pgqueue.work_queue where lock_key is not null group by lock_key`,
    [],
  );
  return rows.length === nodes && rows.every(({ n, suspects }) => n >= slots / 2 && suspects === 0);
}
