import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { retryPauseMs } from '@pgqueue/core';
import type { Database, Settlement, Verdict } from '@pgqueue/postgres';
import { isTransient, settle } from '@pgqueue/postgres';

/** `stale`: the lease had been lost, nothing was changed. `failed`: it could not be settled; the lease will run out. */
export type Settled = Verdict | 'stale' | 'failed';

/** Settles attempts, many with one statement: whatever gathers while one is under way goes with the next. */
export interface Settler {
  readonly settle: (settlement: Settlement) => Promise<Settled>;
  /** Settlements that wait or are under way. */
  readonly pending: () => number;
  /** Gives up what can't be sent: for a stop at its deadline. */
  readonly abandon: () => void;
}

interface Waiting {
  readonly settlement: Settlement;
  readonly resolve: (settled: Settled) => void;
}

const batchMax = 1_000;

export function createSettler(database: Database, observe: Observer, onSettled: () => void): Settler {
  const abandoned = new AbortController();
  let waiting: Waiting[] = [];
  let underWay = 0;
  let running = false;

  const send = async (batch: readonly Waiting[]): Promise<void> => {
    let repeat = false;
    for (let failures = 1; ; failures += 1) {
      try {
        const settlements = batch.map(({ settlement }) => settlement);
        const verdicts = await settle(database, settlements, repeat);
        for (const { settlement, resolve } of batch) resolve(verdicts.get(settlement.id) ?? 'stale');
        onSettled();
        return;
      } catch (error) {
        if (!isTransient(error)) {
          observe({ type: 'database.error', during: 'settle', error });
          return sendApart(batch);
        }
        repeat = true; // its reply may have been lost on the way back
        const retryMs = retryPauseMs(failures);
        observe({ type: 'database.error', during: 'settle', error, retryMs });
        await delay(retryMs, undefined, { signal: abandoned.signal }).catch(() => {});
        if (!abandoned.signal.aborted) continue;
        for (const { resolve } of batch) resolve('failed');
        return;
      }
    }
  };

  /** One settlement that the database refuses must not take the others with it. */
  const sendApart = async (batch: readonly Waiting[]): Promise<void> => {
    if (batch.length > 1) {
      for (const one of batch) await send([one]);
      return;
    }
    for (const { resolve } of batch) resolve('failed');
  };

  const run = async (): Promise<void> => {
    running = true;
    await new Promise((resolve) => setImmediate(resolve)); // handlers that end together are settled together
    while (waiting.length > 0) {
      const batch = waiting.slice(0, batchMax);
      waiting = waiting.slice(batchMax);
      underWay = batch.length;
      await send(batch);
      underWay = 0;
    }
    running = false;
  };

  return {
    settle: (settlement) =>
      new Promise((resolve) => {
        waiting.push({ settlement, resolve });
        if (!running) void run();
      }),
    pending: () => waiting.length + underWay,
    abandon: () => abandoned.abort(),
  };
}
