import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

/** What the shops of the pictures do: each delivery takes a moment, longer for some than for others. */
export const deliver = defineTask({
  name: 'deliver-webhook',
  payload: z.object({ shop: z.string(), order: z.number(), ms: z.number(), fails: z.boolean() }),
  queue: 'webhooks',
  key: ({ shop }) => shop,
  timeout: '10m',
  retry: { maxTries: 3, backoff: 'fixed', base: '5s' },
});
