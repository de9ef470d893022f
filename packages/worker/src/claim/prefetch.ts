import type { Leased } from '../attempt/attempt.ts';
import type { Unit } from '../lease/unit.ts';
import type { Held, Holding } from '../lease/held-leases.ts';

/**
 * Batches that a node has claimed for slots which will be free within moments, one for each slot: while they run, the next claim is under way. Only
 * batches: the scheduler makes them of jobs that have been measured to be short. They wait for 100 ms at most, then they are given back:
 * a job never waits for a slot here while another node is idle.
 */
export interface Ahead {
  /** Leases of those that wait. */
  readonly holding: Holding;
  /** How many more may be claimed beyond the free slots. */
  readonly room: () => number;
  /** Those of a claim for which there is no slot yet; it must be called after each. `sought`: how many would have come if there were so many. */
  readonly put: (
    units: readonly Unit[],
    claim: { readonly claimedAt: number; readonly sought: number },
  ) => void;
  /** A claim brought batches: there may be more. */
  readonly saw: (batches: boolean) => void;
  /** The next, in the order of claims. */
  readonly next: (nowMs?: number) => { readonly unit: Unit; readonly leased: Leased } | undefined;
  /** Gives all back; from then on, none may wait. */
  readonly close: () => void;
}

const waitMaxMs = 100;
/** How long none are claimed ahead after some were given back. */
const restMs = 200;

class Waiting implements Held {
  /** Until it has left: a heartbeat that is under way then must not miss a lease that has been settled meanwhile. */
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

  abort(reason: 'lease_lost' | 'cancelled' | 'node_lost'): void {
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
    const at = waiting.indexOf(one); // mostly the first
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
