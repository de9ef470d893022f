import type { Database } from '@pgqueue/postgres';
import type { Leader, Lone, LoneOptions } from '@pgqueue/postgres/internal';
import { missingNodes, noteMissingNodes } from '@pgqueue/postgres/internal';

/**
 * Detects dead nodes by their database sessions: a killed process leaves no session behind. A node whose
 * session has been gone for 3 s is lost, if during all that time the server answered this process, too, and
 * accepted new connections from it: a live node would have reconnected. A slow server or machine would delay
 * that node's reconnect, so it gets additional time: twice the duration of the slowest look.
 */
export interface NodeSessions {
  /**
   * Looks once. `lose` is called if a node may be lost. `busy`: nodes hold work items; otherwise looks come
   * less often. Resolves to the milliseconds until the next look.
   */
  readonly look: (leader: Leader, busy: boolean, lose: (wellMs: number) => Promise<void>) => Promise<number>;
}

const everyMs = 500;
/** Share of the time that looks may take; a slow look comes less often. */
const lookShare = 0.02;
const longestMs = 2_000;
/** Interval while no node holds work items, since nothing can be lost, in milliseconds. */
const idleMs = 10_000;
/** Time limit to connect and answer, in milliseconds. */
const answerMs = 3_000;
/** After a gap of this length between looks, the time in between counts as unknown, in milliseconds. */
const gapMs = 2 * idleMs;
/** Matches the 3 s of the SQL function `lose_nodes`. */
const goneMs = 3_000;

/** @param connect opens a new, unused connection */
export function createNodeSessions(
  database: Database,
  connect: (options: Pick<LoneOptions, 'queryTimeoutMs'>) => Lone,
): NodeSessions {
  let wellSince = performance.now();
  let lookedAt = -Infinity;
  /** Duration of the slowest look since the first currently missing node was missed. */
  let slowestMs = 0;
  let pauseMs = everyMs;

  const look = async (leader: Leader, leastMs: number): Promise<number | null> => {
    const beganAt = performance.now();
    const { missing, changed, lostInMs } = await missingNodes(database);
    pauseMs = Math.max(leastMs, Math.min(longestMs, (performance.now() - beganAt) / lookShare));
    if (changed) await noteMissingNodes(database, leader);
    if (missing === 0) {
      slowestMs = 0;
      return null;
    }
    const fresh = connect({ queryTimeoutMs: answerMs });
    try {
      await missingNodes(fresh);
    } finally {
      fresh.close();
    }
    return lostInMs;
  };

  return {
    look: async (leader, busy, lose) => {
      const beganAt = performance.now();
      if (beganAt - lookedAt > gapMs) wellSince = beganAt;
      lookedAt = beganAt;
      let lostInMs: number | null;
      try {
        lostInMs = await look(leader, busy ? everyMs : idleMs);
      } catch (error) {
        wellSince = performance.now();
        throw error;
      }
      const now = performance.now();
      slowestMs = Math.max(slowestMs, now - beganAt);
      if (lostInMs === null) return pauseMs;
      const inMs = Math.max(lostInMs + 2 * slowestMs, wellSince + goneMs - now);
      if (inMs > 0) return Math.min(pauseMs, inMs + 1);
      await lose(now - wellSince);
      return pauseMs;
    },
  };
}
