// A worker process for tests (PGQUEUE_TEST_LOST_AFTER_MS). Task `hold` starts and then waits until it is told to finish; task `quick` is done at once.
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { hear, said, url } from './messages.ts';
import { hold, quick } from './tasks.ts';

const finish = Promise.withResolvers<void>();
const holds = process.env['PGQUEUE_TEST_HOLDS'] === 'true';

const worker = createWorker({
  connectionString: url,
  node: process.env['PGQUEUE_TEST_NAME'] ?? 'worker',
  concurrency: 10,
  heartbeatMs: 300,
  lostAfterMs: Number(process.env['PGQUEUE_TEST_LOST_AFTER_MS'] ?? 5_000),
  tasks: [
    implement(hold, async ({ n }, { job }) => {
      said({ type: 'started', job: job.id, n });
      if (holds) await finish.promise;
    }),
    implement(quick, () => null),
  ],
  observe: (event) => {
    if (event.type === 'job.stale' || event.type === 'node.ended' || event.type === 'node.registered')
      said(event);
  },
});
hear('finish', () => {
  finish.resolve();
  return Promise.resolve();
});
hear('stop', () => worker.stop());
await worker.start();
said({ type: 'ready' });
