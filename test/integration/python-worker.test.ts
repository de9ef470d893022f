import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { dispatchAll } from '../support/dispatch-all.ts';
import { lacks } from '../support/tools.ts';
import type { WorkerBench } from '../support/worker-bench.ts';
import { openWorkerBench, until } from '../support/worker-bench.ts';

// Debian's own, which has python3-psycopg2; another one in PATH has not
const python = '/usr/bin/python3';
const script = fileURLToPath(new URL('../../examples/python-worker/worker.py', import.meta.url));

let bench: WorkerBench;
let worker: ChildProcess | undefined;
beforeAll(async () => {
  bench = await openWorkerBench();
});
afterAll(async () => {
  worker?.kill('SIGKILL');
  await bench.close();
});

test.skipIf(lacks('psycopg2'))(
  'a worker of 30 lines in Python does jobs, fails one, and leaves in order',
  async () => {
    const child = spawn(python, [script], {
      env: { ...process.env, DATABASE_URL: bench.test.url },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    worker = child;
    const [ready] = (await once(child.stdout, 'data')) as [Buffer];
    expect(ready.toString()).toMatch(/^ready python-/);
    const enqueue = async (payload: unknown): Promise<string> =>
      (await bench.producer.enqueueByName('shout', payload)).id;
    const done = await Promise.all(['one', 'zwei', 'três'].map((text) => enqueue({ text })));
    const failing = await enqueue({});
    const other = await enqueueOther();
    await dispatchAll(bench.database);
    await until('all to have been tried', async () => {
      const [row] = await bench.sql(
        `select count(*)::integer as n from pgqueue.job where task = 'shout' and status in ('done', 'delayed')`,
      );
      return row?.['n'] === 4;
    });
    const results = await Promise.all(done.map(async (id) => (await bench.job(id)).result));
    expect(results).toEqual(['ONE', 'ZWEI', 'TRÊS']);
    expect(await bench.job(failing)).toMatchObject({ tries: 1, lastError: { message: "KeyError('text')" } });
    expect((await bench.job(other)).status).toBe('ready');
    child.kill('SIGTERM');
    const [code] = (await once(child, 'exit')) as [number | null];
    expect(code).toBe(0);
    expect(await bench.sql(`select state from pgqueue.node`)).toEqual([{ state: 'left' }]);
  },
);

/** A job that this node does not say it can run. */
async function enqueueOther(): Promise<string> {
  return (await bench.producer.enqueueByName('whisper', {})).id;
}
