import type { Leased } from '../attempt/attempt.ts';
import type { Unit } from '../lease/unit.ts';
import type { Held, Holding } from '../lease/held-leases.ts';

/**
 * Batches that a node prefetches, up to one for each slot: while they run, the next claim is under way. Only
 * batches are prefetched, since the scheduler makes them of jobs that were measured to be short. A batch
 * waits up to 100 ms for a slot and is then given back, so that no job waits here while another node is idle.
 */
export interface Ahead {
  /** Leases of the waiting batches. */
  readonly holding: Holding;
  /** Number of batches that may be claimed beyond the free slots. */
  readonly room: () => number;
  /**
   * Adds the batches of a claim that have no slot yet; call it after each claim. `sought`: number of batches
   * that would have come if enough had been ready.
   */
  readonly put: (
    units: readonly Unit[],
    claim: { readonly claimedAt: number; readonly sought: number },
  ) => void;
  /** Records whether a claim brought batches; if so, more may be ready. */
  readonly saw: (batches: boolean) => void;
  /** Removes and returns the batch that was claimed first. */
  readonly next: (nowMs?: number) => { readonly unit: Unit; readonly leased: Leased } | undefined;
  /** Gives back all waiting batches, and from then on every batch that comes. */
  readonly close: () => void;
}

const waitMaxMs = 100;
/** Time without prefetch after batches were given back. */
const restMs = 200;

class Waiting implements Held {
  /**
   * False once the batch has left: a heartbeat under way must not report a lease as lost that was settled
   * meanwhile.
   */
  live = true;
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

  abort(reason: 'lease_lost' | 'cancelled' | 'node_silent'): void {
    this.#drop(this, reason === 'lease_lost');
  }
}

export interface AheadParts {
  readonly slots: number;
  readonly release: (unit: Unit) => void;
  readonly clock?: () => number;
}

export function createAhead({ slots, release, clock = () => performance.now() }: AheadParts): Ahead {
  /** In the order of claims. */
  const waiting: Waiting[] = [];
  let seen = false;
  let closed = false;
  let restsUntil = -Infinity;
  let timer: NodeJS.Timeout | undefined;

  const leave = (one: Waiting): boolean => {
    one.live = false;
    const at = waiting.indexOf(one); // usually the first
    if (at >= 0) waiting.splice(at, 1);
    return at >= 0;
  };
  const drop = (one: Waiting, lost: boolean): void => {
    if (leave(one) && !lost) release(one.unit);
  };
  const giveBack = (): void => {
    restsUntil = clock() + restMs;
    for (let one = waiting[0]; one !== undefined; one = waiting[0]) drop(one, false);
  };
  const check = (): void => {
    timer = undefined;
    const [oldest] = waiting;
    if (oldest === undefined) return;
    const leftMs = oldest.since + waitMaxMs - clock();
    if (leftMs > 0) timer = setTimeout(check, leftMs).unref();
    else giveBack();
  };

  return {
    holding: {
      get size() {
        return waiting.length;
      },
      [Symbol.iterator]: () => [...waiting].values(),
    },
    room: () => (closed || !seen || clock() < restsUntil ? 0 : Math.max(0, slots - waiting.length)),
    put: (units, { claimedAt, sought }) => {
      const since = clock();
      if (units.length < sought) seen = false;
      for (const unit of units) {
        if (closed) release(unit);
        else waiting.push(new Waiting({ unit, claimedAt, since }, drop));
      }
      if (waiting.length > 0) timer ??= setTimeout(check, waitMaxMs).unref();
    },
    saw: (batches) => {
      seen ||= batches;
    },
    next: (nowMs = clock()) => {
      const [one] = waiting;
      if (one === undefined || !leave(one)) return undefined;
      return { unit: one.unit, leased: { claimedAt: one.claimedAt, waitedMs: nowMs - one.since } };
    },
    close: () => {
      closed = true;
      clearTimeout(timer);
      giveBack();
    },
  };
}
