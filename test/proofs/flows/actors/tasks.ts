import { defineTask } from '@pgqueue/core';
import { conduct, leaseMs, patience } from '../conduct.ts';

/** Does what its payload says. */
export const flowStep = defineTask({
  name: 'flow-step',
  payload: conduct,
  timeout: `${leaseMs}ms`,
  retry: { ...patience, backoff: 'fixed', base: '30ms', jitter: 0 },
});
