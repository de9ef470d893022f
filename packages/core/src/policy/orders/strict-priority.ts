import type { Shape } from '../../options/options.ts';
import { aNumber, optional, orNull } from '../../options/options.ts';
import { checkPart } from '../check-part.ts';
import type { Order } from '../order.ts';
import type { JobFacts } from '../snapshot.ts';
import { ranked } from './ranked.ts';

/** How fast waiting jobs gain on more urgent ones: see {@link strictPriority}. */
export interface StrictPriorityOptions {
  /** Waiting so long counts as much as one level of priority. Null: it counts nothing, and low priorities can starve. Default 60,000. */
  readonly agingMs?: number | null;
}

const shape: Shape<StrictPriorityOptions> = { agingMs: optional(orNull(aNumber({ above: 0 }))) };

/**
 * By priority, over all keys: smaller first, then the job enqueued first. Waiting makes up for priority, so that none starves: once
 * a job of priority p is the first of its key, it goes before every other key's job of priority q that was enqueued more than
 * (p - q) * agingMs after it, so no more than what was enqueued until then can still go ahead. What counts is the time since it
 * was *enqueued*, delays and retries included. Within a key priority is strict, as always.
 *
 * With `recall`, a job takes back scheduled ones of lower priority that have not waited long enough to make up for it.
 *
 * The difference in age of two jobs that both wait stays as it is, so a rank that never changes serves (delay-dependent
 * priorities with equal slopes: Kleinrock, Queueing Systems II, 3.7).
 * @throws {PgQueueError} `configuration`
 */
export function strictPriority(options: StrictPriorityOptions = {}): Order {
  checkPart('order', 'strict_priority', { options, shape });
  const { agingMs = 60_000 } = options;
  const rank = ({ priority, createdMs }: JobFacts): number =>
    agingMs === null ? priority : priority * agingMs + createdMs;
  return ranked({
    name: 'strict_priority',
    rank,
    outranks: (job, other) => job.priority < other.priority && rank(job) < rank(other),
  });
}
