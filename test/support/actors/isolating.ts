// A worker process for tests of what its own processes do when it is killed.
import { implement, isolated } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { misbehave } from '../isolated/tasks.ts';
import { hear, said, url } from './messages.ts';

const module = new URL('../isolated/misbehave.ts', import.meta.url);
const worker = createWorker({
  connectionString: url,
  tasks: [implement(misbehave, isolated(module))],
});
hear('stop', () => worker.stop({ drainMs: 0 }));
await worker.start();
said({ type: 'ready' });
