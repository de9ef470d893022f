import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

/** One event of a shop, to be delivered to the tenant's own endpoint. The app enqueues it, the workers implement it. */
export const deliverWebhook = defineTask({
  name: 'deliver-webhook',
  payload: z.object({
    event: z.uuid(),
    tenant: z.string().min(1),
    url: z.url(),
    body: z.object({ type: z.literal('order.created'), order: z.uuid(), cents: z.int() }),
  }),
  key: ({ tenant }) => tenant, // fairness: the tenants take turns, however much one of them enqueues
  timeout: '10s',
  retry: { maxTries: 8, backoff: 'exponential', base: '200ms', max: '5s' },
});
