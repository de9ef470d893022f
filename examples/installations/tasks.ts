import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

/** Calls the one vendor that all tenants share. Its contract allows so many calls at a time, from anywhere. */
export const callVendor = defineTask({
  name: 'call-vendor',
  payload: z.object({ tenant: z.string(), n: z.int() }),
  key: ({ tenant }) => tenant,
  timeout: '5s',
  retry: { maxTries: 50, backoff: 'fixed', base: '200ms' },
});

export const vendorLimit = 8;
