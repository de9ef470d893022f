// A worker process of the proofs: PGQUEUE_TEST_URL, PGQUEUE_TEST_NAME, PGQUEUE_PROOF.
import { setTimeout as delay } from 'node:timers/promises';
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { hear, said, url } from '../../support/actors/messages.ts';
import { proofConfig } from './config.ts';
import { work } from './tasks.ts';

const { concurrency = 10 } = proofConfig();
const now = (): number => performance.timeOrigin + performance.now();

const worker = createWorker({
  connectionString: url,
  node: process.env['PGQUEUE_TEST_NAME'] ?? 'worker',
  concurrency,
  heartbeatMs: 300,
  lostAfterMs: 1_500,
  tasks: [
    implement(work, async ({ ms, fails }, { job }) => {
      const beganMs = now();
      if (ms > 0) await delay(ms);
      if (job.tries < fails) throw new Error(`fails ${fails} times`);
      return { beganMs, endedMs: now() };
    }),
  ],
});
hear('stop', () => worker.stop({ drainMs: 1_000 }));
await worker.start();
said({ type: 'ready' });
