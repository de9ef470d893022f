import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cli, cliOf, parseCli, startCli } from '../../support/cli.ts';
import type { CliProcess } from '../../support/cli.ts';
import { useDatabase } from '../../support/database.ts';
import { lacks } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const tasks = fileURLToPath(new URL('../../support/modules/cli-tasks.ts', import.meta.url));
const tasksAround = fileURLToPath(new URL('../../support/modules/cli-around.ts', import.meta.url));
const policyFile = fileURLToPath(new URL('../../support/modules/cli-policy.ts', import.meta.url));
let scheduler: CliProcess;
const own = useDatabase();
const { insert, sql } = own;
const { pgqueue } = cliOf(() => own.url);

beforeAll(async () => {
  scheduler = start('scheduler', '--name', 'test-scheduler', '--log-level', 'debug');
  await scheduler.says('scheduler test-scheduler ready');
});
afterAll(async () => {
  scheduler.process.kill('SIGKILL');
  await scheduler.ended;
});

function start(...args: readonly string[]): CliProcess {
  return startCli(args, { env: { PGQUEUE_DATABASE_URL: own.url } });
}

async function statusOf(id: string): Promise<string | undefined> {
  const [row] = await sql('select status from pgqueue.job where id = $1', [id]);
  return row?.status;
}

async function onlyJob(): Promise<string> {
  const rows = await sql('select id from pgqueue.job');
  expect(rows).toHaveLength(1);
  return rows[0].id;
}

const reaches = (id: string, status: string): Promise<true> =>
  until(`job ${id} to be ${status}`, async () => (await statusOf(id)) === status);

/** Every line is JSON, with a level, a time and an event. */
function logLines(stderr: string): readonly Record<string, unknown>[] {
  return stderr
    .trim()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('worker', () => {
  test('runs what plain SQL inserted; on SIGTERM it finishes what runs, and leaves', async () => {
    const worker = start(
      'worker',
      '--tasks',
      tasks,
      '--node',
      'w1',
      '--concurrency',
      '2',
      '--log-level',
      'debug',
    );
    await worker.says('worker w1 (3 tasks, 2 slots) ready');
    const plain = `insert into pgqueue.queue(task,payload) values('hello','{}')`;
    if (lacks('psql')) await sql(plain);
    else await promisify(execFile)('psql', [own.url, '-c', plain]);
    const id = await onlyJob();
    await reaches(id, 'done');
    const [{ result }] = await sql('select result from pgqueue.history where id = $1', [id]);
    expect(result).toEqual({ hello: {}, from: 'hello' });

    const lingering = await insert({ task: 'linger', payload: '{"ms": 500}' });
    await reaches(lingering, 'running');
    worker.process.kill('SIGTERM');
    const { code, stdout, stderr } = await worker.ended;
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: 'worker w1 (3 tasks, 2 slots) ready\nworker w1 (3 tasks, 2 slots) stopped\n',
    });
    expect(await statusOf(lingering)).toBe('done');
    expect(await sql(`select state from pgqueue.node where id = 'w1'`)).toEqual([{ state: 'left' }]);
    const events = logLines(stderr);
    expect(events.map(({ msg }) => msg)).toEqual(expect.arrayContaining(['node.registered', 'job.settled']));
    expect(events.every(({ role, level }) => role === 'worker' && typeof level === 'number')).toBe(true);
  });

  test('a second signal ends it at once, with 1; its jobs are given back, uncounted', async () => {
    const worker = start('worker', '--tasks', tasks, '--node', 'w2', '--json');
    await worker.says('"event":"ready"');
    expect(JSON.parse(worker.output().stdout)).toEqual({
      event: 'ready',
      role: 'worker',
      node: 'w2',
      tasks: expect.arrayContaining(['hello', 'linger', 'stuck']),
    });
    const id = await insert({ task: 'stuck' });
    await reaches(id, 'running');
    worker.process.kill('SIGINT');
    await until('it to say that it stops', () => worker.output().stderr.includes('a second signal'));
    worker.process.kill('SIGINT');
    expect((await worker.ended).code).toBe(1);
    expect(await statusOf(id)).not.toBe('running');
    expect(await sql('select crashes, tries from pgqueue.queue where id = $1', [id])).toEqual([
      { crashes: 0, tries: 0 },
    ]);
    expect(await sql(`select state from pgqueue.node where id = 'w2'`)).toEqual([{ state: 'left' }]);
    expect((await pgqueue('jobs', 'delete', id)).code).toBe(0);
  });

  test('running jobs finish though whatever read its output has gone, as tee does on Ctrl-C', async () => {
    const worker = start('worker', '--tasks', tasks, '--node', 'w3', '--log-level', 'debug');
    await worker.says('ready');
    const id = await insert({ task: 'linger', payload: '{"ms": 500}' });
    await reaches(id, 'running');
    worker.process.stdout?.destroy();
    worker.process.stderr?.destroy();
    worker.process.kill('SIGINT');
    expect((await worker.ended).code).toBe(0);
    expect(await statusOf(id)).toBe('done');
    expect(await sql(`select state from pgqueue.node where id = 'w3'`)).toEqual([{ state: 'left' }]);
  });

  test('runs programs, beside the handlers of a file, and refuses those that are not there', async () => {
    const args = [
      '--exec',
      'upper=/usr/bin/tr a-z A-Z',
      '--exec',
      'printenv=/usr/bin/printenv PGQUEUE_TEST_WORD',
    ];
    const worker = startCli(['worker', '--tasks', tasks, ...args, '--exec-env', 'PGQUEUE_TEST_WORD'], {
      env: { PGQUEUE_DATABASE_URL: own.url, PGQUEUE_TEST_WORD: 'open' },
    });
    await worker.says('(5 tasks, 10 slots) ready');
    const upper = await insert({ task: 'upper', payload: '{"a": "b"}' });
    const hello = await insert({ task: 'hello' });
    const word = await insert({ task: 'printenv', max_tries: 1 });
    await Promise.all([reaches(upper, 'done'), reaches(hello, 'done'), reaches(word, 'dead')]);
    expect(await sql('select result from pgqueue.history where id = $1', [upper])).toEqual([
      { result: { A: 'B' } },
    ]);
    expect(await sql('select last_error from pgqueue.job where id = $1', [word])).toEqual([
      { last_error: expect.objectContaining({ message: expect.stringMatching(/no JSON .*: "open"$/) }) },
    ]);
    worker.process.kill('SIGTERM');
    expect((await worker.ended).code).toBe(0);
    const missing = await pgqueue('worker', '--exec', 'upper=./nowhere');
    expect(missing).toMatchObject({ code: 78, stdout: '' });
    expect(missing.stderr).toMatch(/task upper: executable "\.\/nowhere" is not there/);
    const twice = await pgqueue('worker', '--tasks', tasks, '--exec', 'hello=/bin/true');
    expect(twice).toMatchObject({ code: 78, stderr: expect.stringContaining('more than one handler') });
  });

  test('calls the middleware that the file exports around its handlers', async () => {
    const worker = start('worker', '--tasks', tasksAround);
    await worker.says('(3 tasks, 10 slots) ready');
    const refused = await insert({ task: 'hello', key: 'refused', max_tries: 1 });
    const other = await insert({ task: 'hello' });
    await Promise.all([reaches(refused, 'dead'), reaches(other, 'done')]);
    expect(await sql('select last_error from pgqueue.job where id = $1', [refused])).toEqual([
      { last_error: expect.objectContaining({ message: 'refused by the middleware' }) },
    ]);
    worker.process.kill('SIGTERM');
    expect((await worker.ended).code).toBe(0);
  });
});

describe('start', () => {
  test('brings an empty database up to date, leads and works in one process, and stops in order', async () => {
    const schema = 'started';
    const queue = start('start', '--tasks', tasks, '--schema', schema, '--concurrency', '3', '--json');
    await queue.says('"event":"ready"');
    expect(JSON.parse(queue.output().stdout)).toMatchObject({ role: 'start', policy: 'default' });
    const [{ id }] = await sql(`insert into ${schema}.queue (task) values ('hello') returning id`);
    await until('the job to be done', async () => {
      const [job] = await sql(`select status from ${schema}.job where id = $1`, [id]);
      return job?.status === 'done';
    });
    queue.process.kill('SIGTERM');
    expect((await queue.ended).code).toBe(0);
    expect(await sql(`select state, slots from ${schema}.node`)).toEqual([{ state: 'left', slots: 3 }]);
    expect(await sql(`select leader from ${schema}.scheduler_lease`)).toEqual([{ leader: null }]);
  });

  test('with --no-migrate an empty database is refused, in one line that says what to do', async () => {
    const { code, stderr } = await pgqueue('start', '--tasks', tasks, '--schema', 'absent', '--no-migrate');
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/migrate/);
  });
});

describe('scheduler', () => {
  test('a standby takes over when the leader stops in order', async () => {
    const standby = start('scheduler', '--name', 'standby', '--lease', '2s', '--json');
    await standby.says('"event":"ready"');
    const leader = async (): Promise<string | null> =>
      (await sql('select leader from pgqueue.scheduler_lease'))[0].leader;
    expect(await leader()).toContain('test-scheduler');
    scheduler.process.kill('SIGTERM');
    const { code, stdout, stderr } = await scheduler.ended;
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: 'scheduler test-scheduler ready\nscheduler test-scheduler stopped\n',
    });
    expect(logLines(stderr).map(({ msg }) => msg)).toContain('leader.elected');
    await until('the standby to lead', async () => (await leader())?.includes('standby') === true);
    standby.process.kill('SIGINT');
    expect((await standby.ended).code).toBe(0);
    expect(await leader()).toBeNull();
  });

  test('a policy from a file is reported; who stands by with another is warned', async () => {
    const leader = start('scheduler', '--name', 'with-policy', '--policy', policyFile, '--json');
    await leader.says('"event":"ready"');
    expect(JSON.parse(leader.output().stdout)).toMatchObject({ event: 'ready', policy: 'tenants' });
    const reported = async (): Promise<boolean> =>
      /^policy +tenants, report of [^(]* ago$/m.test((await pgqueue('status')).stdout);
    await until('status to name it', reported);
    const standby = start('scheduler', '--name', 'standby');
    await until('the standby to warn', () => standby.output().stderr.includes('policy.differs'));
    const warning = logLines(standby.output().stderr).find(({ msg }) => msg === 'policy.differs');
    expect(warning).toMatchObject({ level: 40, policy: 'default', other: 'tenants' });
    for (const { process, ended } of [standby, leader]) {
      process.kill('SIGTERM');
      expect((await ended).code).toBe(0);
    }
  });

  test.each([['--policy'], ['--shadow']])('a file without a policy is refused (%s)', async (option) => {
    for (const command of ['scheduler', 'dev']) {
      expect(await parseCli([command, option, tasks, '--database-url', own.url])).toMatchObject({
        code: 78,
        stdout: '',
        stderr: expect.stringMatching(new RegExp(`${option} .*cli-tasks\\.ts: exports no "policy"`)),
      });
    }
  });

  test('a schema that is not there ends it with 78', async () => {
    const { code, stdout, stderr } = await pgqueue('scheduler', '--schema', 'elsewhere');
    expect({ code, stdout }).toEqual({ code: 78, stdout: '' });
    expect(stderr).toContain('run "pgqueue migrate --schema elsewhere"');
  });
});

describe('--tasks', () => {
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-tasks-'));
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  test.each([
    ['nothing.mjs', 'export const x = 1;', /exports no task handlers, but "x"/],
    ['broken.mjs', 'throw new TypeError("no luck");', /can't be imported: TypeError: no luck/],
    [
      'twice.mjs',
      `const h = () => ({ kind: 'pgqueue.handler', task: { name: 'a' } }); export const tasks = [h(), h()];`,
      /two handlers of task a/,
    ],
    ['notes.txt', 'x', /is no module/],
  ])('%s is refused', async (name, text, message) => {
    const file = join(folder, name);
    writeFileSync(file, text);
    const line = ['worker', '--tasks', file, '--database-url', own.url];
    expect(await parseCli(line)).toMatchObject({
      code: 78,
      stdout: '',
      stderr: expect.stringMatching(message),
    });
  });

  test('a syntax error is told with its line', async () => {
    const file = join(folder, 'wrong.mjs');
    writeFileSync(file, 'export const a = 1;\nexport const b = 1 2;\n');
    expect(await cli(['worker', '--tasks', file, '--database-url', own.url])).toMatchObject({
      code: 78,
      stderr: `pgqueue: pgqueue can't start: --tasks ${file}: can't be imported: SyntaxError: Unexpected number (${file}:2)\n`,
    });
  });
});
