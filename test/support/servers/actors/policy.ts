// Not of all versions: whoever wants it imports it when it is wanted.
import type { Policy } from '@pgqueue/core';
import { fairShare, policy } from '@pgqueue/core';

/** Needs what `settlement` tells, and keeps state. */
export function sharesOfTime(): Policy {
  return policy({ order: fairShare({ charge: 'time' }) });
}
