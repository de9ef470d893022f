import type { Leased } from './attempt.ts';
import type { Unit } from './bundles.ts';
import type { Held } from './held.ts';

/**
 * Units that a node has claimed for slots which will be free within moments: a claim of hundreds costs little more than a claim of ten,
 * so jobs of microseconds flow by the hundred. What it may take is bounded by time, not by number: as much as its slots do within
 * {@link aheadMs}. Only units of tasks that have been measured to be quick wait here; others are given back at once, and so is
 * everything that has waited for too long: a slow job never waits for a slot here while another node is idle.
 */
export interface Ahead {
  /** Leases of those that wait. */
  readonly holding: ReadonlySet<Held>;
  /** How many more may be claimed beyond so many free slots. */
  readonly room: (free: number) => number;
  /** How many there can be. */
  readonly capacity: () => number;
  /** Those of a claim for which there is no slot yet; it must be called after each. */
  readonly put: (units: readonly Unit[], claimedAt: number) => void;
  /** The next, in the order of claims. */
  readonly next: (nowMs?: number) => { readonly unit: Unit; readonly leased: Leased } | undefined;
  /** A unit of that task took so long. */
  readonly ended: (task: string, durationMs: number, nowMs?: number) => void;
  /** Gives all back; from then on, none may wait. */
  readonly close: () => void;
}

/** Of work, by what has been measured. */
const aheadMs = 50;
/** Where nothing has ended for so long, the slots are busy with something else than what was measured. */
const stuckMs = 100;
/** However much ends meanwhile. */
const waitMaxMs = 500;
/** Of a lease, waiting may use up so much; it must be enough for a little more than {@link aheadMs}. */
const waitShare = 0.1;
const waitMinMs = 2 * aheadMs;
/** How long none are claimed ahead after some were given back, or after a claim of which most could not wait. */
const restMs = 200;
/** A task is known after as many runs. */
const runsMin = 20;
/** Of the runs of a quick task so few take longer than that: who waits behind one of them waits for as long. */
const slowMs = 25;
const slowShare = 0.01;
/** That share is of about as many runs. */
const slowRuns = 200;
/** Of what may be claimed ahead, where it waits for longer than it should: a busy machine is slower than its jobs tell. */
const shareMin = 1 / 64;
const unitsMax = 1_000;
/** A mean is of about as many runs. */
const runsMax = 50;

class Waiting implements Held {
  readonly live = true;
  readonly unit: Unit;
  readonly claimedAt: number;
  readonly since: number;
  readonly #drop: (waiting: Waiting, lost: boolean) => void;

  constructor(
    { unit, claimedAt, since }: { readonly unit: Unit; readonly claimedAt: number; readonly since: number },
    drop: (waiting: Waiting, lost: boolean) => void,
  ) {
    [this.unit, this.claimedAt, this.since, this.#drop] = [unit, claimedAt, since, drop];
  }

  get lease(): Unit[0] {
    return this.unit[0];
  }

  get task(): string {
    return this.unit[0].task;
  }

  abort(reason: 'lease_lost' | 'cancelled' | 'node_lost'): void {
    this.#drop(this, reason === 'lease_lost');
  }

  /** When it has waited for too long. */
  get lateAt(): number {
    return this.since + waitMsOf(this.unit);
  }
}

function waitMsOf([{ leaseMs }]: Unit): number {
  return Math.min(waitMaxMs, leaseMs * waitShare);
}

export interface AheadParts {
  readonly slots: number;
  readonly release: (jobs: Unit) => void;
  readonly clock?: () => number;
}

export function createAhead({ slots, release, clock = () => performance.now() }: AheadParts): Ahead {
  const waiting = new Set<Waiting>();
  const first = firstOf(waiting);
  const runs = measureRuns();
  const share = tuneShare();
  let endedAt = clock();
  let restsUntil = -Infinity;
  /** The first that can be claimed must not wait. */
  let wantsSlot = false;
  let closed = false;
  let timer: NodeJS.Timeout | undefined;

  const drop = (one: Waiting, lost: boolean): void => {
    if (waiting.delete(one) && !lost) release(one.unit);
  };
  const capacity = (): number => {
    const meanMs = runs.mean();
    if (closed || meanMs === undefined || clock() < restsUntil) return 0;
    const fits = (slots * aheadMs) / Math.max(meanMs, 0.001);
    return Math.floor(Math.min(unitsMax, fits) * share.of());
  };
  const check = (): void => {
    timer = undefined;
    const [oldest] = waiting;
    if (oldest === undefined) return;
    const stuckAt = Math.max(endedAt, oldest.since) + stuckMs;
    let lateAt = stuckAt;
    for (const one of waiting) lateAt = Math.min(lateAt, one.lateAt);
    const leftMs = lateAt - clock();
    if (leftMs > 0) timer = setTimeout(check, leftMs).unref();
    else giveBack();
  };
  const giveBack = (): void => {
    restsUntil = clock() + restMs;
    for (const one of waiting) drop(one, false);
  };

  return {
    holding: waiting,
    capacity,
    room: (free) => (wantsSlot && free <= 0 ? 0 : Math.max(0, capacity() - waiting.size)),
    put: (units, claimedAt) => {
      const since = clock();
      const stays = (unit: Unit): boolean => !closed && mayWait(unit) && runs.isQuick(unit[0].task);
      const refused = units.filter((unit) => !stays(unit));
      for (const unit of units) if (stays(unit)) waiting.add(new Waiting({ unit, claimedAt, since }, drop));
      for (const unit of refused) release(unit);
      wantsSlot = refused.length > 0;
      if (refused.length * 2 > units.length) restsUntil = since + restMs;
      if (waiting.size > 0) timer ??= setTimeout(check, stuckMs).unref();
    },
    next: (nowMs = clock()) => {
      const one = first();
      if (one === undefined || !waiting.delete(one)) return undefined;
      share.waited(nowMs - one.since);
      return { unit: one.unit, leased: { claimedAt: one.claimedAt, waitedMs: nowMs - one.since } };
    },
    ended: (task, durationMs, nowMs = clock()) => {
      endedAt = nowMs;
      runs.add(task, durationMs);
    },
    close: () => {
      closed = true;
      clearTimeout(timer);
      giveBack();
    },
  };
}

/** The first of a set of which the first is taken each time: a search from the beginning would pass all that were taken, again and again. */
function firstOf<One>(all: ReadonlySet<One>): () => One | undefined {
  let cursor: SetIterator<One> | undefined;
  return () => {
    const { done, value } = (cursor ??= all.values()).next();
    if (done !== true) return value;
    cursor = undefined;
    return undefined;
  };
}

function mayWait(unit: Unit): boolean {
  return unit.length === 1 && waitMsOf(unit) >= waitMinMs;
}

/** What part of its room is used. */
function tuneShare(): { readonly of: () => number; readonly waited: (ms: number) => void } {
  let share = 1;
  return {
    of: () => share,
    waited: (ms) => {
      share = ms > aheadMs ? Math.max(shareMin, share * 0.98) : Math.min(1, share * 1.005);
    },
  };
}

interface Runs {
  count: number;
  meanMs: number;
  /** Part of them that took long. */
  slow: number;
}

function count(runs: Runs, durationMs: number): void {
  runs.count += 1;
  runs.meanMs += (durationMs - runs.meanMs) / Math.min(runs.count, runsMax);
  runs.slow += ((durationMs > slowMs ? 1 : 0) - runs.slow) / Math.min(runs.count, slowRuns);
}

/** How long runs take, of each task and of all. */
function measureRuns(): {
  readonly add: (task: string, durationMs: number) => void;
  readonly isQuick: (task: string) => boolean;
  /** Of all; undefined before it is known, and where some take long: whatever is claimed ahead may have to wait for them. */
  readonly mean: () => number | undefined;
} {
  const tasks = new Map<string, Runs>();
  const all: Runs = { count: 0, meanMs: 0, slow: 0 };
  return {
    add: (task, durationMs) => {
      let own = tasks.get(task);
      if (own === undefined) tasks.set(task, (own = { count: 0, meanMs: 0, slow: 0 }));
      count(own, durationMs);
      count(all, durationMs);
    },
    isQuick: (task) => {
      const runs = tasks.get(task);
      return runs !== undefined && runs.count >= runsMin && runs.slow <= slowShare;
    },
    mean: () => (all.count < runsMin || all.slow > slowShare ? undefined : all.meanMs),
  };
}
