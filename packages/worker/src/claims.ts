import { randomUUID } from 'node:crypto';
import type { ClaimedJob } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Target } from '@pgqueue/postgres';
import { claim, isTransient, nodeEndedState, releaseClaim, sqlState } from '@pgqueue/postgres';

/** What a claim brought, and when it was sent, by the node's monotonic clock: leases count from then. */
export interface Claimed {
  readonly jobs: readonly ClaimedJob[];
  readonly claimedAt: number;
}

export interface ClaimsParts {
  readonly database: Target;
  readonly node: string;
  readonly incarnation: () => string | undefined;
  readonly ended: (incarnation: string) => void;
}

/** Claims once. @throws {PgQueueError} `node_ended` while the node is not registered */
export type Claims = (wanted: { readonly max: number; readonly from: number }) => Promise<Claimed>;

/** A connection that broke may still deliver a claim: what it leased is looked for once more after this time. */
const secondLookMs = 30_000;

/**
 * Claims under a new token each time. A claim whose reply was lost may have leased jobs that nobody knows of, and a living
 * node's leases last as long as their timeouts: so they are given back, by that token, before the next claim.
 */
export function createClaims({ database, node, incarnation, ended }: ClaimsParts): Claims {
  let unanswered: readonly { readonly token: string; readonly lookAt: number; readonly last: boolean }[] = [];

  const giveBack = async (): Promise<void> => {
    const now = performance.now();
    for (const look of unanswered) {
      if (look.lookAt > now) continue;
      await releaseClaim(database, node, look.token);
      const others = unanswered.filter((other) => other !== look);
      const again = { token: look.token, lookAt: now + secondLookMs, last: true };
      unanswered = look.last ? others : [...others, again];
    }
  };

  return async ({ max, from }) => {
    const current = incarnation();
    if (current === undefined) throw new PgQueueError('node_ended', `node ${node} is not registered`);
    if (unanswered.length > 0) await giveBack();
    const token = randomUUID();
    const claimedAt = performance.now();
    try {
      const jobs = await claim(database, { node, incarnation: current, max, token, from });
      return { jobs: incarnation() === current ? jobs : [], claimedAt };
    } catch (error) {
      if (sqlState(error) === nodeEndedState) {
        ended(current);
        throw new PgQueueError('node_ended', `node ${node} was reset, lost or replaced`, { cause: error });
      }
      if (isTransient(error)) unanswered = [...unanswered, { token, lookAt: claimedAt, last: false }];
      throw error;
    }
  };
}
