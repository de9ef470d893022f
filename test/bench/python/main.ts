// npm run bench:python -- [--jobs 50000] [--repeat 3] [--task bench-async]
// Measures how fast a Python worker drains jobs whose handler does nothing, beside the TypeScript worker: in turns,
// on one server, with one scheduler. Tells jobs a second, from the first that begins to the last that has ended.
// Needs Linux (/proc) and psycopg 3.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Database } from '@pgqueue/postgres';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { startEmbedded } from '../../../packages/postgres/src/testing/server-local.ts';
import { startActor } from '../../support/actors.ts';

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '50000' },
    repeat: { type: 'string', default: '3' },
    task: { type: 'string', default: 'bench' },
  },
});
const [jobs, repeat] = [Number(values.jobs), Number(values.repeat)];
const file = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const workers = {
  TypeScript: [process.execPath, file('worker.mjs')],
  Python: ['/usr/bin/python3', file('worker.py')],
} as const;

interface Drained {
  readonly perSecond: number;
  /** Processor time of the worker for each job, in microseconds. */
  readonly workerUs: number;
}

/** Returns the processor time, in microseconds, that a process has used so far. */
function processorUs(pid: number): number {
  const [, , , , , , , , , , , user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\)/, ') ')
    .split(/ +/);
  return (Number(user) + Number(system)) * 10_000;
}

/** Fills the queue, and lets one worker drain it. */
async function drained(database: Database, url: string, command: readonly string[]): Promise<Drained> {
  await database.query('truncate pgqueue.history', []);
  await database.query(
    `insert into pgqueue.queue (task, payload)
     select $1, jsonb_build_object('n', n, 'text', repeat('x', 80)) from generate_series(1, $2) n`,
    [values.task, jobs],
  );
  await database.query('vacuum analyze pgqueue.queue, pgqueue.work_queue', []);
  await database.query('checkpoint', []);
  const [program = '', ...args] = command;
  const worker = spawn(program, args, { env: { ...process.env, PGQUEUE_TEST_URL: url }, stdio: 'inherit' });
  const ended = once(worker, 'exit');
  for (;;) {
    await delay(100);
    if (worker.exitCode !== null) throw new Error(`${program} ended with ${worker.exitCode}`);
    const left = await database.query('select 1 from pgqueue.queue limit 1', []);
    if (left.length === 0) break;
  }
  const workerUs = processorUs(worker.pid ?? 0) / jobs;
  worker.kill('SIGTERM');
  await ended;
  const [row] = await database.query<{ readonly seconds: number; readonly done: number }>(
    `select extract(epoch from max(finished) - min(started))::float8 as seconds, count(*)::integer as done
     from pgqueue.history where outcome = 'done'`,
    [],
  );
  if (row?.done !== jobs) throw new Error(`${row?.done} of ${jobs} jobs are done`);
  return { perSecond: jobs / row.seconds, workerUs };
}

const data = mkdtempSync(join(tmpdir(), 'pgqueue-python-'));
const server = await startEmbedded({ data });
try {
  const url = server.adminUrl;
  await migrate({ connectionString: url });
  const database = openDatabase({ connectionString: url, connectionsMax: 2 });
  const scheduler = await startActor('scheduler', {
    url,
    name: 'python',
    file: new URL('../scheduler.mjs', import.meta.url),
    execArgv: [],
  });
  const rates: Record<string, number[]> = { TypeScript: [], Python: [] };
  for (let round = 0; round < repeat; round += 1) {
    for (const [name, command] of Object.entries(workers)) {
      const { perSecond, workerUs } = await drained(database, url, command);
      rates[name]?.push(perSecond);
      console.log(
        `${name.padEnd(10)} ${Math.round(perSecond)} jobs/s, ${workerUs.toFixed(1)} µs of the worker for each`,
      );
    }
  }
  const median = (name: string): number =>
    rates[name]?.toSorted((a, b) => a - b)[Math.floor(repeat / 2)] ?? 0;
  const share = median('Python') / median('TypeScript');
  console.log(
    `medians: TypeScript ${Math.round(median('TypeScript'))}, Python ${Math.round(median('Python'))}: ${share.toFixed(2)}`,
  );
  await scheduler.stop();
  await database.close();
} finally {
  await server.stop();
  rmSync(data, { recursive: true, force: true });
}
