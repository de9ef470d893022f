// Limits over several installations, as the environment names them.
import { fifo, policy } from '@pgqueue/core';
import type { SharedLimitsOptions } from '@pgqueue/router';
import { sharedLimits } from '@pgqueue/router';

/** Jobs of queue `calls` count for a concurrency, those of queue `texts` for a rate. */
export function sharedPolicy({
  concurrency,
  rate,
  ...given
}: Omit<SharedLimitsOptions, 'limits'> & {
  readonly concurrency: number;
  readonly rate: { readonly perSecond: number; readonly burst: number };
}): ReturnType<typeof policy> {
  const gates = sharedLimits({
    ...given,
    limits: {
      calls: { concurrency, when: ({ queue }) => queue === 'calls', lane: true },
      texts: { rate, when: ({ queue }) => queue === 'texts', lane: true },
    },
  });
  return policy({ name: 'shared', gates, order: fifo() });
}

export const policies = {
  shared: () =>
    sharedPolicy(JSON.parse(process.env['PGQUEUE_TEST_SHARED'] ?? '') as Parameters<typeof sharedPolicy>[0]),
};
