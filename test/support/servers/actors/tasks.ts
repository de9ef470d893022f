import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

/** Takes `ms`, and goes on until the file `gate` is there, where one is named. */
export const short = defineTask({
  name: 'short',
  payload: z.object({ ms: z.number(), tenant: z.string(), gate: z.string().optional() }),
  key: ({ tenant }) => tenant,
  timeout: '10s',
  retry: { maxTries: 50, maxCrashes: 50, backoff: 'fixed', base: '100ms' },
});

/** Takes `ms`, under a lease of `leaseMs` that its handler extends at every third of it. */
export const long = defineTask({
  name: 'long',
  payload: z.object({ ms: z.number(), leaseMs: z.number() }),
  key: () => 'long',
  retry: { maxTries: 1, maxCrashes: 1 },
});
