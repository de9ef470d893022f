import { policy } from './compose.ts';
import { fairShare } from '../orders/fair-share.ts';
import type { Policy } from '../policy.ts';

/**
 * What a scheduler does that is given no policy: queues share each pool by their weights, and within each its keys share alike, job
 * by job. The limits and rates of queue_config hold, as always.
 */
export function defaultPolicy(): Policy {
  return policy({ name: 'default', order: fairShare() });
}
