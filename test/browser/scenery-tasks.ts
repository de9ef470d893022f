import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

/** The deliveries in the screenshots: each takes `ms` milliseconds, more for some shops than for others. */
export const deliver = defineTask({
  name: 'deliver-webhook',
  payload: z.object({ shop: z.string(), order: z.number(), ms: z.number(), fails: z.boolean() }),
  queue: 'webhooks',
  key: ({ shop }) => shop,
  timeout: '10m',
  retry: { maxTries: 3, backoff: 'fixed', base: '5s' },
});
