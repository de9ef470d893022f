import type { Database, Leader, Lone, LoneOptions } from '@pgqueue/postgres';
import { missingNodes, missNodes } from '@pgqueue/postgres';

/**
 * Looks whether the sessions of nodes are there: a process that was killed leaves none behind. A node whose session is gone for 3 s is
 * lost, if all that time the server answered here, too, and let this process connect anew: a node that lives would have done the same. A
 * server or machine that is slow would keep it for longer, so it has twice the time more that such a look took.
 */
export interface NodeSessions {
  /**
   * `lose` is called where one may be lost. `busy`: nodes hold work items; where they hold none, a look comes less often. Resolves to the milliseconds until the
   * next look.
   */
  readonly look: (leader: Leader, busy: boolean, lose: (wellMs: number) => Promise<void>) => Promise<number>;
}

const everyMs = 500;
/** A look that takes long comes less often. */
const lookShare = 0.02;
const longestMs = 2_000;
/** While no node holds anything there is nothing to lose. */
const idleMs = 10_000;
/** For connecting, and for the answer. */
const answerMs = 3_000;
/** A process that has not looked for so long knows nothing of the time between. */
const gapMs = 2 * idleMs;
/** As the SQL function `lose_nodes` counts. */
const goneMs = 3_000;

/** @param connect opens a connection that nobody has used */
export function createNodeSessions(
  database: Database,
  connect: (options: Pick<LoneOptions, 'queryTimeoutMs'>) => Lone,
): NodeSessions {
  let wellSince = performance.now();
  let lookedAt = -Infinity;
  /** Since the first of those that are missing now was missed. */
  let slowestMs = 0;
  let pauseMs = everyMs;

  const look = async (leader: Leader, leastMs: number): Promise<number | null> => {
    const beganAt = performance.now();
    const { missing, changed, lostInMs } = await missingNodes(database);
    pauseMs = Math.max(leastMs, Math.min(longestMs, (performance.now() - beganAt) / lookShare));
    if (changed) await missNodes(database, leader);
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
