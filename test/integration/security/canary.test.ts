// Secrets in a connection string, the environment, payloads and results: the whole life of jobs, and errors of every kind, with
// everything that is written searched for them.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { defineTask, implement, logObserver } from '@pgqueue/core';
import { createOperator, migrate } from '@pgqueue/postgres';
import { startListener } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { z } from 'zod';
import {
  debianServer,
  startDebian,
  startEmbedded,
} from '../../../packages/postgres/src/testing/server-local.ts';
import { cli, everythingSaid, parseCli, startCli } from '../../support/cli.ts';
import type { CliProcess } from '../../support/cli.ts';
import { until } from '../../support/until.ts';

const password = 'canary-PW-9c1d';
const secret = 'canary-PAYLOAD-77aa';
const environment = 'canary-ENV-4b0e';
const tasksFile = fileURLToPath(new URL('../../support/modules/canary-tasks.ts', import.meta.url));
const secretNames = [
  'returns',
  'fails',
  'gives-up',
  'strict',
  'asks-0',
  'asks-1',
  'logs',
  'floats',
  'bursts-apart',
] as const;

let server: Awaited<ReturnType<typeof startEmbedded>>;
let admin: pg.Client;
let url: string;

beforeAll(async () => {
  const debian = inject('serverMajor') === 15 && debianServer(15) !== undefined;
  server = await (debian ? startDebian(15) : startEmbedded());
  admin = new pg.Client({ connectionString: server.adminUrl });
  await admin.connect();
  await admin.query(`create role canary superuser login password '${password}'`);
  const { rows } = await admin.query<{ hba_file: string }>('show hba_file');
  const file = rows[0]?.hba_file ?? '';
  writeFileSync(file, `host all canary all scram-sha-256\n${readFileSync(file, 'utf8')}`);
  await admin.query('select pg_reload_conf()');
  const given = new URL(server.adminUrl);
  given.username = 'canary';
  given.password = password;
  url = given.href;
  await until('the server to ask for the password', async () => {
    const wrong = new pg.Client({ connectionString: url.replace(password, 'wrong') });
    const state = await wrong.connect().then(
      () => 'let in',
      () => 'refused',
    );
    await wrong.end();
    return state === 'refused';
  });
  await migrate({ connectionString: url });
});
afterAll(async () => {
  await admin.end();
  await server.stop();
});

const started: CliProcess[] = [];
afterAll(async () => {
  for (const { process, ended } of started) {
    process.kill('SIGKILL');
    await ended;
  }
});

const env = (databaseUrl: string): Readonly<Record<string, string>> => ({
  PGQUEUE_DATABASE_URL: databaseUrl,
  CANARY: environment,
});

/** All output so far, and how often a text is in it. */
function said(text: string): readonly string[] {
  return everythingSaid.flatMap((output) => output.split('\n')).filter((line) => line.includes(text));
}

async function statuses(): Promise<Readonly<Record<string, string>>> {
  const { rows } = await admin.query<{ task: string; status: string }>(
    'select task, status from pgqueue.job',
  );
  return Object.fromEntries(rows.map(({ task, status }) => [task, status]));
}

describe('the command', () => {
  test('shows no secret in the whole life of jobs, at the finest level of logs', async () => {
    const payload = JSON.stringify({ secret });
    for (const task of [...secretNames, 'bursts']) {
      // the last ends the process: it runs when the others have
      const last = ['--max-tries', '1', '--max-crashes', '1', '--priority', task === 'bursts' ? '9' : '0'];
      await parseCli(['enqueue', task, '--payload', payload, ...last, '--database-url', url]);
    }
    const roles = ['scheduler', 'worker'].map((role) => {
      const tasks = role === 'worker' ? ['--tasks', tasksFile, '--concurrency', '1'] : [];
      return startCli([role, ...tasks, '--log-level', 'debug'], { env: env(url) });
    });
    started.push(...roles);
    const [scheduler, worker] = roles;
    await until('every job but the last to end, which ends the process', async () => {
      const now = await statuses();
      return secretNames.every((task) => ['done', 'dead'].includes(now[task] ?? ''));
    });
    expect((await worker?.ended)?.code).toBe(1);
    // lists of jobs show the errors that are kept with them, and these say what the handler said
    const commands = [
      ['status'],
      ['status', '--json'],
      ['doctor'],
      ['queues', 'list'],
      ['nodes', 'list', '--json'],
    ];
    for (const command of commands) await parseCli([...command, '--database-url', url]);
    scheduler?.process.kill('SIGTERM');
    await scheduler?.ended;
    const lines = everythingSaid.join('\n');
    for (const event of ['job.settled', 'job.invalid', 'a statement failed', 'nobody caught']) {
      expect(lines).toContain(event);
    }
    expect(said(secret)).toEqual([]);
  });

  test.each([
    ['a wrong password', (given: URL) => (given.password = `${password}-wrong`)],
    ['a host that is not there', (given: URL) => (given.hostname = 'nowhere.invalid')],
    ['a port where nobody listens', (given: URL) => (given.port = '9')],
    ['a database that is not there', (given: URL) => (given.pathname = '/nowhere')],
    ['a schema that is not there', () => {}],
    [
      'a password among the parameters',
      (given: URL) => given.searchParams.set('password', `${password}-wrong`),
    ],
  ])('says what is wrong with %s, and no secret', async (_what, change) => {
    const given = new URL(url);
    change(given);
    for (const more of [[], ['--json']]) {
      const args = ['status', '--schema', 'nowhere', ...more];
      const { code, stderr } = await parseCli([...args, '--database-url', given.href]);
      expect([1, 78]).toContain(code);
      expect(stderr).not.toBe('');
    }
  });

  test.each([
    `host=localhost password=${password}`,
    `postgres//canary:${password}@localhost/db`,
    `mysql://canary:${password}@localhost/db`,
    `postgres://canary:${password}@local host/db`,
    `postgres://canary:${password}@localhost:port/db`,
    `postgres://canary:pa/${password}@localhost/db`,
    `postgres://canary:pa#${password}@localhost/db`,
    `postgres://canary:%${password}@localhost/db`,
    password,
  ])('says that %j is no connection string, and not what it is', async (given) => {
    for (const args of [
      ['status', '--database-url', given],
      ['status', '--json', `--database-url=${given}`],
      ['status', `--database-url=${given}`, '--unknown-option', given],
    ]) {
      expect((await parseCli(args)).code).not.toBe(0);
    }
  });

  test('says so of the environment, too', async () => {
    const wrong = url.replace(password, `${password}-wrong`);
    const results = await Promise.all([
      cli(['status'], { env: env(wrong) }),
      cli(['status'], { env: env(`host=localhost password=${password}`) }),
    ]);
    expect(results.map(({ code }) => code)).toEqual([1, 78]);
  });

  test('does not repeat a payload that is no JSON', async () => {
    const broken = `{"secret": "${secret}`;
    const runs = [
      ['enqueue', 'returns', '--payload', broken],
      ['enqueue', 'returns', '--attributes', broken],
      ['schedules', 'set', 'a', '--cron', '* * * * *', '--task', 'returns', '--payload', broken],
    ];
    for (const args of runs) {
      const { code, stderr } = await parseCli([...args, '--database-url', url]);
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('JSON') });
    }
  });

  test('has said no secret at all', () => {
    for (const canary of [password, secret, environment]) expect(said(canary)).toEqual([]);
    expect(everythingSaid.join('').length).toBeGreaterThan(1_000);
  });
});

describe('the packages', () => {
  const connects: Readonly<Record<string, (connectionString: string) => Promise<unknown>>> = {
    producer: async (connectionString) => {
      const producer = createProducer({ connectionString });
      await producer.enqueueByName('a').finally(() => void producer.close());
    },
    operator: async (connectionString) => {
      const operator = createOperator({ connectionString });
      await operator.status().finally(() => void operator.close());
    },
    migrator: (connectionString) => migrate({ connectionString }),
    listener: async (connectionString) => {
      const { promise, reject } = Promise.withResolvers<void>();
      const listener = startListener({ connectionString, channels: [], onHint: () => {}, onError: reject });
      await promise.finally(() => void listener.stop());
    },
  };

  test.each(Object.entries(connects))(
    'throw no secret: %s',
    async (_name, connect) => {
      for (const given of [
        url.replace(password, `${password}-wrong`),
        `postgres://canary:${password}@localhost:port/db`,
        `host=localhost password=${password}`,
        `postgres://canary:${password}@localhost/db?sslrootcert=/nowhere`,
      ]) {
        const error = await Promise.resolve()
          .then(() => connect(given))
          .then(
            () => 'it connected',
            (failure: unknown) => failure,
          );
        expect(error).toBeInstanceOf(Error);
        expect(inspect(error, { depth: 20, showHidden: true, getters: true })).not.toContain(password);
      }
    },
    60_000,
  );

  test('log no secret through a plain pino logger, whatever the database says', async () => {
    let lines = '';
    const logger = pino({ level: 'debug' }, { write: (line: string) => void (lines += line) });
    const observe = logObserver(logger);
    const task = defineTask({ name: 'in-process', payload: z.looseObject({}), retry: { maxTries: 1 } });
    const handler = implement(task, (payload, { job }) => {
      throw Object.assign(new Error(`job ${job.id} failed`), { payload, detail: secret });
    });
    const scheduler = createScheduler({ connectionString: url, observe });
    const worker = createWorker({ connectionString: url, tasks: [handler], observe, logger });
    const producer = createProducer({ connectionString: url, observe });
    await Promise.all([scheduler.start(), worker.start()]);
    await producer.enqueue(task, { secret });
    await until('it to be dead', async () => (await statuses())['in-process'] === 'dead');
    observe({
      type: 'database.error',
      during: 'settle',
      error: await admin
        .query(`insert into pgqueue.queue (task, payload, max_tries) values ('a', $1, 0)`, [{ secret }])
        .catch((error: unknown) => error),
    });
    await Promise.all([scheduler.stop(), worker.stop(), producer.close()]);
    expect(lines).toContain('queue_max_tries_check');
    expect(lines).toContain('job.settled');
    for (const canary of [password, secret]) expect(lines).not.toContain(canary);
  });
});

test('what the server itself writes of statements holds parameters’ numbers, not their values', async () => {
  const { rows } = await admin.query<{ query: string }>('select query from pg_stat_activity');
  for (const { query } of rows)
    for (const canary of [secret, environment]) expect(query).not.toContain(canary);
});
