import { fileURLToPath } from 'node:url';
import type { Tool } from '../support/tools.ts';

/** A worker to test: a command, run by `sh -c 'exec COMMAND'` in the root of the repository. */
export interface Client {
  readonly name: string;
  readonly command: string;
  /** Programs without which it can't run. */
  readonly tools: readonly Tool[];
}

const node = `'${process.execPath}' --conditions=@pgqueue/source`;
const here = fileURLToPath(new URL('clients', import.meta.url));

/** The workers of this repository. */
export const clients: readonly Client[] = [
  { name: 'TypeScript', command: `${node} '${here}/typescript/worker.ts'`, tools: [] },
  { name: 'executables', command: `'${here}/executables/worker.sh'`, tools: ['python3'] },
  {
    name: 'bash',
    command: `examples/bash-worker/worker.sh '${here}/bash/handlers.sh'`,
    tools: ['psql'],
  },
  {
    name: 'Python',
    command: `/usr/bin/python3 '${here}/python/worker.py'`,
    tools: ['psycopg'],
  },
  {
    name: 'Python, async',
    command: `/usr/bin/python3 '${here}/python/worker_async.py'`,
    tools: ['psycopg'],
  },
];
