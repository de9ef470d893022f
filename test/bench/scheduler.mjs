// The scheduler process of the benchmark: plain JavaScript over the built packages, as in production.
// Stripping types would add some 30 MiB to the scheduler's memory. PGQUEUE_TEST_HELD adds a gate that holds
// all jobs with a group.
import { setFlagsFromString } from 'node:v8';
import { concurrency, fairShare, policy } from '@pgqueue/core';
import { createScheduler } from '@pgqueue/scheduler';

// the same setting as the pgqueue command's
setFlagsFromString('--heap-growing-percent=100');
const url = process.env['PGQUEUE_TEST_URL'] ?? '';
const holdsGroups = concurrency({
  name: 'held',
  by: ({ attributes }) => attributes['group'] ?? null,
  limit: 0,
});

/** @param {Readonly<Record<string, unknown>>} message */
const said = (message) => process.connected && process.send?.(message);

const scheduler = createScheduler({
  connectionString: url,
  policy: policy({
    gates: process.env['PGQUEUE_TEST_HELD'] === undefined ? [] : [holdsGroups],
    order: fairShare(),
  }),
  observe: (event) => {
    if (event.type === 'tick') {
      said({ type: 'tick', dispatched: event.dispatched, durationMs: event.durationMs });
    }
  },
});
setInterval(() => {
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  said({ type: 'memory', rss, heapUsed, cpuMs: (user + system) / 1_000 });
}, 100).unref();
process.on('message', (word) => {
  if (word === 'stop') void scheduler.stop().finally(() => process.disconnect());
});
await scheduler.start();
said({ type: 'ready' });
