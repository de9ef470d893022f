// not the global: a user's test may fake that one, and wait for a settlement
import { setImmediate } from 'node:timers/promises';
import type { Ended, LeasedRow } from '../lease/ended.ts';
import type { Codec, Observer } from '@pgqueue/core';
import type { Hints, Lease, Target } from '@pgqueue/postgres/internal';
import type { DoneRow } from '../lease/ended.ts';
import { createLockedOut } from './locked-out.ts';
import { createInsistence } from './insistence.ts';
import { createRowSettler } from './batch-settler.ts';
import type { Send } from './sender.ts';
import { createSender } from './sender.ts';

/**
 * Settles attempts, many with one statement: attempts that end while a statement is under way go with the
 * next. While the database cannot be reached, they wait in memory. A job that another transaction has locked
 * waits as well, and holds up no other. The database refuses those of a stale holder, by the lease's token
 * (settle.sql).
 */
export interface Settler {
  /**
   * Settles attempts. Attempts given together (the jobs of a bundle) go in one statement, except for locked
   * ones, and for those that add jobs.
   */
  readonly settle: (together: readonly Ended[]) => void;
  /** Settles a batch of which every job is done, as one. */
  readonly settleRow: (row: DoneRow) => void;
  /**
   * Repeats `work`, which must succeed before these jobs can be settled; until then they are pending.
   * Resolves even if `work` was given up: the settlements of the jobs meet the same failure.
   */
  readonly before: (jobs: readonly Lease[], work: () => Promise<void>) => Promise<void>;
  /** Gives leases back unrun; a release that cannot be sent waits as settlements do. */
  readonly release: (leases: readonly Lease[]) => void;
  /** Gives back a whole batch that has not begun. */
  readonly releaseRow: (batch: LeasedRow) => void;
  /**
   * True while more than 2,000 settlements, or 16 MiB of results, are pending: no more jobs should be
   * claimed.
   */
  readonly full: () => boolean;
  /** Leases that the database has not acknowledged as settled or released. */
  readonly pending: () => Iterable<Lease>;
  /** Resolves when nothing is pending. */
  readonly idle: () => Promise<void>;
  /** Gives up whatever cannot be sent, for a stop at its deadline. */
  readonly abandon: () => void;
}

export interface SettlerOptions {
  readonly database: Target;
  readonly observe: Observer;
  readonly codec?: Codec | undefined;
  /** Tells the schedulers that slots are free. */
  readonly hints: Hints;
  /** Called when whole batches were settled. Default: tells the schedulers. */
  readonly onRows?: () => void;
  /** Called when settlements were answered, and are not pending any more. */
  readonly onAccepted: () => void;
}

/**
 * Hints of a process that settles without a scheduler beside it, and must send nothing at times of its own.
 */
export const noHints: Hints = {
  send: () => {},
  lists: () => false,
  ride: () => true,
  rode: () => {},
  stop: () => Promise.resolve(),
};

/** Limits of one statement: settlements, and bytes of their results. */
const batchMax = 1_000;
const batchBytesMax = 4 * 1_048_576;
/**
 * Limits of the backlog, beyond which the node claims no more. Handlers that run at that time still add
 * theirs.
 */
const pendingMax = 2_000;
const bytesMax = 16 * 1_048_576;

export function createSettler(options: SettlerOptions): Settler {
  const { database, observe, codec, hints, onRows, onAccepted } = options;
  const abandoned = new AbortController();
  const backlog = createBacklog(observe);
  const unanswered = new WeakSet<Ended>();
  const common = { database, observe, abandoned: abandoned.signal };
  const idle = createIdle(() => singles.busy() || rows.busy() || lockedOut.size() > 0 || insistence.busy());
  const insistence = createInsistence({ ...common, onIdle: idle.check });
  const { before, release, releaseRow } = insistence;
  const sender = createSender({
    ...common,
    codec,
    hints,
    unanswered,
    onFailed: backlog.failing,
    onLocked: (ended) => {
      backlog.add(ended.length, bytesOfAll(ended));
      lockedOut.add(ended);
    },
  });
  const answered = (count: number, bytes: number): void => {
    backlog.remove(count, bytes);
    onAccepted();
  };
  const singles = createSingles({
    send: sender,
    onAnswered: (ended) => answered(ended.length, bytesOfAll(ended)),
    onIdle: idle.check,
  });
  const settle = (together: readonly Ended[]): void => {
    if (together.length === 0) return;
    backlog.add(together.length, bytesOfAll(together));
    singles.settle(together);
  };
  const rows = createRowSettler({
    ...common,
    onRows: onRows ?? ((): void => hints.send()),
    unanswered,
    before,
    onAnswered: (row) => answered(row.data.length, bytesOfRow(row)),
    settle: (ended) => {
      for (const one of ended) settle([one]);
    },
    onFailed: backlog.failing,
    onIdle: idle.check,
  });
  const lockedOut = createLockedOut({
    ...common,
    settle: (ended) => {
      for (const one of ended) singles.settle([one]);
    },
    onGivenUp: (ended) => {
      backlog.remove(ended.length, bytesOfAll(ended));
      idle.check();
    },
  });

  return {
    settle,
    settleRow: (row) => {
      backlog.add(row.data.length, bytesOfRow(row));
      rows.settle(row);
    },
    release,
    releaseRow,
    before,
    full: backlog.full,
    pending: function* () {
      yield* insistence.pending();
      yield* singles.pending();
      for (const { settlement } of lockedOut.all()) yield settlement;
      yield* rows.pending();
    },
    idle: idle.wait,
    abandon: () => abandoned.abort(),
  };
}

/** Lets callers wait until nothing is busy; call `check` when something may have ended. */
function createIdle(busy: () => boolean): { readonly check: () => void; readonly wait: () => Promise<void> } {
  let waiting: (() => void)[] = [];
  return {
    check: () => {
      if (busy()) return;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
    wait: () => (busy() ? new Promise((resolve) => void waiting.push(resolve)) : Promise.resolve()),
  };
}

/** Settles attempts of single jobs and of bundles. */
interface Singles {
  readonly settle: (together: readonly Ended[]) => void;
  readonly busy: () => boolean;
  readonly pending: () => Iterable<Lease>;
}

function createSingles({
  send,
  onAnswered,
  onIdle,
}: {
  readonly send: Send;
  readonly onAnswered: (ended: readonly Ended[]) => void;
  readonly onIdle: () => void;
}): Singles {
  let waiting: (readonly Ended[])[] = [];
  let sending: readonly Ended[] = [];
  let running = false;
  const run = async (): Promise<void> => {
    running = true;
    await setImmediate(); // handlers that end together are settled together
    while (waiting.length > 0) {
      const { batch, rest } = nextBatch(waiting);
      waiting = rest;
      sending = batch;
      await send(batch);
      sending = [];
      onAnswered(batch);
    }
    running = false;
    onIdle();
  };
  return {
    settle: (together) => {
      const alone = together.filter(addsJobs);
      for (const one of alone) waiting.push([one]);
      if (alone.length === 0) waiting.push(together);
      else if (alone.length < together.length) waiting.push(together.filter((one) => !addsJobs(one)));
      if (!running) void run();
    },
    busy: () => running,
    pending: function* () {
      for (const { settlement } of sending) yield settlement;
      for (const together of waiting) for (const { settlement } of together) yield settlement;
    },
  };
}

/** True for an attempt that adds jobs: a statement settles one of them. */
function addsJobs({ settlement }: Ended): boolean {
  return settlement.jobs !== undefined;
}

function bytesOf({ settlement: { data, jobs = '' } }: Ended): number {
  return (data === null ? 0 : Buffer.byteLength(data)) + Buffer.byteLength(jobs);
}

function bytesOfAll(ended: readonly Ended[]): number {
  let bytes = 0;
  for (const one of ended) bytes += bytesOf(one);
  return bytes;
}

function bytesOfRow({ data }: DoneRow): number {
  let bytes = 0;
  for (const text of data) if (text !== null) bytes += Buffer.byteLength(text);
  return bytes;
}

/** Counts pending settlements, and tells when they are too many. */
interface Backlog {
  readonly add: (count: number, bytesMore: number) => void;
  readonly remove: (count: number, bytesLess: number) => void;
  /** Call when the database did not accept a statement. */
  readonly failing: () => void;
  readonly full: () => boolean;
}

/**
 * Creates a backlog, which reports that it is full only while the database fails: a busy node passes the
 * limit often, for milliseconds.
 */
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
    add: (count, bytesMore) => {
      pending += count;
      bytes += bytesMore;
      tell();
    },
    remove: (count, bytesLess) => {
      pending -= count;
      bytes -= bytesLess;
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

/**
 * Takes the next batch of settlements. It has each job once: the database answers by job, and a job may be
 * settled under a lease that it lost, too.
 */
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
    const alone = [batch[0], together[0]].some((first) => first !== undefined && addsJobs(first));
    const full =
      batch.length > 0 && (alone || batch.length + together.length > batchMax || bytes > batchBytesMax);
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
