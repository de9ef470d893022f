import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

/** Takes `ms`; its first `fails` tries fail. `n`: its place among the jobs of its key. */
export const step = defineTask({
  name: 'step',
  payload: z.object({ n: z.int(), ms: z.number(), fails: z.int() }),
  timeout: '3s',
  retry: { maxTries: 1_000, maxCrashes: 1_000, backoff: 'fixed', base: '50ms', jitter: 0 },
});
