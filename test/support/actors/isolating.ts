// A worker process for tests of what its own processes do when it is killed.
import { implement, isolated } from '@pgqueue/core';
import { createWorker } from '@pgqueue/worker';
import { misbehave } from '../isolated/tasks.ts';
import { run, url } from './messages.ts';

const module = new URL('../isolated/misbehave.ts', import.meta.url);
const tasks = [implement(misbehave, isolated(module))];
await run(createWorker({ connectionString: url, tasks }), { drainMs: 0 });
