import type { Observer } from '@pgqueue/core';
import type { Heartbeat, Lease } from '@pgqueue/postgres/internal';

/** A lease that this process holds, as its heartbeat sees it. */
export interface Held {
  readonly lease: Lease;
  readonly task: string;
  /**
   * True while the heartbeat renews the lease and may report it as lost: it is neither settled nor being
   * settled.
   */
  readonly live: boolean;
  readonly abort: (reason: 'lease_lost' | 'cancelled' | 'node_silent') => void;
}

/** Leases that a node holds. A job can appear twice: under the lease that was lost, and under a new one. */
export type Holding = Iterable<Held> & { readonly size: number };

export function both(one: Holding, other: Holding): Holding {
  return {
    get size() {
      return one.size + other.size;
    },
    *[Symbol.iterator]() {
      yield* one;
      yield* other;
    },
  };
}

export function liveOf(holding: Holding): readonly Held[] {
  return [...holding].filter(({ live }) => live);
}

/**
 * Applies a heartbeat's answer to the leases that it asked about. A lease that was settled meanwhile is gone
 * from the table, but not lost.
 */
export function applyHeartbeat(
  asked: readonly Held[],
  answer: Pick<Heartbeat, 'lost' | 'cancelled'>,
  observe: Observer,
): void {
  if (answer.lost.length === 0 && answer.cancelled.length === 0) return;
  const lost = new Set(answer.lost.map(nameOf));
  const cancelled = new Set(answer.cancelled);
  for (const held of asked) {
    if (!held.live) continue;
    if (lost.has(nameOf(held.lease))) lose(held, { during: 'heartbeat', observe });
    else if (cancelled.has(held.lease.id)) held.abort('cancelled');
  }
}

/** Returns one string for each lease, to compare by. */
export function nameOf({ id, token }: Lease): string {
  return `${id} ${token}`;
}

/**
 * Reports a lease as lost, and aborts its handler. Another node may have taken the job: nothing that this
 * holder says counts any more.
 */
export function lose(
  held: Held,
  { during, observe }: { readonly during: 'settle' | 'extend' | 'heartbeat'; readonly observe: Observer },
): void {
  observe({ type: 'job.stale', job: held.lease.id, task: held.task, during });
  held.abort('lease_lost');
}
