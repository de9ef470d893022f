import { randomUUID } from 'node:crypto';
import type { Observer } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import type { ClaimedRows, Target } from '@pgqueue/postgres/internal';
import {
  claim,
  claimRows,
  isOfRow,
  isTransient,
  nodeEndedState,
  releaseClaim,
  sqlState,
} from '@pgqueue/postgres/internal';
import type { ClaimRange } from './poll-interval.ts';
import { claimApart } from './apart.ts';

/**
 * Work items in dispatch order, and when the claim was sent, by the node's monotonic clock: leases count from
 * then.
 */
export interface Claimed extends ClaimedRows {
  readonly claimedAt: number;
}

export interface ClaimsParts {
  readonly database: Target;
  readonly node: string;
  readonly incarnation: () => string | undefined;
  readonly ended: (incarnation: string) => void;
  /** Tokens of claims that are under way, or unanswered. */
  readonly tokens: Set<string>;
  readonly observe: Observer;
}

/**
 * Claims once. `max`: work items for free slots. `ahead`: batches beyond those; null: single jobs only.
 * @throws {PgQueueError} `node_ended` while the node is not registered
 */
export type Claims = (
  wanted: { readonly max: number; readonly ahead: number | null } & ClaimRange,
) => Promise<Claimed>;

/**
 * Delay before the leases of an unanswered claim are released once more: a broken connection may still
 * deliver the claim.
 */
const secondLookMs = 30_000;

/**
 * Claims under a new token each time. A claim whose reply was lost may have leased jobs that no node knows
 * of, and a living node's leases last until their timeouts. So these leases are released, by that token,
 * before the next claim.
 */
export function createClaims({ database, node, incarnation, ended, tokens, observe }: ClaimsParts): Claims {
  let unanswered: readonly { readonly token: string; readonly lookAt: number; readonly last: boolean }[] = [];

  const giveBack = async (current: string): Promise<void> => {
    const now = performance.now();
    for (const look of unanswered) {
      if (look.lookAt > now) continue;
      await releaseClaim(database, { node, incarnation: current, token: look.token });
      if (look.last) tokens.delete(look.token);
      const others = unanswered.filter((other) => other !== look);
      const again = { token: look.token, lookAt: now + secondLookMs, last: true };
      unanswered = look.last ? others : [...others, again];
    }
  };

  return async ({ max, ahead, from, whole }) => {
    const current = incarnation();
    if (current === undefined) throw new PgQueueError('node_ended', `node ${node} is not registered`);
    if (unanswered.length > 0) await giveBack(current);
    const token = randomUUID();
    const claimedAt = performance.now();
    tokens.add(token);
    let known = false;
    try {
      const input = { node, incarnation: current, max, token, from, reap: whole };
      const claimed =
        ahead === null ? claim(database, input).then(alone) : claimRows(database, { ...input, ahead });
      const { rows, full } = await claimed.catch(async (error: unknown) => {
        if (!isOfRow(error)) throw error;
        return alone(await claimApart({ database, observe }, input));
      });
      return incarnation() === current ? { rows, full, claimedAt } : { rows: [], full: false, claimedAt };
    } catch (error) {
      if (sqlState(error) === nodeEndedState) {
        ended(current);
        throw new PgQueueError('node_ended', `node ${node} was reset, lost or replaced`, { cause: error });
      }
      known = isTransient(error);
      if (known) unanswered = [...unanswered, { token, lookAt: claimedAt, last: false }];
      throw error;
    } finally {
      // By then the caller has taken over the jobs.
      if (!known) setImmediate(() => tokens.delete(token));
    }
  };
}

/** Makes each job a work item of its own. */
function alone(jobs: readonly ClaimedJob[]): ClaimedRows {
  const rows = jobs.map((job) => ({
    position: job.position,
    size: 1,
    jobs: [job],
    suspect: job.crashes > 0,
  }));
  return { rows, full: false };
}
