import { answerOf } from '../answer.ts';
import type { Order } from '../order.ts';
import type { Candidate, Snapshot } from '../snapshot.ts';

/**
 * Returns the ids of the pool's work items without a lease that the job outranks. Items of bundles are left
 * out.
 */
export function findOutranked(
  order: Order,
  { inFlight, nowMs }: Snapshot,
  { job, pool }: { readonly job: Candidate; readonly pool: string },
): readonly string[] {
  const { outranks } = order;
  if (outranks === undefined) return [];
  return inFlight
    .filter(
      (item) =>
        item.state === 'ready' &&
        item.stuck !== true &&
        item.pool === pool &&
        item.bundle === null &&
        answerOf('outranks', outranks(job, item, nowMs)),
    )
    .map(({ id }) => id);
}
