import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { defineTask, implement } from '@pgqueue/core';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import { createQueue } from 'pgqueue';
import { beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { startCli } from '../../support/cli.ts';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { opened, useDatabase } from '../../support/database.ts';
import { freePort } from '../../support/servers/machine.ts';
import { until } from '../../support/until.ts';

const own = useDatabase();
const proxy = opened(() => startCutProxy(own.url));
beforeEach(mend);

function mend(): void {
  proxy.reset();
  proxy.hold(undefined);
}

const task = defineTask({ name: 'task', payload: z.object({}) });
const tasks = [implement(task, () => null)];

interface Answer {
  readonly status: number;
  readonly body: { readonly status: string; readonly problems: readonly string[] };
}

async function ask(port: number | undefined, path: string): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(30_000) });
  return { status: response.status, body: (await response.json()) as Answer['body'] };
}

/** Until it answers so; what it answered. */
const answers = (port: () => number | undefined, path: string, status: number): Promise<Answer> =>
  until(`${path} to be ${status}`, async () => {
    if (port() === undefined) return false;
    const answer = await ask(port(), path);
    return answer.status === status && answer;
  });

test('a worker is ready while its heartbeat arrives, and lives while its loops go on, whatever the database does', async () => {
  const worker = createWorker({
    connectionString: proxy.url,
    tasks,
    heartbeatMs: 100,
    lostAfterMs: 60_000,
    health: { port: 0, stuckMs: 1_000 },
  });
  proxy.hold('to-server');
  const starting = worker.start();
  const port = (): number | undefined => worker.healthPort;
  expect((await answers(port, '/ready', 503)).body.problems).toEqual(['the node is not registered']);
  expect((await ask(port(), '/live')).status, 'a database that is away is no reason to start anew').toBe(200);
  mend();
  await starting;
  await answers(port, '/ready', 200);
  expect(await ask(port(), '/live')).toEqual({ status: 200, body: { status: 'ok', problems: [] } });
  proxy.hold('to-server');
  expect((await answers(port, '/ready', 503)).body.problems[0]).toContain('no heartbeat has arrived for');
  // one of its loops, or both by the time that it is asked
  const { problems } = (await answers(port, '/live', 503)).body;
  expect(problems).not.toEqual([]);
  for (const problem of problems) expect(problem).toMatch(/^(?:claims|heartbeat): no progress for \d+ ms$/);
  mend();
  await answers(port, '/ready', 200);
  await answers(port, '/live', 200);
  expect((await ask(port(), '/')).status).toBe(404);
  await worker.stop();
  await expect(ask(port(), '/live')).rejects.toThrow('fetch failed');
});

test('a scheduler is ready as leader and as standby, and not while it can not read who leads', async () => {
  const health = { port: 0, host: '127.0.0.1', stuckMs: 1_000 };
  // no machine is so busy that this one is not ready, or that the other one takes its place
  const calm = { leaseMs: 30_000, health: { ...health, stuckMs: 60_000 } };
  const leader = createScheduler({ connectionString: own.url, ...calm });
  const standby = createScheduler({ connectionString: proxy.url, leaseMs: 500, health });
  await leader.start();
  await until('it to lead', () => leader.leads);
  await standby.start();
  await answers(() => leader.healthPort, '/ready', 200);
  await answers(() => standby.healthPort, '/ready', 200);
  expect(standby.leads).toBe(false);
  proxy.hold('to-server');
  const { body } = await answers(() => standby.healthPort, '/ready', 503);
  expect(body.problems[0]).toContain('who leads was last read');
  expect((await answers(() => standby.healthPort, '/live', 503)).body.problems[0]).toContain(
    'leadership: no progress',
  );
  expect((await ask(leader.healthPort, '/ready')).status).toBe(200);
  mend();
  await answers(() => standby.healthPort, '/ready', 200);
  const taken = createScheduler({ connectionString: own.url, health: { port: leader.healthPort ?? 0 } });
  await expect(taken.start()).rejects.toMatchObject({ code: 'configuration' });
  await Promise.all([leader.stop(), standby.stop(), taken.stop()]);
});

test('a queue answers for its scheduler and its worker on one port', async () => {
  const queue = createQueue({ connectionString: proxy.url, tasks, migrate: false, health: { port: 0 } });
  expect(queue.healthPort).toBeUndefined();
  proxy.hold('to-server');
  const starting = queue.start();
  const port = (): number | undefined => queue.healthPort;
  await until('both to be asked', async () => {
    if (port() === undefined) return false;
    const { problems } = (await ask(port(), '/ready')).body;
    return problems.length === 2;
  });
  expect((await ask(port(), '/ready')).body.problems.toSorted()).toEqual([
    'it has not reached the database yet',
    'the node is not registered',
  ]);
  expect((await ask(port(), '/live')).status).toBe(200);
  mend();
  await starting;
  await answers(port, '/ready', 200);
  await queue.result(await queue.enqueue(task, {}));
  const text = await (await fetch(`http://127.0.0.1:${port()}/metrics`)).text();
  const heads = text.split('\n').filter((line) => line.startsWith('# TYPE '));
  expect(new Set(heads).size).toBe(heads.length);
  expect(heads).toContain('# TYPE pgqueue_database_errors_total counter');
  expect(text).toMatch(/^pgqueue_leader 1$/m);
  expect(text).toMatch(/^pgqueue_jobs_dispatched_total\{.*\} 1$/m);
  expect(text).toMatch(/^pgqueue_jobs_started_total\{.*\} 1$/m);
  const taken = createQueue({ connectionString: own.url, health: { port: port() ?? 0 } });
  await expect(taken.start()).rejects.toMatchObject({ code: 'configuration' });
  await queue.stop();
  await expect(ask(port(), '/live')).rejects.toThrow('fetch failed');
});

test('--health-port of the command', async () => {
  const env = { PGQUEUE_DATABASE_URL: own.url };
  const port = await freePort();
  const command = startCli(['scheduler', '--health-port', String(port)], { env });
  await command.says('ready');
  await answers(() => port, '/ready', 200);
  command.process.kill('SIGTERM');
  expect((await command.ended).code).toBe(0);
  const tasksFile = fileURLToPath(new URL('../../support/modules/cli-tasks.ts', import.meta.url));
  const both = startCli(['start', '--no-migrate', '--tasks', tasksFile, '--health-port', String(port)], {
    env,
  });
  await both.says('ready');
  await answers(() => port, '/ready', 200);
  both.process.kill('SIGTERM');
  expect((await both.ended).code).toBe(0);
  expect((await startCli(['worker', '--health-port', '70000'], { env }).ended).code).toBe(2);
});

test('stopOnSignals stops in order on the first signal, and on the second gives back what runs and ends the process', async () => {
  const file = fileURLToPath(new URL('../../support/actors/signalled.ts', import.meta.url));
  const start = async (how: string) => {
    const child = spawn(process.execPath, ['--conditions=@pgqueue/source', file, how], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (said += chunk));
    await until('it to be ready', () => said.includes('ready'));
    child.kill('SIGTERM');
    await until('it to be asked', () => said.includes('stopping'));
    return { child, said: () => said };
  };
  const orderly = await start('quick');
  if (orderly.child.exitCode === null) await once(orderly.child, 'exit');
  expect([orderly.child.exitCode, orderly.said()]).toEqual([
    0,
    'ready\nstopping worker\nstopping scheduler\nstopped\n',
  ]);
  for (const how of ['never', 'stuck']) {
    const stubborn = await start(how);
    stubborn.child.kill('SIGINT');
    await once(stubborn.child, 'exit');
    expect(stubborn.child.exitCode).toBe(1);
    expect(stubborn.said()).toBe('ready\nstopping worker\nworker leaves\nscheduler leaves\n');
  }
});
