// A scheduler process of the bench: PGQUEUE_TEST_URL, PGQUEUE_TEST_NAME, PGQUEUE_CHAOS.
import { concurrency, fairShare, ordered, policy, rate } from '@pgqueue/core';
import { createScheduler } from '@pgqueue/scheduler';
import { hear, said, url } from '../../support/actors/messages.ts';
import { meteredRate, tenantMax } from '../workload.ts';
import { actorName, config } from './config.ts';

const scheduler = createScheduler({
  connectionString: url,
  name: actorName,
  leaseMs: config.schedulerLeaseMs,
  queryTimeoutMs: 5_000,
  listen: config.listen,
  policy: policy({
    gates: [
      concurrency({ name: 'tenant', by: ({ attributes }) => attributes['tenant'], limit: tenantMax }),
      rate({ name: 'metered', by: ({ queue }) => (queue === 'metered' ? queue : null), ...meteredRate }),
      ordered({ when: ({ queue }) => queue === 'ledger' }),
    ],
    order: fairShare(),
  }),
  observe: (event) => {
    if (event.type === 'leader.elected' || event.type === 'policy.failed') said(event);
  },
});
hear('stop', () => scheduler.stop().finally(() => process.exit(0)));
process.on('disconnect', () => process.exit(0));
await scheduler.start();
said({ type: 'ready' });
