// One run: the processes under load, the nemesis among them, then quiet until every job has ended, then the verdict.
import { mkdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { openArena } from './arena.ts';
import { exportAudit, jobsLeft, watch } from './audit.ts';
import type { Verdict } from './checker/check.ts';
import { check } from './checker/check.ts';
import type { HistoryEvent, RunFacts } from './checker/history.ts';
import { readHistory } from './checker/read.ts';
import { makersOf } from './faults/index.ts';
import { runNemesis } from './nemesis.ts';
import { planFaults } from './plan.ts';
import { monotonicMs, openHistory } from './record.ts';
import { meteredRate, tenantMax } from './workload.ts';

export interface ChaosOptions {
  readonly seed: number;
  /** With load and faults; the jobs that are left then take some more time. */
  readonly ms: number;
  /** Kinds of faults; `all`. */
  readonly faults: readonly string[];
  /** Jobs a second, of all producers. */
  readonly perSecond: number;
  /** Between the beginnings of two faults, on average. */
  readonly everyMs: number;
  /** Faults always go beside each other; default: every other deck of them comes one at a time. */
  readonly mixed?: boolean;
  /** Every planned fault is made, however late the machine is; default: none begins after `ms`. */
  readonly whole?: boolean;
  /** Share of the workers that are on the Python client, rounded up; default 0. */
  readonly python?: number;
  /** For histories and logs: an empty folder, made where there is none. */
  readonly folder: string;
}

export interface ChaosRun {
  readonly verdict: Verdict;
  readonly history: readonly HistoryEvent[];
  readonly kinds: readonly string[];
  readonly elapsedMs: number;
}

const producers = 2;
const workers = 3;
const lostAfterMs = 2_000;
/** Jobs that wait for their retry, are metered, or have to be taken over from whoever died last. */
const drainMs = 1_200_000;
/** No job has ended for so long, though the longest take a few seconds. */
const standstillMs = 240_000;

export async function chaosRun(options: ChaosOptions): Promise<ChaosRun> {
  const { seed, ms, folder, mixed = false, whole = false, python = 0 } = options;
  mkdirSync(folder, { recursive: true });
  const began = performance.now();
  const write = openHistory(folder, 'bench');
  write({ type: 'run', facts: factsOf(seed) });
  const config = {
    folder,
    seed,
    // one in two minutes or so: each takes three processes with all that they run
    poisonShare: 1 / (options.perSecond * 120),
    perSecond: options.perSecond / producers,
    concurrency: 50,
    heartbeatMs: 400,
    lostAfterMs,
    schedulerLeaseMs: 1_500,
  };
  const wants = (...kinds: readonly string[]): boolean => kinds.some((kind) => options.faults.includes(kind));
  const arena = await openArena({
    config,
    write,
    producers,
    workers,
    python,
    serverClock: wants('database-clock'),
    smallDisk: wants('disk-full', 'all'),
  });
  const over = new AbortController();
  const watching = watch(arena.server.adminUrl, write, over.signal);
  let kinds: readonly string[];
  try {
    const makers = makersOf(arena, options.faults);
    kinds = makers.map(({ kind }) => kind);
    await arena.fleet.start();
    const plan = planFaults({ seed, ms, kinds: makers, everyMs: options.everyMs, mixed });
    const startedAt = performance.now();
    await runNemesis({ seed, plan, makers, write, ms: whole ? Infinity : ms });
    await delay(Math.max(0, startedAt + ms - performance.now()));
    await arena.fleet.stopRole('producer');
    await drained(arena.server.adminUrl);
    await arena.fleet.stop();
    over.abort();
    await watching;
    await exportAudit(arena.server.adminUrl, write);
  } finally {
    over.abort();
    await watching;
    await arena.close();
  }
  const history = await readHistory(folder);
  return { verdict: check(history), history, kinds, elapsedMs: performance.now() - began };
}

/** The verdict over a history that was kept. */
export async function judge(folder: string): Promise<ChaosRun> {
  const history = await readHistory(folder);
  const kinds = new Set(history.flatMap((event) => (event.type === 'fault' ? [event.kind] : [])));
  let [first, last] = [Infinity, -Infinity];
  for (const event of history) {
    if (event.type !== 'down' && event.type !== 'run') continue;
    first = Math.min(first, event.at);
    last = Math.max(last, event.at);
  }
  return { verdict: check(history), history, kinds: [...kinds].toSorted(), elapsedMs: last - first };
}

function factsOf(seed: number): RunFacts {
  return {
    seed,
    lostAfterMs,
    groupMax: tenantMax,
    orderedQueues: ['ledger'],
    rate: { queue: 'metered', ...meteredRate },
    witnessTasks: ['effect'],
    crashMax: { poison: 3 },
    epochMs: Date.now() - monotonicMs(),
  };
}

/** Resolves when no job is left, or nothing more can be expected: the checker finds those that are open. */
async function drained(url: string): Promise<void> {
  const deadline = performance.now() + drainMs;
  let least = Infinity;
  let progressAt = performance.now();
  while (performance.now() < deadline && performance.now() < progressAt + standstillMs) {
    const left = await jobsLeft(url);
    if (left === 0) return;
    if (left !== undefined && left < least) {
      least = left;
      progressAt = performance.now();
    }
    await delay(250);
  }
}
