import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { JobOptions } from '@pgqueue/core';
import { defineTask, implement } from '@pgqueue/core';
import { cancel } from '@pgqueue/postgres/internal';
import type { ExecutableOptions, WorkerOptions } from '@pgqueue/worker';
import { createWorker, executable } from '@pgqueue/worker';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { opened } from '../../support/database.ts';
import { isAlive } from '../../support/servers/machine.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
afterEach(() => bench.clear());
const folder = mkdtempSync(join(tmpdir(), 'pgqueue-executable-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const payload = z.looseObject({});
let programs = 0;

/** Writes a program, and returns its path. */
function program(lines: string, interpreter = '/bin/bash'): string {
  programs += 1;
  const path = join(folder, `program-${programs}`);
  writeFileSync(path, `#!${interpreter}\n${lines}\n`);
  chmodSync(path, 0o755);
  return path;
}

const runs = defineTask({ name: 'run', payload });

interface Given extends ExecutableOptions {
  readonly lines: string;
  readonly interpreter?: string;
  readonly job?: JobOptions;
  readonly payload?: unknown;
  readonly worker?: Partial<WorkerOptions>;
}

/** Starts a worker whose task runs the program, and enqueues one job; returns its id. */
async function start({
  lines,
  interpreter,
  job,
  payload: input = {},
  worker,
  ...options
}: Given): Promise<string> {
  await bench.worker([implement(runs, executable(program(lines, interpreter), options))], worker);
  const { id } = await bench.producer.enqueueByName('run', input, { retry: { maxTries: 1 }, ...job });
  await bench.dispatch();
  return id;
}

async function ran(given: Given): Promise<Awaited<ReturnType<typeof bench.job>>> {
  const id = await start(given);
  return until('the job to end', async () => {
    const found = await bench.job(id);
    return ['done', 'dead', 'cancelled', 'delayed'].includes(found.status) ? found : undefined;
  });
}

const written = (file: string): Promise<string> =>
  until(`${file} to be written`, () => existsSync(file) && readFileSync(file, 'utf8').trim());

describe('the outcome', () => {
  test('the payload is on stdin, the result on stdout', async () => {
    const lines = 'import json, sys\nprint(json.dumps({"got": json.load(sys.stdin)}))';
    const job = await ran({
      lines,
      interpreter: '/usr/bin/python3',
      payload: { text: 'ä€', list: [1, null] },
    });
    expect(job).toMatchObject({ status: 'done', result: { got: { text: 'ä€', list: [1, null] } } });
  });

  test('an empty stdout is no result; a program need not read its payload', async () => {
    const job = await ran({ lines: 'exit 0', payload: { text: 'x'.repeat(200_000) } });
    expect(job).toMatchObject({ status: 'done', result: null });
  });

  test.each([
    ['echo "disk is full" >&2; exit 3', /^\S+ exited with 3: disk is full$/],
    ['echo "[1, 2"', /wrote no JSON on stdout .*: "\[1, 2"$/],
    [String.raw`printf '\xff"'`, /bytes on stdout that are no UTF-8$/],
    ['kill -KILL $$', /was ended by SIGKILL$/],
    ['exec /nowhere/at/all', /exited with 12[67]: .*\/nowhere\/at\/all/],
    ['echo soon; exit 75', /exited with 75, and wrote no delay such as 5m on stdout: "soon"$/],
  ])('%s: the attempt fails', async (lines, message) => {
    const job = await ran({ lines });
    expect(job).toMatchObject({ status: 'dead', reason: 'max_tries', tries: 1, crashes: 0 });
    expect(job.lastError?.message).toMatch(message);
  });

  test('65 gives up; 75 snoozes, for the time on stdout or the option', async () => {
    const gone = await ran({ lines: 'echo "no such user" >&2; exit 65', job: { retry: { maxTries: 9 } } });
    expect(gone).toMatchObject({ status: 'dead', reason: 'gave_up' });
    expect(gone.lastError?.message).toMatch(/gave up: no such user$/);
    await bench.clear();
    const asked = await ran({ lines: 'echo 2h; exit 75' });
    expect(asked).toMatchObject({ status: 'delayed', tries: 0 });
    expect((asked.runAfter?.getTime() ?? 0) - Date.now()).toBeGreaterThan(7_000_000);
    await bench.clear();
    const usual = await ran({ lines: 'exit 75', snooze: '3h' });
    expect((usual.runAfter?.getTime() ?? 0) - Date.now()).toBeGreaterThan(10_000_000);
  });

  test('a program that has gone since the start: the attempt fails, and says so', async () => {
    const path = program('exit 0');
    await bench.worker([implement(runs, executable(path))]);
    rmSync(path);
    const { id } = await bench.producer.enqueueByName('run', {}, { retry: { maxTries: 1 } });
    await bench.dispatch();
    await until('the job to be dead', async () => (await bench.job(id)).status === 'dead');
    expect((await bench.job(id)).lastError?.message).toMatch(/could not be started: spawn .* ENOENT$/);
  });

  test('a payload that JSON cannot hold, or a logger that makes no child: the attempt fails, and no program is left', async () => {
    const path = program('sleep 600');
    const big = defineTask({ name: 'big', payload: payload.transform(() => ({ n: 1n })) });
    const note = (): void => {};
    const logger = { debug: note, info: note, warn: note, error: note };
    const child = ({ task }: { readonly task?: unknown }): typeof logger => {
      if (task === 'big') return logger;
      throw new Error('no child');
    };
    const tasks = [big, runs].map((task) => implement(task, executable(path)));
    await bench.worker(tasks, { logger: { ...logger, child } });
    const { id: unheld } = await bench.producer.enqueueByName('big', {}, { retry: { maxTries: 1 } });
    const { id: unlogged } = await bench.producer.enqueueByName('run', {}, { retry: { maxTries: 1 } });
    await bench.dispatch();
    for (const id of [unheld, unlogged])
      await until(`${id} to be dead`, async () => (await bench.job(id)).status === 'dead');
    expect((await bench.job(unheld)).lastError?.message).toMatch(/BigInt/);
    expect((await bench.job(unlogged)).lastError?.message).toBe('no child');
    expect(execFileSync('ps', ['-A', '-o', 'args'], { encoding: 'utf8' })).not.toContain(path);
  });

  test('a result that does not fit the schema of the task', async () => {
    const task = defineTask({ name: 'run', payload, result: z.object({ n: z.number() }) });
    await bench.worker([implement(task, executable(program('echo \'{"n": "one"}\'')))]);
    const { id } = await bench.producer.enqueueByName('run', {}, { retry: { maxTries: 1 } });
    await bench.dispatch();
    await until('the job to be dead', async () => (await bench.job(id)).status === 'dead');
    expect((await bench.job(id)).lastError?.message).toMatch(/result/);
  });
});

describe('what a program gets', () => {
  test('only the variables that it is to have, its arguments and its folder', async () => {
    process.env['PGQUEUE_TEST_SECRET'] = 'secret';
    process.env['PGQUEUE_TEST_PASSED'] = 'passed';
    const job = await ran({
      lines: `import json, os, sys
print(json.dumps({"env": dict(os.environ), "args": sys.argv[1:], "cwd": os.getcwd()}))`,
      interpreter: '/usr/bin/python3',
      args: ['--width', 'two words', '$HOME; exit 1'],
      cwd: folder,
      env: { PGQUEUE_TEST_PASSED: true, MODE: 'fast' },
      job: { key: 'acme', queue: 'default', retry: { maxTries: 4 } },
    });
    const { env, args, cwd } = job.result as { env: Record<string, string>; args: string[]; cwd: string };
    expect(args).toEqual(['--width', 'two words', '$HOME; exit 1']);
    expect(cwd).toBe(folder);
    expect(env).toMatchObject({
      PATH: process.env['PATH'],
      PGQUEUE_JOB_ID: job.id,
      PGQUEUE_TASK: 'run',
      PGQUEUE_QUEUE: 'default',
      PGQUEUE_KEY: 'acme',
      PGQUEUE_ATTEMPT: '1',
      PGQUEUE_MAX_TRIES: '4',
      PGQUEUE_TEST_PASSED: 'passed',
      MODE: 'fast',
    });
    const known =
      /^(?:PATH|HOME|LANG|TZ|MODE|LC_CTYPE|PGQUEUE_(?:JOB_ID|TASK|QUEUE|KEY|ATTEMPT|MAX_TRIES|TEST_PASSED)|TRACE\w+)$/;
    expect(Object.keys(env).filter((name) => !known.test(name))).toEqual([]);
  });

  test('its stderr goes to the log, by the line and with the job', async () => {
    const logged: object[] = [];
    const note = (data: object, message?: string): number => logged.push({ ...data, message });
    const logger = { debug: note, info: note, warn: note, error: note };
    const job = await ran({ lines: 'echo one >&2; printf two >&2', worker: { logger } });
    const facts = { job: job.id, task: 'run', try: 1, stream: 'stderr' };
    expect(logged).toEqual([
      { ...facts, message: 'one' },
      { ...facts, message: 'two' },
    ]);
  });

  test.each([
    ['rejects', async () => Promise.reject(new Error('disk is full'))],
    [
      'throws',
      () => {
        throw new Error('disk is full');
      },
    ],
  ])('a logger that %s changes nothing for its job', async (_fails, note) => {
    const logger = { debug: note, info: note, warn: note, error: note };
    const job = await ran({ lines: 'echo one >&2; printf two >&2', worker: { logger } });
    expect(job).toMatchObject({ status: 'done', tries: 0 });
  });
});

describe('limits', () => {
  test('more output than is allowed kills it, and fails the attempt', async () => {
    const job = await ran({ lines: 'yes', outputMaxBytes: 10_000 });
    expect(job.lastError?.message).toMatch(/wrote more than 10000 bytes on stdout$/);
  });

  test('a timeout ends the whole group, also if it ignores SIGTERM', async () => {
    const pids = join(folder, 'ignoring');
    const job = await ran({
      lines: `trap '' TERM; sleep 600 & echo $$ $! > ${pids}.new; mv ${pids}.new ${pids}; while :; do sleep 600; done`,
      job: { timeout: '2s', retry: { maxTries: 1 } },
    });
    expect(job).toMatchObject({ status: 'dead', reason: 'max_tries', crashes: 0 });
    for (const pid of (await written(pids)).split(' '))
      await until(`process ${pid} to end`, () => !isAlive(Number(pid)));
  });

  test('a cancelled job ends by SIGTERM, and as cancelled', async () => {
    const [begun, told] = [join(folder, 'begun'), join(folder, 'told')];
    const id = await start({
      lines: `trap 'echo TERM > ${told}; exit 0' TERM; echo yes > ${begun}; while :; do sleep 0.05; done`,
      grace: '1m',
    });
    await written(begun);
    await cancel(bench.database, [id]);
    await until('the job to be cancelled', async () => (await bench.job(id)).status === 'cancelled');
    expect(await written(told)).toBe('TERM');
  });

  test('what it leaves behind is ended with it, and does not hold up the job', async () => {
    const left = join(folder, 'left');
    const job = await ran({ lines: `sleep 600 & echo $! > ${left}; echo '"done"'` });
    expect(job).toMatchObject({ status: 'done', result: 'done' });
    const pid = Number(await written(left));
    await until('the process that it left to end', () => !isAlive(pid));
  });

  test('a process that left the group and holds stdout does not hold up the job', async () => {
    const left = join(folder, 'session');
    const job = await ran({ lines: `setsid sleep 600 & echo $! > ${left}; echo '"done"'` });
    expect(job).toMatchObject({ status: 'done', result: 'done' });
    process.kill(Number(await written(left)), 'SIGKILL');
  });
});

test('a worker that is killed leaves no process behind', async () => {
  const pids = join(folder, 'orphans');
  // it is guarded before it gets its payload
  const path = program(`read -r payload; sleep 600 & echo $$ $! > ${pids}.new; mv ${pids}.new ${pids}; wait`);
  const script = join(folder, 'worker.mjs');
  const packages = (name: string): string =>
    pathToFileURL(join(import.meta.dirname, `../../../packages/${name}/src/index.ts`)).href;
  writeFileSync(
    script,
    `import { defineTask, implement } from '${packages('core')}';
import { createWorker, executable } from '${packages('worker')}';
const task = defineTask({ name: 'run' , payload: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } } });
await createWorker({ connectionString: '${bench.test.url}', tasks: [implement(task, executable('${path}'))] }).start();
`,
  );
  const worker = spawn(process.execPath, ['--conditions=@pgqueue/source', script], { stdio: 'inherit' });
  const exited = once(worker, 'exit');
  await bench.producer.enqueueByName('run', {});
  await until('the node to live', async () => (await bench.sql('select 1 from pgqueue.node')).length > 0);
  await bench.dispatch();
  const found = (await written(pids)).split(' ').map(Number);
  expect(found.map((pid) => isAlive(pid))).toEqual([true, true]);
  worker.kill('SIGKILL');
  await exited;
  for (const pid of found) await until(`process ${pid} to end`, () => !isAlive(pid));
});

describe('what is refused before any job', () => {
  const refused = (command: string, options: ExecutableOptions = {}): (() => unknown) => {
    return () =>
      createWorker({
        connectionString: bench.test.url,
        tasks: [implement(runs, executable(command, options))],
      });
  };

  test('a program that is not there, or may not be run', () => {
    expect(refused('./nowhere')).toThrow(
      /task run: executable "\.\/nowhere" is not there: \/.*nowhere is no file/,
    );
    expect(refused('nowhere-in-path')).toThrow('is not in PATH: give a path, such as ./nowhere-in-path');
    const plain = join(folder, 'plain');
    writeFileSync(plain, '#!/bin/sh\n');
    expect(refused(plain)).toThrow(`can't be run: chmod +x ${plain}`);
    expect(refused(folder)).toThrow('is no file');
    expect(refused('sh', { cwd: '/nowhere' })).toThrow('has a cwd that is no folder: /nowhere');
    expect(refused('sh', { env: { PGQUEUE_TEST_UNSET: true } })).toThrow('not set: PGQUEUE_TEST_UNSET');
    expect(refused('sh')).not.toThrow();
  });

  test('bad options, all at once', () => {
    const make = executable as (command: unknown, options: unknown) => unknown;
    expect(() => make('', { args: 'x', grace: 'soon', outputMaxBytes: 0, shell: true })).toThrow(
      /command .*no shell: .*args .*outputMaxBytes .*grace /s,
    );
    expect(() => make(new URL('https://example.com/x'), {})).toThrow(/command/);
  });
});
