// A worker process whose handler has two steps. With `diesIn` the process ends within the step of that name.
import { implement } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { durableTask } from './durable-task.ts';
import { actorName, actorOptions, run, said, url } from './messages.ts';

const { diesIn, ...options } = actorOptions as { readonly diesIn?: string };

const worker = createWorker({
  connectionString: url,
  node: actorName,
  ...options,
  tasks: [
    implement(durableTask, async (_payload, { step, job }) => {
      const ran = async (name: string): Promise<string> => {
        await new Promise((resolve) => process.send?.({ type: 'ran', step: name }, resolve));
        if (name === diesIn) process.kill(process.pid, 'SIGKILL');
        return `by ${actorName}`;
      };
      const first = await step('first', () => ran('first'));
      const second = await step('second', () => ran('second'));
      said({ type: 'ends' });
      return { first, second, crashes: job.crashes };
    }),
  ],
});
await run(worker, { drainMs: 0 });
