import { answerOf } from '../answer.ts';
import type { Shape } from '../../options/options.ts';
import { aFunction, optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import { madeWith } from '../made-with.ts';
import type { Order } from '../order.ts';
import type { JobFacts, Snapshot } from '../snapshot.ts';
import type { Candidate } from '../snapshot.ts';
import { ranked } from './ranked.ts';

/** Options of {@link byScore}: the user's own score. */
export interface Scoring {
  readonly name: string;
  /**
   * Returns the score of a job. The largest goes first. May read the whole snapshot (prepared data, jobs in
   * flight) and must depend on nothing else. If it throws or returns no number, {@link turns} orders that
   * plan instead, and the failure is reported.
   */
  readonly score: (job: Candidate, snapshot: Snapshot) => number;
  /** Decides which jobs may recall others. Default: no job outranks another. */
  readonly outranks?: (job: JobFacts, other: JobFacts, nowMs: number) => boolean;
}

const shape: Shape<Scoring> = { name: aName, score: aFunction, outranks: optional(aFunction) };

/**
 * Orders jobs by your own score. Among equal scores, the job enqueued first goes first. Only the first jobs
 * of each key are scored, and they keep their order within the key. The score has to prevent starvation: one
 * that grows without bound with `snapshot.nowMs - job.createdMs` does.
 * @throws {PgQueueError} `configuration`
 */
export function byScore(scoring: Scoring): Order {
  checkPart('order', 'byScore', { options: scoring, shape });
  const { name, score, outranks } = scoring;
  const order = ranked({
    name,
    rank: (job, snapshot) => -answerOf('score', score(job, snapshot)),
    ...(outranks === undefined ? {} : { outranks }),
  });
  return madeWith(scoring, order);
}
