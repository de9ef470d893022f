// A scheduler process of the proofs: PGQUEUE_TEST_URL, PGQUEUE_TEST_NAME, PGQUEUE_PROOF.
import { createScheduler } from '@pgqueue/scheduler';
import { hear, said, url } from '../../support/actors/messages.ts';
import { proofConfig } from './config.ts';
import { proofPolicy } from './policies.ts';

const { policy, horizonMs, ticks = false } = proofConfig();
const now = (): number => performance.timeOrigin + performance.now();

const scheduler = createScheduler({
  connectionString: url,
  name: process.env['PGQUEUE_TEST_NAME'] ?? 'scheduler',
  leaseMs: 1_000,
  ...(policy === undefined ? {} : { policy: proofPolicy(policy) }),
  ...(horizonMs === undefined ? {} : { horizonMs }),
  observe: (event) => {
    if (event.type === 'leader.elected' || event.type === 'policy.failed') said(event);
    if (event.type === 'tick' && ticks) {
      said({ type: 'tick', atMs: now(), dispatched: event.dispatched, durationMs: event.durationMs });
    }
  },
});
hear('stop', () => scheduler.stop());
await scheduler.start();
said({ type: 'ready' });
