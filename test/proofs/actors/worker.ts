// A worker process of the proofs.
import { setTimeout as delay } from 'node:timers/promises';
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { actorName, actorOptions, now, run, url } from '../../support/actors/messages.ts';
import type { ProofConfig } from './config.ts';
import { work } from './tasks.ts';

const worker = createWorker({
  connectionString: url,
  node: actorName,
  concurrency: 10,
  heartbeatMs: 300,
  lostAfterMs: 1_500,
  ...(actorOptions as ProofConfig),
  tasks: [
    implement(work, async ({ ms, fails }, { job }) => {
      const beganMs = now();
      if (ms > 0) await delay(ms);
      if (job.tries < fails) throw new Error(`fails ${fails} times`);
      return { beganMs, endedMs: now() };
    }),
  ],
});
await run(worker, { drainMs: 1_000 });
