import type { Shape } from '../../options/options.ts';
import { aFunction, optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import type { Order } from '../order.ts';
import type { JobFacts, Snapshot } from '../snapshot.ts';
import type { Candidate } from '../snapshot.ts';
import { ranked } from './ranked.ts';

/** A score of the user's own: see {@link byScore}. */
export interface Scoring {
  readonly name: string;
  /**
   * The larger, the earlier. May read all of the snapshot (what was prepared, what is in flight), and must depend on nothing else. One that throws or
   * is no number replaces the order by {@link turns} for that plan, and is reported.
   */
  readonly score: (job: Candidate, snapshot: Snapshot) => number;
  /** For `recall`. Default: no job outranks another. */
  readonly outranks?: (job: JobFacts, other: JobFacts, nowMs: number) => boolean;
}

const shape: Shape<Scoring> = { name: aName, score: aFunction, outranks: optional(aFunction) };

/**
 * By a score of your own; of equal ones, the job enqueued first. Only the first jobs of each key are asked about, in their order within it.
 * Starvation is up to the score: one that grows with `snapshot.nowMs - job.createdMs`, without bound, rules it out.
 * @throws {PgQueueError} `configuration`
 */
export function byScore(scoring: Scoring): Order {
  checkPart('order', 'byScore', { options: scoring, shape });
  const { name, score, outranks } = scoring;
  return ranked({
    name,
    rank: (job, snapshot) => -score(job, snapshot),
    ...(outranks === undefined ? {} : { outranks }),
  });
}
