import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { dispatchAll } from '../../support/dispatch-all.ts';
import { lacks } from '../../support/tools.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

// Debian's own, which has python3-psycopg2; another one in PATH has not
const python = '/usr/bin/python3';
const script = fileURLToPath(new URL('../../../examples/python-worker/worker.py', import.meta.url));

const bench = opened(openWorkerBench);
let worker: ChildProcess | undefined;
afterAll(() => void worker?.kill('SIGKILL'));

function start(): ChildProcess & { readonly stdout: Readable } {
  const child = spawn(python, ['-u', script], {
    env: { ...process.env, DATABASE_URL: bench.test.url },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  worker = child;
  return child;
}

const incarnation = async (): Promise<unknown> => {
  const [row] = await bench.sql(`select incarnation from pgqueue.node where state = 'alive'`);
  return row?.['incarnation'];
};

/** Ends the node as somebody else would, and waits until it has registered again. */
async function resetNode(): Promise<void> {
  const before = await until('the node to live', incarnation);
  await bench.sql('select pgqueue.reset_node(id) from pgqueue.node');
  await until('the node to register again', async () => ((await incarnation()) ?? before) !== before);
}

test.skipIf(lacks('psycopg2'))(
  'a worker of 40 lines in Python does jobs, fails one, lives through a reset and a pause, and leaves in order',
  async () => {
    const child = start();
    const [ready] = (await once(child.stdout, 'data')) as [Buffer];
    expect(ready.toString()).toMatch(/^ready python-/);
    await resetNode();
    child.kill('SIGSTOP'); // for longer than 30 s, as far as the leader knows
    await bench.sql(`select pgqueue.lead('s', 60000)`);
    // A heartbeat that was under way when the process stopped may still commit: it is dated back again.
    await until('the node to be lost', async () => {
      await bench.sql(`update pgqueue.node set heartbeat = now() - interval '31 seconds'`);
      await bench.sql(`select pgqueue.lose_nodes('s', (select epoch from pgqueue.scheduler_lease))`);
      return (await incarnation()) === undefined;
    });
    await bench.sql(`select pgqueue.resign('s', (select epoch from pgqueue.scheduler_lease))`);
    child.kill('SIGCONT');
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
