// A worker process whose handlers let promises go. Task `float` does what its payload says.
import { setTimeout as delay } from 'node:timers/promises';
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { actorName, actorOptions, hear, run, telling, url } from './messages.ts';
import { float } from './tasks.ts';

const fail = async (why: string): Promise<never> => {
  await delay(5);
  throw new Error(why);
};

const worker = createWorker({
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
        case 'never':
          return 'well';
        default:
          return 'unknown';
      }
    }),
  ],
  observe: telling('job.floating'),
});
hear('finish', () => void fail("the program's own")); // no handler's: Node ends the process
await run(worker);
