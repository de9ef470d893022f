import { policy } from './compose.ts';
import { fairShare } from '../orders/fair-share/fair-share.ts';
import type { Policy } from '../policy.ts';

/**
 * Returns the policy of a scheduler that is given none. Queues share each pool by their weights, and the keys
 * of a queue share alike, job by job. The limits and rates of queue_config always apply.
 */
export function defaultPolicy(): Policy {
  return policy({ name: 'default', order: fairShare() });
}
