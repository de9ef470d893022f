import type { Policy } from '@pgqueue/core';
import { fairShare, policy } from '@pgqueue/core';

export const policies: Readonly<Record<string, () => Policy>> = {
  /** Needs what `settlement` tells, and keeps state. */
  'shares of time': () => policy({ order: fairShare({ charge: 'time' }) }),
};
