import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { errorData, retryPauseMs } from '@pgqueue/core';
import type { Lease, Settlement, Target, Verdict } from '@pgqueue/postgres';
import { isTransient, release, settle } from '@pgqueue/postgres';

/**
 * `stale`: the lease had been lost, and nothing was changed. `failed`: it could not be settled, and its lease will run out or
 * be released when the node leaves.
 */
export type Settled = Verdict | 'stale' | 'failed';

/** Settles attempts, many with one statement: whatever gathers while one is under way goes with the next. */
export interface Settler {
  /** Those that are given together, the jobs of a bundle, go in one statement. */
  readonly settle: (together: readonly Ended[]) => void;
  /** Gives leases back unrun. Where that fails they wait for the node to leave, or for their end. */
  readonly release: (leases: readonly Lease[]) => void;
  /** Settlements that wait or are under way; the claimer takes no more jobs while there are many. */
  readonly pending: () => number;
  /** Resolves when nothing is pending. */
  readonly idle: () => Promise<void>;
  /** Gives up what can't be sent: for a stop at its deadline. */
  readonly abandon: () => void;
}

/** An attempt that ended, and who is to hear what became of it. */
export interface Ended {
  readonly settlement: Settlement;
  readonly onSettled: (settled: Settled) => void;
}

export interface SettlerOptions {
  readonly database: Target;
  readonly observe: Observer;
  /** Some were accepted: slots are free, and rows are gone. */
  readonly onAccepted: () => void;
}

/** Settlements in one statement. */
const batchMax = 1_000;

export function createSettler({ database, observe, onAccepted }: SettlerOptions): Settler {
  const abandoned = new AbortController();
  let waiting: (readonly Ended[])[] = [];
  let pending = 0;
  let running = false;
  let releasing = 0;
  let whenIdle: (() => void)[] = [];
  const sender = createSender(database, observe, abandoned.signal);

  const checkIdle = (): void => {
    if (running || releasing > 0) return;
    for (const resolve of whenIdle) resolve();
    whenIdle = [];
  };

  const run = async (): Promise<void> => {
    running = true;
    await new Promise((resolve) => setImmediate(resolve)); // handlers that end together are settled together
    while (waiting.length > 0) {
      const { batch, rest } = nextBatch(waiting);
      waiting = rest;
      await sender(batch);
      pending -= batch.length;
      onAccepted();
    }
    running = false;
    checkIdle();
  };

  return {
    settle: (together) => {
      if (together.length === 0) return;
      waiting.push(together);
      pending += together.length;
      if (!running) void run();
    },
    release: (leases) => {
      if (leases.length === 0) return;
      releasing += 1;
      void release(database, leases)
        .catch((error: unknown) => observe({ type: 'database.error', during: 'release', error }))
        .finally(() => {
          releasing -= 1;
          checkIdle();
        });
    },
    pending: () => pending,
    idle: () =>
      running || releasing > 0 ? new Promise((resolve) => void whenIdle.push(resolve)) : Promise.resolve(),
    abandon: () => abandoned.abort(),
  };
}

/** Each job once: the answer is by job, and one may be settled under the lease that it lost, too. */
function nextBatch(waiting: (readonly Ended[])[]): {
  readonly batch: readonly Ended[];
  readonly rest: (readonly Ended[])[];
} {
  const ids = new Set<string>();
  const batch: Ended[] = [];
  for (const [index, together] of waiting.entries()) {
    const full = batch.length > 0 && batch.length + together.length > batchMax;
    if (full || together.some(({ settlement }) => ids.has(settlement.id))) {
      return { batch, rest: waiting.slice(index) };
    }
    for (const ended of together) {
      ids.add(ended.settlement.id);
      batch.push(ended);
    }
  }
  return { batch, rest: [] };
}

type Send = (batch: readonly Ended[]) => Promise<void>;

/** Sends a batch until the database has answered; never throws. */
function createSender(database: Target, observe: Observer, abandoned: AbortSignal): Send {
  const send: Send = async (batch) => {
    let repeat = false;
    for (let failures = 1; ; failures += 1) {
      try {
        const verdicts = await settle(
          database,
          batch.map(({ settlement }) => settlement),
          repeat,
        );
        for (const { settlement, onSettled } of batch) onSettled(verdicts.get(settlement.id) ?? 'stale');
        return;
      } catch (error) {
        if (!isTransient(error)) {
          observe({ type: 'database.error', during: 'settle', error });
          return refused(batch, error);
        }
        repeat = true; // its reply may have been lost on the way back
        const retryMs = retryPauseMs(failures);
        observe({ type: 'database.error', during: 'settle', error, retryMs });
        await delay(retryMs, undefined, { signal: abandoned }).catch(() => {});
        if (!abandoned.aborted) continue;
        for (const { onSettled } of batch) onSettled('failed');
        return;
      }
    }
  };

  /** One settlement that the database refuses must not take the others with it; it becomes the error of its attempt. */
  const refused = async (batch: readonly Ended[], error: unknown): Promise<void> => {
    const [only] = batch;
    if (batch.length > 1) {
      for (const one of batch) await send([one]);
    } else if (only !== undefined && only.settlement.outcome === 'done') {
      const data = { ...errorData(error), kind: 'error' };
      const settlement: Settlement = { ...only.settlement, outcome: 'dead', data: JSON.stringify(data) };
      await send([{ ...only, settlement }]);
    } else {
      only?.onSettled('failed');
    }
  };
  return send;
}
