import type { Claimed, Claims } from './claims.ts';
import type { SharedSlots } from './shared-slots.ts';

/** Slots of a worker node: its own, or its part in slots that it shares. */
export interface NodeSlots {
  /** Returns how many may be claimed for now, out of those that do not run. */
  readonly room: (idle: number) => number;
  /** Takes slots for what a claim has brought; returns how many. Gives back those that the claim has reserved beyond. */
  readonly take: (wanted: number) => number;
  /** Gives back a slot whose handler has ended; returns whether the node keeps it, for a batch that it has at hand. */
  readonly ended: (hasMore: boolean) => boolean;
  /** Gives back a slot that was not used. */
  readonly unused: () => void;
  /** `false`: no more work is known to be ready, or the node can't take it. */
  readonly starved: (starved: boolean) => void;
  /** Returns claims that reserve slots. */
  readonly claims: (claims: Claims) => Claims;
}

/** Slots of a node that shares none. */
export const ownSlots: NodeSlots = {
  room: (idle) => idle,
  take: (wanted) => wanted,
  ended: (hasMore) => hasMore,
  unused: () => {},
  starved: () => {},
  claims: (claims) => claims,
};

/**
 * Longest time for which a claim keeps its reservation: a database that does not answer must not keep slots from the
 * others, and no turn among those that wait. Jobs that such a claim brings later take what is free then.
 */
const reservedMs = 1_000;

/** @param wake called when there may be room for the node, which waited for it */
export function partIn(shared: SharedSlots, wake: () => void): NodeSlots {
  const share = shared.join(wake);
  let reserved = 0;
  /** True while a claim is not answered in time. */
  let silent = false;
  const giveBack = (): void => {
    const count = reserved;
    reserved = 0;
    share.give(count);
  };
  return {
    room: (idle) => Math.min(idle, share.room()),
    take: (wanted) => {
      const had = Math.min(wanted, reserved);
      reserved -= had;
      giveBack();
      return had + (had < wanted ? share.reserve(wanted - had) : 0);
    },
    ended: (hasMore) => {
      share.give(1);
      return hasMore && share.reserve(1) === 1;
    },
    unused: () => share.give(1),
    starved: (starved) => (starved && !silent ? share.wait() : share.pass()),
    claims:
      (claims) =>
      async (wanted): Promise<Claimed> => {
        reserved = share.reserve(wanted.max);
        const timer = setTimeout(() => {
          silent = true;
          giveBack();
          share.pass();
        }, reservedMs).unref();
        try {
          return await claims({ ...wanted, max: reserved });
        } catch (error) {
          giveBack();
          share.pass();
          throw error;
        } finally {
          clearTimeout(timer);
          silent = false;
        }
      },
  };
}
