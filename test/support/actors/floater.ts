// A worker process whose handlers let promises go. Task `float` does what its payload says.
import { setTimeout as delay } from 'node:timers/promises';
import { implement } from '@pgqueue/core';
import type { WorkerOptions } from '@pgqueue/worker';
import { createWorker } from '@pgqueue/worker';
import { actorName, actorOptions, hear, run, said, telling, url } from './messages.ts';
import { float } from './tasks.ts';

const fail = async (why: string): Promise<never> => {
  await delay(5);
  throw new Error(why);
};

const gate = Promise.withResolvers<void>();

const options: WorkerOptions = {
  connectionString: url,
  node: actorName,
  heartbeatMs: 200,
  lostAfterMs: 30_000,
  ...(actorOptions as object),
  tasks: [
    implement(float, async ({ how }) => {
      switch (how) {
        case 'while it runs':
          void fail(how);
          return delay(100, 'a result that is not true');
        case 'when it has returned':
          void fail(how);
          return 'done before';
        case 'handled late': {
          const early = fail(how);
          await delay(100);
          return early.catch((error: unknown) => `caught: ${String(error)}`);
        }
        case 'for a while':
          return delay(100, 'well');
        case 'when its worker has stopped':
          void gate.promise.then(() => fail(how));
          return 'done before';
        case 'never':
          return 'well';
        default:
          return 'unknown';
      }
    }),
  ],
  observe: telling('job.floating'),
};
const worker = createWorker(options);
hear('finish', () => void fail("the program's own")); // no handler's: Node ends the process
hear('outlive', async () => {
  await worker.stop({ drainMs: 0 });
  gate.resolve();
  for (let round = 0; round < 2; round += 1) {
    const next = createWorker(options);
    await next.start();
    await next.stop({ drainMs: 0 });
  }
  said({ type: 'outlived', listeners: process.listenerCount('unhandledRejection') });
});
await run(worker);
