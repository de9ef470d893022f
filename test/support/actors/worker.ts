// A worker process. Its options are what the test tells it. Task `hold` starts and, with `holds`, waits until it is told to finish; `quick` is
// done at once; `spin` keeps the event loop until there is a file `spinsUntil`, a minute at most, and not where none is named.
import { existsSync } from 'node:fs';
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { actorName, actorOptions, hear, run, said, telling, url } from './messages.ts';
import { hold, quick, spin } from './tasks.ts';

const { holds, spinsUntil, tells, ...options } = actorOptions as {
  readonly holds?: boolean;
  readonly spinsUntil?: string;
  /** Types of events. */
  readonly tells?: readonly string[];
};
const finish = Promise.withResolvers<void>();

const worker = createWorker({
  connectionString: url,
  node: actorName,
  concurrency: 10,
  heartbeatMs: 300,
  lostAfterMs: 5_000,
  ...options,
  tasks: [
    implement(hold, async ({ n }, { job }) => {
      said({ type: 'started', job: job.id, n });
      if (holds === true) await finish.promise;
    }),
    implement(quick, () => null),
    implement(spin, (_payload, { job }) => {
      said({ type: 'spinning', job: job.id });
      const until = performance.now() + 60_000;
      const isLetGo = (): boolean => spinsUntil === undefined || existsSync(spinsUntil);
      while (!isLetGo() && performance.now() < until);
    }),
  ],
  observe: telling('job.stale', 'node.ended', 'node.registered', ...(tells ?? [])),
});
hear('finish', finish.resolve);
await run(worker);
