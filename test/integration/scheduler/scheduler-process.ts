import { createScheduler } from '@pgqueue/scheduler';

/** A scheduler in a process of its own, to be killed. Prints a line when it leads. */
const scheduler = createScheduler({
  connectionString: process.env['DATABASE_URL'] ?? '',
  leaseMs: Number(process.env['LEASE_MS']),
  observe: ({ type }) => {
    if (type === 'leader.elected') process.stdout.write('leads\n');
  },
});
await scheduler.start();
