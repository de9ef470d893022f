import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Observer } from '@pgqueue/core';
import type { LoopOptions } from '@pgqueue/core/internal';
import { retryPauseMs, startLoop, within } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import type { Leader, Lone, LoneOptions } from '@pgqueue/postgres/internal';
import { lead, resign, sqlState, watchLeader } from '@pgqueue/postgres/internal';

/**
 * Leader election over one row with an epoch. A scheduler leads while it renews that row in time. Each write
 * of a tick or a sweep names leader and epoch, and the database refuses it from anyone else, so safety does
 * not depend on a scheduler's own belief that it leads. A leader still steps down early by its own monotonic
 * clock, counted from before it asked, because further work would be in vain.
 *
 * A scheduler with a connection string renews in a session of its own. A standby that finds that session gone
 * takes the next epoch at once, since a killed process leaves no session behind. A leader that only lost its
 * connection reconnects, and is deposed at worst.
 */
export interface Election {
  /** Name under which this scheduler leads, or would. */
  readonly name: () => string;
  /** The current term; undefined while another scheduler leads, or no leader is known. */
  readonly term: () => Leader | undefined;
  /** Call when a write in this epoch was refused because another scheduler took over. */
  readonly lost: (epoch: number) => void;
  /**
   * Ends the term after a write with an unknown outcome, so that nothing more can come of it. Resigning waits
   * for a write that is still running. It is repeated until the database answers or the lease has expired.
   */
  readonly stepDown: (epoch: number) => void;
  /** Tries to lead at once, since the leader may have resigned. */
  readonly wake: () => void;
  /** Milliseconds for which the loop has made no progress. */
  readonly stuckMs: () => number;
  /** Milliseconds since the database last said which scheduler leads; Infinity: never. */
  readonly readMsAgo: () => number;
  /** Stops renewing, and resigns. */
  readonly stop: () => Promise<void>;
}

export interface ElectionOptions {
  readonly database: Database;
  /**
   * Opens the dedicated connection for renewals. If undefined, other schedulers notice this leader's death
   * only by the end of its lease.
   */
  readonly session: ((options: Pick<LoneOptions, 'queryTimeoutMs' | 'onBroken'>) => Lone) | undefined;
  readonly name: string;
  readonly leaseMs: number;
  readonly observe: Observer;
  readonly onElected: () => void;
  readonly onLost?: () => void;
}

/**
 * Returns a new unique leader name. A restarted scheduler is a different leader, and never continues an epoch
 * it knows nothing about.
 */
function newLeader({ name }: ElectionOptions): string {
  return `${name}-${randomUUID().slice(0, 8)}`;
}

export function startElection(options: ElectionOptions): Election {
  const { leaseMs, observe, onElected } = options;
  let leader = newLeader(options);
  let term: Leader | undefined;
  let expiry: NodeJS.Timeout | undefined;
  let stopped = false;
  const reader = createReader(options, () => loop.wake());
  const { watch } = reader;

  const end = (): void => {
    clearTimeout(expiry);
    if (term === undefined) return;
    const { epoch } = term;
    term = undefined;
    observe({ type: 'leader.lost', scheduler: leader, epoch, ...(stopped ? { stopped } : {}) });
    options.onLost?.();
  };
  const isStopped = (): boolean => stopped;

  const renew = async (): Promise<number> => {
    const waitMs = term === undefined ? await watch.look() : 0;
    if (waitMs > 0) return waitMs;
    const askedAt = performance.now();
    const asked = leader;
    const answer = await reader.lead(asked);
    if (asked !== leader) {
      // the old name resigned meanwhile, and this call may have acquired the lease for it again
      if (answer.leads) await resignUntilAnswered(options, { leader: asked, epoch: answer.epoch }, isStopped);
      return 0;
    }
    const leftMs = answer.leads ? askedAt + leaseMs - performance.now() : 0;
    if (leftMs <= 0) {
      end();
      return 0;
    }
    if (term?.epoch !== answer.epoch) {
      end();
      term = { leader, epoch: answer.epoch };
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
    name: () => leader,
    term: () => term,
    lost: (epoch) => {
      if (term?.epoch !== epoch) return;
      end();
      askNow();
    },
    stepDown: (epoch) => {
      if (term?.epoch !== epoch) return;
      const last = term;
      end();
      // the old name would only renew the lease and keep the epoch
      leader = newLeader(options);
      void resignUntilAnswered(options, last, isStopped).then(loop.wake);
    },
    wake: askNow,
    stuckMs: loop.stuckMs,
    readMsAgo: reader.readMsAgo,
    stop: async () => {
      stopped = true;
      await reader.closed(loop.stop());
      const last = term;
      end();
      if (last !== undefined) await resignUntilAnswered(options, last, isStopped);
    },
  };
}

/** Longest wait for an answer when stopping, in milliseconds. */
const closeMs = 2_000;

/** Access to the database, with the time of its last answer. */
interface Reader {
  readonly lead: (leader: string) => ReturnType<typeof lead>;
  readonly watch: Watch;
  readonly readMsAgo: () => number;
  /**
   * Closes the dedicated session: at once if a look is waiting in it, else when `over` settles or after
   * `closeMs`. Closing makes a pending query fail. Resolves with `over`.
   */
  readonly closed: (over: Promise<unknown>) => Promise<void>;
}

function createReader(options: ElectionOptions, onBroken: () => void): Reader {
  const { database, leaseMs, observe } = options;
  const session = options.session?.({ queryTimeoutMs: Math.max(1_000, leaseMs), onBroken });
  let readAt = -Infinity;
  const watch = createWatch({ session, database, waitMs: longestWaitMs(leaseMs) }, () => {
    readAt = performance.now();
  });
  const ask = async (leader: string): ReturnType<typeof lead> => {
    if (session === undefined) return lead(database, leader, leaseMs);
    try {
      return await lead(session, leader, leaseMs, await session.pid());
    } catch (error) {
      // fall back to the pool, without a session
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
 * Returns when to ask again while another scheduler leads: just before its lease ends, if it was not renewed,
 * and right after. So the database hears from some scheduler within each lease, and a gap of a whole lease is
 * an outage.
 */
function askAgainMs(expiresInMs: number): number {
  return expiresInMs > 100 ? expiresInMs * 0.9 : Math.max(0, expiresInMs) + 10;
}

/**
 * Pause between two checks of the leader's session, in milliseconds. It does not grow with the time that a
 * check takes: the first one opens a connection, on a busy server any may be slow, and with a dedicated session
 * the check waits in the database for the session to end.
 */
const lookMs = 200;
/**
 * Returns how long a check may wait in the database, in milliseconds. The session's query timeout is a lease,
 * or more. So after the wait, the answer has another second to arrive, or half of a short lease.
 */
function longestWaitMs(leaseMs: number): number {
  return Math.min(5_000, Math.max(leaseMs / 2, leaseMs - 1_000));
}
/** Milliseconds that a leader which only lost its connection has to come back. */
const backMs = 100;

/** Watches the leader's session while this scheduler stands by. */
interface Watch {
  /** Returns the milliseconds until the next look; 0: try to acquire the lease. */
  readonly look: () => Promise<number>;
  /** Sets in how many milliseconds to try for the lease in any case. */
  readonly until: (ms: number) => void;
  /**
   * Stops watching. Returns true if a look is in progress; it may be waiting for the leader's end, and its
   * failure is not an error.
   */
  readonly stop: () => boolean;
}

interface WatchOptions {
  /** Connection on which to wait; a connection of the pool is needed by others. */
  readonly session: Lone | undefined;
  readonly database: Database;
  /** Longest wait in the database, in milliseconds. */
  readonly waitMs: number;
}

/**
 * Creates a watch. While the leader's session exists and its lease has not expired, there is no reason to try
 * for the lease.
 */
function createWatch({ session, database, waitMs }: WatchOptions, onThere: () => void): Watch {
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
      // returns almost at once to wait again
      if (waited && !missed && performance.now() - beganAt >= lookMs) return 0.1;
      return Math.min(askAt - performance.now(), missed ? backMs : lookMs);
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

/**
 * Longest pause between two attempts to lead, in milliseconds, unless the server turns them away. After a server restart, nobody leads until the
 * next attempt.
 */
const leadEveryMs = 500;

function notRenewed({ leaseMs, observe }: ElectionOptions): LoopOptions['failed'] {
  return (error, failures) => {
    const retryMs = isTurnedAway(error)
      ? retryPauseMs(failures)
      : retryPauseMs(failures, Math.min(leadEveryMs, leaseMs / 3));
    observe({ type: 'database.error', during: 'lead', error, retryMs });
    return retryMs;
  };
}

/**
 * Reports whether the server lets nobody in as this user, or nobody more. It will for a while: frequent attempts
 * fill its log, and may lock the user out.
 */
function isTurnedAway(error: unknown): boolean {
  return /^(?:28|53300)/.test(sqlState(error) ?? '');
}

/** Longest pause between two attempts to resign, in milliseconds. Nobody leads until one is answered. */
const resignEveryMs = 200;

async function resignUntilAnswered(
  { database, leaseMs, observe }: ElectionOptions,
  { leader, epoch }: Leader,
  isStopped: () => boolean,
): Promise<void> {
  // by then the lease has expired
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
