import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { LoopOptions, Observer } from '@pgqueue/core';
import { retryPauseMs, startLoop, within } from '@pgqueue/core';
import type { Database, Leader, Lone, LoneOptions } from '@pgqueue/postgres';
import { lead, resign, watchLeader } from '@pgqueue/postgres';

/**
 * Who leads is one row with an epoch. A scheduler leads while it renews that row in time; each write of a tick or a sweep
 * names leader and epoch, and the database refuses it from anyone else, so that no scheduler needs to be right about whether it
 * leads. It gives up early nevertheless, by its own monotonic clock, counted from before it asked: work in vain helps nobody.
 *
 * It renews in a session of its own, where it can. A standby that finds that session gone takes the next epoch at once: a process that
 * was killed leaves no session behind. One that lives, and only lost its connection, connects anew, and is deposed at worst.
 */
export interface Leadership {
  /** The present reign; undefined while another scheduler leads, or none is known to. */
  readonly reign: () => Leader | undefined;
  /** A write in this epoch was refused: another has taken over. */
  readonly lost: (epoch: number) => void;
  /**
   * A write of this epoch has an unknown outcome: ends the reign, so that nothing more can come of it. Resigning waits for a write
   * that is still under way. It is repeated until the database has answered, or the lease has run out.
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
  /** Opens the connection that it keeps for this alone; undefined: there is none, and only the lease's end tells others that it is gone. */
  readonly session: ((options: Pick<LoneOptions, 'queryTimeoutMs' | 'onBroken'>) => Lone) | undefined;
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
  let stopped = false;
  const reader = createReader(options, () => loop.wake());
  const { watch } = reader;

  const end = (): void => {
    clearTimeout(expiry);
    if (reign === undefined) return;
    const { epoch } = reign;
    reign = undefined;
    observe({ type: 'leader.lost', scheduler: leader, epoch, ...(stopped ? { stopped } : {}) });
    options.onLost?.();
  };
  const isStopped = (): boolean => stopped;

  const renew = async (): Promise<number> => {
    const waitMs = reign === undefined ? await watch.look() : 0;
    if (waitMs > 0) return waitMs;
    const askedAt = performance.now();
    const asked = leader;
    const answer = await reader.lead(asked);
    if (asked !== leader) {
      // its old name resigned meanwhile, and may have taken the lease once more
      if (answer.leads) await giveUp(options, { leader: asked, epoch: answer.epoch }, isStopped);
      return 0;
    }
    const leftMs = answer.leads ? askedAt + leaseMs - performance.now() : 0;
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
  const askNow = (): void => {
    watch.until(0);
    loop.wake();
  };

  return {
    reign: () => reign,
    lost: (epoch) => {
      if (reign?.epoch !== epoch) return;
      end();
      askNow();
    },
    renounce: (epoch) => {
      if (reign?.epoch !== epoch) return;
      const last = reign;
      end();
      // under its old name it would only renew the lease, and keep the epoch
      leader = newLeader(options);
      void giveUp(options, last, isStopped).then(loop.wake);
    },
    wake: askNow,
    stuckMs: loop.stuckMs,
    readMsAgo: reader.readMsAgo,
    stop: async () => {
      stopped = true;
      await reader.closed(loop.stop());
      const last = reign;
      end();
      if (last !== undefined) await giveUp(options, last, isStopped);
    },
  };
}

/** How long a stop waits for an answer. */
const closeMs = 2_000;

/** How the database is asked, and when it last answered. */
interface Reader {
  readonly lead: (leader: string) => ReturnType<typeof lead>;
  readonly watch: Watch;
  readonly readMsAgo: () => number;
  /** Closes the session of its own when nothing is asked any more; what takes too long then fails. */
  readonly closed: (over: Promise<unknown>) => Promise<void>;
}

function createReader(options: LeadershipOptions, onBroken: () => void): Reader {
  const { database, leaseMs, observe } = options;
  const session = options.session?.({ queryTimeoutMs: Math.max(1_000, leaseMs), onBroken });
  let readAt = -Infinity;
  const watch = createWatch(session, database, () => {
    readAt = performance.now();
  });
  const ask = async (leader: string): ReturnType<typeof lead> => {
    if (session === undefined) return lead(database, leader, leaseMs);
    try {
      return await lead(session, leader, leaseMs, await session.pid());
    } catch (error) {
      // by any other connection, and then without a session
      const answer = await lead(database, leader, leaseMs);
      observe({ type: 'database.error', during: 'lead', error });
      return answer;
    }
  };
  return {
    lead: async (leader) => {
      const answer = await ask(leader);
      readAt = performance.now();
      watch.until(answer.leads ? 0 : askAgainMs(answer.expiresInMs));
      return answer;
    },
    watch,
    readMsAgo: () => performance.now() - readAt,
    closed: async (over) => {
      if (watch.stop()) session?.close();
      await within(closeMs, over);
      session?.close();
      await over;
    },
  };
}

/**
 * Just before another's lease ends, where it was not renewed, and right after: so the database hears from some scheduler within each lease,
 * and a gap of a whole one is an outage.
 */
function askAgainMs(expiresInMs: number): number {
  return expiresInMs > 100 ? expiresInMs * 0.9 : Math.max(0, expiresInMs) + 10;
}

/** How often a standby looks for the leader's session; a look that takes long comes less often. While nothing is to be done it waits for its end, up to `waitMs`. */
const lookMs = 200;
const waitMs = 5_000;
const lookShare = 0.02;
/** A leader that only lost its connection has so long to come back. */
const backMs = 100;

/** What a standby does until it asks for the lease: looks whether the leader's session is there. */
interface Watch {
  /** Milliseconds until the next look; 0: the lease is to be asked for. */
  readonly look: () => Promise<number>;
  /** In so many milliseconds the lease is asked for in any case. */
  readonly until: (ms: number) => void;
  /** Whether a look is under way, which may wait for the leader's end: its failure will be no error. */
  readonly stop: () => boolean;
}

/**
 * As long as it sees the leader's session, whose lease has not ended, there is nothing to ask for.
 * @param session where it may wait: a connection of the pool is needed by others
 */
function createWatch(session: Lone | undefined, database: Database, onThere: () => void): Watch {
  let askAt = -Infinity;
  let [missed, there] = [false, false];
  let seen: string | null = null;
  let looking = false;
  let stopped = false;
  const ask = async (
    mostMs: number,
  ): Promise<{ readonly gone: boolean | null; readonly waited: boolean }> => {
    const before = seen;
    if (session === undefined) return { ...(await watchLeader(database, null, 0)), waited: false };
    looking = true;
    try {
      const { gone, seen: now } = await watchLeader(session, before, Math.min(waitMs, Math.floor(mostMs)));
      seen = now;
      return { gone, waited: now !== null && now === before };
    } catch (error) {
      if (stopped) return { gone: null, waited: false };
      throw error;
    } finally {
      looking = false;
    }
  };
  return {
    look: async () => {
      const beganAt = performance.now();
      const leftMs = askAt - beganAt;
      if (leftMs <= 0) return 0;
      const { gone, waited } = await ask(leftMs);
      const was = { missed, there };
      [missed, there] = [gone === true, gone === false];
      if (gone === null) return was.there ? 0 : leftMs;
      if (missed && was.missed) return 0;
      if (there) {
        askAt = performance.now() + waitMs;
        onThere();
      }
      const tookMs = performance.now() - beganAt;
      // it comes back at once to wait again
      if (waited && !missed && tookMs >= lookMs) return 0.1;
      return Math.min(askAt - performance.now(), missed ? backMs : Math.max(lookMs, tookMs / lookShare));
    },
    until: (ms) => {
      askAt = performance.now() + ms;
      [missed, there] = [false, false];
    },
    stop: () => {
      stopped = true;
      return looking;
    },
  };
}

/** The longest pause between two tries to lead, in milliseconds: nobody leads from when the server is back until the next one. */
const leadEveryMs = 500;

function notRenewed({ leaseMs, observe }: LeadershipOptions): LoopOptions['failed'] {
  return (error, failures) => {
    const retryMs = retryPauseMs(failures, Math.min(leadEveryMs, leaseMs / 3));
    observe({ type: 'database.error', during: 'lead', error, retryMs });
    return retryMs;
  };
}

/** The longest pause between two resignations, in milliseconds: while none is answered, nobody leads. */
const resignEveryMs = 200;

async function giveUp(
  { database, leaseMs, observe }: LeadershipOptions,
  { leader, epoch }: Leader,
  isStopped: () => boolean,
): Promise<void> {
  // by then the lease has run out by itself
  const endsAt = performance.now() + leaseMs;
  for (let failures = 1; ; failures += 1) {
    try {
      await resign(database, leader, epoch);
      return;
    } catch (error) {
      const retryMs = retryPauseMs(failures, resignEveryMs);
      const again = !isStopped() && performance.now() + retryMs < endsAt;
      observe({ type: 'database.error', during: 'resign', error, ...(again ? { retryMs } : {}) });
      if (!again) return;
      await delay(retryMs, undefined, { ref: false });
    }
  }
}
