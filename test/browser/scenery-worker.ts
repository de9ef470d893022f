// A worker node of the pictures, in a process of its own, since one of them is killed.
import { setTimeout as delay } from 'node:timers/promises';
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { hear, said, url } from '../support/actors/messages.ts';
import { deliver } from './scenery-tasks.ts';

const worker = createWorker({
  connectionString: url,
  node: process.env['PGQUEUE_TEST_NAME'] ?? 'worker',
  concurrency: 8,
  lostAfterMs: 120_000,
  tasks: [
    implement(deliver, async ({ ms, fails, shop, order }, { signal }) => {
      await delay(ms, undefined, { signal });
      if (fails) throw new RangeError(`the endpoint of ${shop} answered 503 to order ${order}`);
      return { delivered: order };
    }),
  ],
});
hear('stop', () => worker.stop({ drainMs: 0 }));
await worker.start();
said({ type: 'ready' });
