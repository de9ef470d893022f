import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

/**
 * Takes `ms` and ends; its first `fails` tries end in an error. Returns when its handler began and ended, in Unix milliseconds
 * with fractions. Timeouts are short, so that a frozen node's leases are stolen while it lives.
 */
export const work = defineTask({
  name: 'work',
  payload: z.object({ ms: z.number(), fails: z.int().default(0) }),
  timeout: '2s',
  retry: { maxTries: 100, maxCrashes: 1_000, backoff: 'fixed', base: '20ms', jitter: 0 },
});
