// A worker process for tests of jobs that take their node down: task `poison` ends the process, after the others have begun. Its node id is
// new each time, as where a supervisor starts it again, unless PGQUEUE_TEST_NODE gives it one. PGQUEUE_TEST_SUSPECTS_ONLY: a reserve.
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { setTimeout as delay } from 'node:timers/promises';
import { hear, said, url } from './messages.ts';
import { harmless, poison } from './tasks.ts';

const node = process.env['PGQUEUE_TEST_NODE'];

const worker = createWorker({
  connectionString: url,
  ...(node === undefined ? {} : { node }),
  suspectsOnly: process.env['PGQUEUE_TEST_SUSPECTS_ONLY'] === 'true',
  concurrency: 10,
  heartbeatMs: 200,
  lostAfterMs: 1_000,
  tasks: [
    implement(harmless, async ({ ms }, { job, signal }) => {
      said({ type: 'began', job: job.id });
      await delay(ms, undefined, { signal });
    }),
    implement(poison, async (_payload, { job }) => {
      said({ type: 'poisoned', job: job.id, running: worker.running });
      await delay(300);
      process.kill(process.pid, 'SIGKILL');
    }),
  ],
});
hear('stop', () => worker.stop({ drainMs: 0 }));
await worker.start();
said({ type: 'ready' });
