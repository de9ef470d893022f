import type { Shape } from '../../options/options.ts';
import { aNumber, optional, orNull } from '../../options/options.ts';
import { checkPart } from '../check-part.ts';
import { madeWith } from '../made-with.ts';
import type { Order } from '../order.ts';
import type { JobFacts } from '../snapshot.ts';
import { ranked } from './ranked.ts';

/** Options of {@link strictPriority}: the pace at which waiting jobs gain on more urgent ones. */
export interface StrictPriorityOptions {
  /**
   * Waiting time that counts as one level of priority, in milliseconds. Null: waiting counts nothing, and
   * jobs of low priority can starve. Default 60,000.
   */
  readonly agingMs?: number | null;
}

const shape: Shape<StrictPriorityOptions> = { agingMs: optional(orNull(aNumber({ above: 0 }))) };

/**
 * Orders jobs by priority over all keys, the smallest number first, then by enqueuing.
 *
 * Waiting makes up for priority, so no job starves. Once a job of priority p is the first of its key, it goes
 * before every other key's job of priority q that was enqueued more than (p - q) * agingMs after it. So only
 * jobs enqueued until then can still go ahead of it. Waiting time counts from the moment the job was
 * *enqueued* and includes delays and retries. Within a key priority is strict, as always.
 *
 * With `recall`, a job takes back ready ones of lower priority that have not waited long enough to make up
 * for it.
 *
 * The difference in age of two waiting jobs never changes, so a constant rank is enough (delay-dependent
 * priorities with equal slopes: Kleinrock, Queueing Systems II, 3.7).
 * @throws {PgQueueError} `configuration`
 */
export function strictPriority(options: StrictPriorityOptions = {}): Order {
  checkPart('order', 'strict_priority', { options, shape });
  const { agingMs = 60_000 } = options;
  const rank = ({ priority, createdMs }: JobFacts): number =>
    agingMs === null ? priority : priority * agingMs + createdMs;
  const order = ranked({
    name: 'strict_priority',
    rank,
    outranks: (job, other) => job.priority < other.priority && rank(job) < rank(other),
  });
  return madeWith(options, order);
}
