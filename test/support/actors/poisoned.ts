// A worker process for tests of jobs that take their node down: task `poison` ends the process, after the others have begun. Its node id is
// new each time, as where a supervisor starts it again, unless PGQUEUE_TEST_NODE gives it one. With PGQUEUE_TEST_HOLDS the others go on until it ends.
// It is lost after a second of silence, unless PGQUEUE_TEST_CLOCKS says `default`.
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { setTimeout as delay } from 'node:timers/promises';
import { hear, said, url } from './messages.ts';
import { harmless, poison } from './tasks.ts';

const node = process.env['PGQUEUE_TEST_NODE'];
const holds = process.env['PGQUEUE_TEST_HOLDS'] === 'true';
const forever = 3_600_000;

const worker = createWorker({
  connectionString: url,
  ...(node === undefined ? {} : { node }),
  concurrency: 10,
  ...(process.env['PGQUEUE_TEST_CLOCKS'] === 'default'
    ? {}
    : { heartbeatMs: 200, lostAfterMs: Number(process.env['PGQUEUE_TEST_LOST_AFTER_MS'] ?? 1_000) }),
  tasks: [
    implement(harmless, async ({ ms }, { job, signal }) => {
      said({ type: 'began', job: job.id });
      await delay(holds ? forever : ms, undefined, { signal });
    }),
    implement(poison, async (_payload, { job }) => {
      said({ type: 'poisoned', job: job.id });
      await delay(300);
      process.kill(process.pid, 'SIGKILL');
    }),
  ],
});
hear('stop', () => worker.stop({ drainMs: 0 }));
await worker.start();
said({ type: 'ready' });
