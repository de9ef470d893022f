// One of two schedulers: whichever takes the lease first leads, the other one stands by.
import { createScheduler } from '@pgqueue/scheduler';
import { onStop, requiredEnv, tell, tellEvent } from './messages.ts';

const scheduler = createScheduler({
  connectionString: requiredEnv('DEMO_DATABASE_URL'),
  name: requiredEnv('DEMO_NAME'),
  observe: tellEvent,
});
onStop(() => scheduler.stop());
await scheduler.start();
tell({ kind: 'ready', detail: requiredEnv('DEMO_NAME') });
