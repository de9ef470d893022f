import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

export const misbehave = defineTask({
  name: 'misbehave',
  payload: z.object({ how: z.string(), url: z.string().optional() }),
  timeout: '1h',
  retry: { base: 1, maxTries: 3 },
  checkpoint: z.object({ at: z.number() }),
});
