import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import { errorData, retryPauseMs } from '@pgqueue/core';
import type { Hints, Lease, Settlement, Target, Verdict } from '@pgqueue/postgres';
import { isTransient, settle, settleAndHint } from '@pgqueue/postgres';
import { createReleaser } from './releaser.ts';

/**
 * `stale`: the lease had been lost, and nothing was changed. `failed`: it could not be settled, and its lease will run out or
 * be released when the node leaves.
 */
export type Settled = Verdict | 'stale' | 'failed';

/**
 * Settles attempts, many with one statement: whatever gathers while one is under way goes with the next. While the database can't be
 * reached they wait, in memory.
 */
export interface Settler {
  /** Those that are given together, the jobs of a bundle, go in one statement. */
  readonly settle: (together: readonly Ended[]) => void;
  /** Gives leases back unrun; what can't be said waits as settlements do. */
  readonly release: (leases: readonly Lease[]) => void;
  /** So much waits that no more jobs should be claimed: 2,000 settlements, or results of 16 MiB. */
  readonly full: () => boolean;
  /** What the database has not heard of yet, or not answered. */
  readonly pending: () => Iterable<Lease>;
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
  /** Tells the schedulers that slots are free. */
  readonly hints: Hints;
  /** Some were accepted: rows are gone. */
  readonly onAccepted: () => void;
}

/** Of a process that settles without a scheduler beside it, and must send nothing at times of its own. */
export const noHints: Hints = {
  send: () => {},
  ride: () => true,
  rode: () => {},
  stop: () => Promise.resolve(),
};

/** In one statement. */
const batchMax = 1_000;
const batchBytesMax = 4 * 1_048_576;
/** What may wait before the node claims no more. Handlers that run at that time add theirs. */
const pendingMax = 2_000;
const bytesMax = 16 * 1_048_576;

export function createSettler({ database, observe, hints, onAccepted }: SettlerOptions): Settler {
  const abandoned = new AbortController();
  const backlog = createBacklog(observe);
  let waiting: (readonly Ended[])[] = [];
  let sending: readonly Ended[] = [];
  let running = false;
  let whenIdle: (() => void)[] = [];
  const sender = createSender({
    database,
    observe,
    hints,
    abandoned: abandoned.signal,
    onFailed: backlog.failing,
  });
  const releaser = createReleaser({
    database,
    observe,
    abandoned: abandoned.signal,
    onIdle: () => checkIdle(),
  });

  const checkIdle = (): void => {
    if (running || releaser.busy()) return;
    for (const resolve of whenIdle) resolve();
    whenIdle = [];
  };

  const run = async (): Promise<void> => {
    running = true;
    await new Promise((resolve) => setImmediate(resolve)); // handlers that end together are settled together
    while (waiting.length > 0) {
      const { batch, rest } = nextBatch(waiting);
      waiting = rest;
      sending = batch;
      await sender(batch);
      sending = [];
      backlog.remove(batch);
      onAccepted();
    }
    running = false;
    checkIdle();
  };

  return {
    settle: (together) => {
      if (together.length === 0) return;
      waiting.push(together);
      backlog.add(together);
      if (!running) void run();
    },
    release: releaser.release,
    full: backlog.full,
    pending: function* () {
      for (const { settlement } of sending) yield settlement;
      for (const together of waiting) for (const { settlement } of together) yield settlement;
      yield* releaser.pending();
    },
    idle: () =>
      running || releaser.busy() ? new Promise((resolve) => void whenIdle.push(resolve)) : Promise.resolve(),
    abandon: () => abandoned.abort(),
  };
}

function bytesOf({ settlement: { data } }: Ended): number {
  return data === null ? 0 : Buffer.byteLength(data);
}

/** How much waits to be settled, and whether that is too much. */
interface Backlog {
  readonly add: (ended: readonly Ended[]) => void;
  readonly remove: (ended: readonly Ended[]) => void;
  /** The database did not take some. */
  readonly failing: () => void;
  readonly full: () => boolean;
}

/** Says that it is full only where the database fails: a busy node passes the mark often, for milliseconds. */
function createBacklog(observe: Observer): Backlog {
  let pending = 0;
  let bytes = 0;
  let told = false;
  let failing = false;
  const full = (): boolean => pending > pendingMax || bytes > bytesMax;
  const tell = (): void => {
    if (!failing || told || !full()) return;
    told = true;
    observe({ type: 'settler.full', pending, bytes });
  };
  return {
    add: (ended) => {
      pending += ended.length;
      for (const one of ended) bytes += bytesOf(one);
      tell();
    },
    remove: (ended) => {
      pending -= ended.length;
      for (const one of ended) bytes -= bytesOf(one);
      failing = false;
      if (!told || full()) return;
      told = false;
      observe({ type: 'settler.drained', pending, bytes });
    },
    failing: () => {
      failing = true;
      tell();
    },
    full,
  };
}

/** Each job once: the answer is by job, and one may be settled under the lease that it lost, too. */
function nextBatch(waiting: (readonly Ended[])[]): {
  readonly batch: readonly Ended[];
  readonly rest: (readonly Ended[])[];
} {
  const ids = new Set<string>();
  const batch: Ended[] = [];
  let bytes = 0;
  for (let index = 0; index < waiting.length; index += 1) {
    const together = waiting[index] ?? [];
    for (const ended of together) bytes += bytesOf(ended);
    const full = batch.length > 0 && (batch.length + together.length > batchMax || bytes > batchBytesMax);
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

interface SenderParts {
  readonly database: Target;
  readonly observe: Observer;
  readonly hints: Hints;
  readonly abandoned: AbortSignal;
  readonly onFailed: () => void;
}

/** So few end together that the hint may hold up other commits for the time of this one. */
const ridersMax = 4;

/** Settles once, and sees to the hint. */
function createAccept(
  database: Target,
  hints: Hints,
): (settlements: readonly Settlement[], repeat: boolean) => Promise<ReadonlyMap<string, Verdict>> {
  return async (settlements, repeat) => {
    if (repeat || settlements.length > ridersMax || !hints.ride()) {
      const verdicts = await settle(database, settlements, repeat);
      hints.send(endedOf(settlements, verdicts));
      return verdicts;
    }
    let sent = false;
    let ended: readonly string[] | undefined;
    try {
      const { verdicts, hinted } = await settleAndHint(database, settlements);
      [sent, ended] = [hinted, endedOf(settlements, verdicts)];
      return verdicts;
    } finally {
      hints.rode(sent, ended);
    }
  };
}

/** So many that the hint can say which they were. */
const toldMax = 16;

/** All of them, where all are done; undefined: some wait again, or they are many. */
function endedOf(
  settlements: readonly Settlement[],
  verdicts: ReadonlyMap<string, Verdict>,
): readonly string[] | undefined {
  if (settlements.length > toldMax) return undefined;
  const ids = settlements.map(({ id }) => id);
  return ids.every((id) => verdicts.get(id) === 'done') ? ids : undefined;
}

/** Sends a batch until the database has answered; never throws. */
function createSender({ database, observe, hints, abandoned, onFailed }: SenderParts): Send {
  const accept = createAccept(database, hints);
  const send: Send = async (batch) => {
    let repeat = false;
    for (let failures = 1; ; failures += 1) {
      try {
        const verdicts = await accept(
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
        onFailed();
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
