// A scheduler process for tests: PGQUEUE_TEST_URL, PGQUEUE_TEST_NAME, PGQUEUE_TEST_LEASE_MS.
import { createScheduler } from '@pgqueue/scheduler';
import { hear, said, url } from './messages.ts';

const scheduler = createScheduler({
  connectionString: url,
  name: process.env['PGQUEUE_TEST_NAME'] ?? 'scheduler',
  leaseMs: Number(process.env['PGQUEUE_TEST_LEASE_MS'] ?? 2_000),
  observe: (event) => {
    if (event.type === 'leader.elected' || event.type === 'leader.lost') said(event);
  },
});
hear('stop', () => scheduler.stop());
await scheduler.start();
said({ type: 'ready' });
