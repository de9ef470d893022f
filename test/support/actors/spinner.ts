// A worker process for tests whose handlers keep the event loop. Task `spin` spins until there is a file
// PGQUEUE_TEST_SPIN, a minute at most, and not where none is named; `hold` waits until
// it is told to finish. PGQUEUE_TEST_THREAD=false: heartbeats come from the event loop.
import { existsSync } from 'node:fs';
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { hear, said, url } from './messages.ts';
import { hold, spin } from './tasks.ts';

const finish = Promise.withResolvers<void>();
const spinsUntil = process.env['PGQUEUE_TEST_SPIN'];

const worker = createWorker({
  connectionString: url,
  node: process.env['PGQUEUE_TEST_NAME'] ?? 'worker',
  concurrency: 10,
  heartbeatMs: 200,
  lostAfterMs: Number(process.env['PGQUEUE_TEST_LOST_AFTER_MS'] ?? 3_000),
  blockedMs: 300,
  heartbeatThread: process.env['PGQUEUE_TEST_THREAD'] !== 'false',
  tasks: [
    implement(hold, async (_payload, { job }) => {
      said({ type: 'started', job: job.id });
      await finish.promise;
    }),
    implement(spin, (_payload, { job }) => {
      said({ type: 'spinning', job: job.id });
      const until = performance.now() + 60_000;
      const isLetGo = (): boolean => spinsUntil === undefined || existsSync(spinsUntil);
      while (!isLetGo() && performance.now() < until);
    }),
  ],
  observe: (event) => {
    if (/^(?:job\.(?:stale|settled)|node\..*)$/.test(event.type)) said(event);
  },
});
hear('finish', () => {
  finish.resolve();
  return Promise.resolve();
});
hear('stop', () => worker.stop());
await worker.start();
said({ type: 'ready' });
