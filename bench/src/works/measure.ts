// Steps shared by the works: fill, start, wait, count.
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Actor } from '../actors/crew.ts';
import type { Range } from '../load.ts';
import type { Answer, Worked, WorkOrder } from '../actors/orders.ts';
import type { Wish } from '../peers/peer.ts';
import type { DeadRows, Stage, Usage } from '../actors/stage.ts';

export interface Crew {
  readonly producer: Actor;
  readonly workers: readonly Actor[];
  readonly scheduler: Actor | undefined;
}

/**
 * Starts a producer, `count` workers and, if the peer has one, the scheduler process, which begins at once.
 */
export async function assemble(stage: Stage, wish: Wish, count: number): Promise<Crew> {
  const [producer, ...workers] = await Promise.all([
    stage.hire('producer'),
    ...Array.from({ length: count }, () => stage.hire('worker')),
  ]);
  return { producer, workers, scheduler: await hireScheduler(stage, wish) };
}

export async function hireScheduler(stage: Stage, wish: Wish): Promise<Actor | undefined> {
  if (stage.peer.startScheduler === undefined) return undefined;
  const scheduler = await stage.hire('scheduler');
  await scheduler.tell({ kind: 'schedule', wish });
  return scheduler;
}

/** Jobs a bulk call. */
const bulk = 1_000;
const bulkConnections = 4;

export async function fill(
  { producer }: Pick<Crew, 'producer'>,
  wish: Wish,
  { count, from = 0, keys, key }: Partial<Range> & { readonly count: number },
): Promise<void> {
  await producer.tell({
    kind: 'enqueue',
    wish,
    from,
    count,
    batch: bulk,
    // one connection keeps the jobs of a key in order
    connections: keys === undefined ? bulkConnections : 1,
    ...(keys === undefined ? {} : { keys }),
    ...(key === undefined ? {} : { key }),
  });
}

export function runsOf(workers: readonly Actor[]): number {
  return workers.reduce((sum, worker) => sum + worker.progress().runs, 0);
}

const pollMs = 4;

/** Polls a condition and reports whether it became true in time. */
export async function waitFor(
  what: () => boolean | Promise<boolean>,
  { timeoutMs, everyMs = pollMs }: { readonly timeoutMs: number; readonly everyMs?: number },
): Promise<boolean> {
  const until = performance.now() + timeoutMs;
  while (performance.now() < until) {
    if (await what()) return true;
    await delay(everyMs);
  }
  return what();
}

export async function startWorkers(workers: readonly Actor[], order: Omit<WorkOrder, 'kind'>): Promise<void> {
  await Promise.all(workers.map((worker) => worker.tell({ kind: 'work', ...order })));
}

export async function stopWorkers(workers: readonly Actor[]): Promise<Tally> {
  const answers = await Promise.all(workers.map((worker) => worker.tell({ kind: 'stop' })));
  return tallyOf(answers.map(workedOf));
}

function workedOf(answer: Answer): Worked {
  if (answer.kind !== 'worked') throw new Error(`a worker answered "${answer.kind}"`);
  return answer;
}

/** Combined results of all workers. */
export interface Tally {
  readonly runs: number;
  readonly distinct: number;
  /** Start of the first job, in microseconds since 1970; Infinity if none ran. */
  readonly firstAt: number;
  readonly remembered: readonly Float64Array[];
  /** Claims with the time they ended; empty if the peer does not report them. */
  readonly claims: readonly { readonly atMicros: number; readonly ms: number }[];
}

export function tallyOf(worked: readonly Worked[]): Tally {
  const seen = worked.map(({ seen }) => readFileSync(seen));
  let distinct = 0;
  for (let at = 0; at < (seen[0]?.length ?? 0); at += 1) {
    let byte = seen.reduce((all, one) => all | (one[at] ?? 0), 0);
    for (; byte !== 0; byte &= byte - 1) distinct += 1;
  }
  return {
    runs: worked.reduce((sum, { runs }) => sum + runs, 0),
    distinct,
    firstAt: Math.min(...worked.flatMap(({ firstAt }) => (firstAt === 0 ? [] : [firstAt]))),
    remembered: worked.flatMap(({ remembered }) => (remembered === undefined ? [] : [doublesOf(remembered)])),
    claims: worked.flatMap(({ claims }) => claimsOf(doublesOf(claims))),
  };
}

function claimsOf(doubles: Float64Array): Tally['claims'] {
  return Array.from({ length: doubles.length / 2 }, (_, at) => ({
    atMicros: doubles[2 * at] ?? NaN,
    ms: doubles[2 * at + 1] ?? NaN,
  }));
}

function doublesOf(file: string): Float64Array {
  const bytes = readFileSync(file);
  return new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

/** Faults of a run in which each of `jobs` jobs should have run exactly once. */
export function faultsOf(
  { runs, distinct }: Tally,
  { jobs, left }: { readonly jobs: number; readonly left: boolean },
): readonly string[] {
  return [
    ...(distinct < jobs ? [`${jobs - distinct} of ${jobs} jobs did not run`] : []),
    ...(runs > distinct ? [`${runs - distinct} runs too many`] : []),
    ...(left ? ['jobs are left over'] : []),
  ];
}

/** Resources used per job between two moments. */
export function costs(
  { before, after, jobs }: { readonly before: Usage; readonly after: Usage; readonly jobs: number },
  dead: { readonly before: DeadRows; readonly after: DeadRows },
): Readonly<Record<string, number>> {
  return {
    nodeMicros: ((after.nodeMs - before.nodeMs) * 1_000) / jobs,
    storeMicros: ((after.storeMs - before.storeMs) * 1_000) / jobs,
    walBytes: (after.walBytes - before.walBytes) / jobs,
    deadRows: (dead.after.made - dead.before.made) / jobs,
  };
}
