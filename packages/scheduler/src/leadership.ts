import { randomUUID } from 'node:crypto';
import type { LoopOptions, Observer } from '@pgqueue/core';
import { retryPauseMs, startLoop } from '@pgqueue/core';
import type { Database, Leader } from '@pgqueue/postgres';
import { lead, resign } from '@pgqueue/postgres';

/**
 * Who leads is one row with an epoch. A scheduler leads while it renews that row in time; each write of a tick or a sweep
 * names leader and epoch, and the database refuses it from anyone else, so that no scheduler needs to be right about whether it
 * leads. It gives up early nevertheless, by its own monotonic clock, counted from before it asked: work in vain helps nobody.
 */
export interface Leadership {
  /** The present reign; undefined while another scheduler leads, or none is known to. */
  readonly reign: () => Leader | undefined;
  /** A write in this epoch was refused: another has taken over. */
  readonly lost: (epoch: number) => void;
  /**
   * A write of this epoch has an unknown outcome: ends the reign, so that nothing more can come of it. Resigning waits for a write
   * that is still under way; where it can't be done, the lease must run out.
   */
  readonly renounce: (epoch: number) => void;
  /** The leader may have resigned: asks at once. */
  readonly wake: () => void;
  /** For how long its loop has made no progress. */
  readonly stuckMs: () => number;
  /** Since the database last said who leads; Infinity: never. */
  readonly readMsAgo: () => number;
  /** Stops renewing, and resigns. */
  readonly stop: () => Promise<void>;
}

export interface LeadershipOptions {
  readonly database: Database;
  readonly name: string;
  readonly leaseMs: number;
  readonly observe: Observer;
  readonly onElected: () => void;
  readonly onLost?: () => void;
}

/** Unique for each start: a restarted scheduler is another leader, and never continues an epoch that it knows nothing of. */
function newLeader({ name }: LeadershipOptions): string {
  return `${name}-${randomUUID().slice(0, 8)}`;
}

export function startLeadership(options: LeadershipOptions): Leadership {
  const { leaseMs, observe, onElected } = options;
  let leader = newLeader(options);
  let reign: Leader | undefined;
  let expiry: NodeJS.Timeout | undefined;
  const reader = createReader(options);

  const end = (stopped = false): void => {
    clearTimeout(expiry);
    if (reign === undefined) return;
    const { epoch } = reign;
    reign = undefined;
    observe({ type: 'leader.lost', scheduler: leader, epoch, ...(stopped ? { stopped } : {}) });
    options.onLost?.();
  };

  const renew = async (): Promise<number> => {
    const askedAt = performance.now();
    const asked = leader;
    const answer = await reader.lead(asked);
    // it was given up meanwhile
    if (asked !== leader) return 0;
    if (!answer.leads) {
      end();
      return Math.min(leaseMs / 2, Math.max(0, answer.expiresInMs) + 10);
    }
    const leftMs = askedAt + leaseMs - performance.now();
    if (leftMs <= 0) {
      end();
      return 0;
    }
    if (reign?.epoch !== answer.epoch) {
      end();
      reign = { leader, epoch: answer.epoch };
      observe({ type: 'leader.elected', scheduler: leader, epoch: answer.epoch });
      onElected();
    }
    clearTimeout(expiry);
    expiry = setTimeout(end, leftMs);
    return leaseMs / 3;
  };

  const loop = startLoop({ step: renew, failed: notRenewed(options) });

  return {
    reign: () => reign,
    lost: (epoch) => {
      if (reign?.epoch !== epoch) return;
      end();
      loop.wake();
    },
    renounce: (epoch) => {
      if (reign?.epoch !== epoch) return;
      const last = reign;
      end();
      // under its old name it would only renew the lease, and keep the epoch
      leader = newLeader(options);
      void giveUp(options, last).then(loop.wake);
    },
    wake: loop.wake,
    stuckMs: loop.stuckMs,
    readMsAgo: reader.readMsAgo,
    stop: async () => {
      await loop.stop();
      const last = reign;
      end(true);
      if (last !== undefined) await giveUp(options, last);
    },
  };
}

/** Asks the database, and knows when it last answered. */
function createReader({ database, leaseMs }: LeadershipOptions): {
  readonly lead: (leader: string) => ReturnType<typeof lead>;
  readonly readMsAgo: () => number;
} {
  let readAt = -Infinity;
  return {
    lead: async (leader) => {
      const answer = await lead(database, leader, leaseMs);
      readAt = performance.now();
      return answer;
    },
    readMsAgo: () => performance.now() - readAt,
  };
}

function notRenewed({ leaseMs, observe }: LeadershipOptions): LoopOptions['failed'] {
  return (error, failures) => {
    const retryMs = retryPauseMs(failures, leaseMs / 3);
    observe({ type: 'database.error', during: 'lead', error, retryMs });
    return retryMs;
  };
}

async function giveUp({ database, observe }: LeadershipOptions, { leader, epoch }: Leader): Promise<void> {
  await resign(database, leader, epoch).catch((error: unknown) => {
    observe({ type: 'database.error', during: 'resign', error });
  });
}
