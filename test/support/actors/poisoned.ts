// A worker process for tests of jobs that take their node down: task `poison` ends the process, after the others have begun. Its options are
// what the test tells it; its node id is new each time, as where a supervisor starts it again, unless they name one. With `holds` the others go
// on until it ends.
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { setTimeout as delay } from 'node:timers/promises';
import { actorOptions, run, said, url } from './messages.ts';
import { harmless, poison } from './tasks.ts';

const { holds, ...options } = actorOptions as { readonly holds?: boolean };
const forever = 3_600_000;

const worker = createWorker({
  connectionString: url,
  concurrency: 10,
  ...options,
  tasks: [
    implement(harmless, async ({ ms }, { job, signal }) => {
      said({ type: 'began', job: job.id });
      await delay(holds === true ? forever : ms, undefined, { signal });
    }),
    implement(poison, async (_payload, { job }) => {
      said({ type: 'poisoned', job: job.id });
      await delay(300);
      process.kill(process.pid, 'SIGKILL');
    }),
  ],
});
await run(worker, { drainMs: 0 });
