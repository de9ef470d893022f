import { defineTask } from '@pgqueue/core';
import { z } from 'zod';
import { conduct, leaseMs, patience } from '../conduct.ts';

/** Does what its payload says. */
export const flowStep = defineTask({
  name: 'flow-step',
  payload: conduct,
  timeout: `${leaseMs}ms`,
  retry: { ...patience, backoff: 'fixed', base: '30ms', jitter: 0 },
});

/** A job that another one waits for. Fails once, if it is odd. */
export const flowKid = defineTask({
  name: 'flow-kid',
  payload: z.object({ n: z.int() }),
  result: z.object({ n: z.int() }),
  timeout: `${leaseMs}ms`,
  retry: { ...patience, backoff: 'fixed', base: '30ms', jitter: 0 },
});
