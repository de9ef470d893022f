import type { Policy } from '@pgqueue/core';
import { concurrency, fairShare, ordered, policy, rate } from '@pgqueue/core';
import { meteredRate, tenantMax } from '../workload.ts';

export const policies: Readonly<Record<string, () => Policy>> = {
  bench: () =>
    policy({
      gates: [
        concurrency({ name: 'tenant', by: ({ attributes }) => attributes['tenant'], limit: tenantMax }),
        rate({ name: 'metered', by: ({ queue }) => (queue === 'metered' ? queue : null), ...meteredRate }),
        ordered({ when: ({ queue }) => queue === 'ledger' }),
      ],
      order: fairShare(),
    }),
};
