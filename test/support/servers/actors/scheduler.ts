// A scheduler process of the whole system.
import { createScheduler } from '@pgqueue/scheduler';
import { hear, said, url } from '../../actors/messages.ts';
import { actorName, now, systemConfig } from './config.ts';

const { schedulerLeaseMs, listen, charge } = systemConfig();

const scheduler = createScheduler({
  connectionString: url,
  name: actorName,
  leaseMs: schedulerLeaseMs,
  listen,
  ...(charge ? { policy: (await import('./policy.ts')).sharesOfTime() } : {}),
  observe: (event) => {
    if (event.type === 'leader.elected' || event.type === 'leader.lost') said({ ...event, atMs: now() });
    if (event.type === 'node.lost' || event.type === 'leases.reaped') said({ ...event, atMs: now() });
    if (event.type === 'database.error')
      said({ type: event.type, during: event.during, error: String(event.error) });
  },
});
hear('stop', () => scheduler.stop());
await scheduler.start();
said({ type: 'ready' });
