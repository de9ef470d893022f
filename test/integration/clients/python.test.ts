import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createScheduler } from '@pgqueue/scheduler';
import { describe, expect, test } from 'vitest';
import { createTestDatabase, opened } from '../../support/database.ts';
import { startPgBouncer } from '../../support/pgbouncer.ts';
import { lacks } from '../../support/tools.ts';
import { blocksOf } from '../../docs/blocks.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const client = join(root, 'clients/python');
const example = join(root, 'examples/embeddings');
// Debian's own, which has the libraries; another one in PATH has not
const python = '/usr/bin/python3';

/** A database with a scheduler, and logins of the roles for producers and workers. */
const ground = opened(async () => {
  const own = await createTestDatabase();
  await migrate({ connectionString: own.url, schema: 'pgqueue', roles: true });
  const database = openDatabase({ connectionString: own.url, connectionsMax: 2 });
  const name = new URL(own.url).pathname.slice(1);
  const login = async (role: 'producer' | 'worker'): Promise<string> => {
    await database.query(`create role ${name}_${role} login password '${name}' in role pgqueue_${role}`, []);
    await database.query(`grant usage on schema app to ${name}_${role}`, []);
    await database.query(`grant select, insert on app.written to ${name}_${role}`, []);
    const url = new URL(own.url);
    [url.username, url.password] = [`${name}_${role}`, name];
    return url.href;
  };
  await database.query('create schema app', []);
  await database.query('create table app.written (queue text, n integer)', []);
  const [producerUrl, workerUrl] = [await login('producer'), await login('worker')];
  const scheduler = createScheduler({ connectionString: own.url });
  await scheduler.start();
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-python-'));
  return {
    folder,
    env: {
      ...process.env,
      PYTHONDONTWRITEBYTECODE: '1',
      PYTHONPATH: client,
      DATABASE_URL: own.url,
      PGQUEUE_TEST_URL: own.url,
      PGQUEUE_TEST_PRODUCER_URL: producerUrl,
      PGQUEUE_TEST_WORKER_URL: workerUrl,
    },
    close: async () => {
      await scheduler.stop();
      // of processes that its own tests have killed
      await database.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and usename <> current_user`,
        [],
      );
      for (const role of ['producer', 'worker']) {
        await database.query(`drop owned by ${name}_${role}`, []);
        await database.query(`drop role ${name}_${role}`, []);
      }
      await database.close();
      await own.drop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
});

/** Clients of two schemas enqueue and work in turns, until each of them would have prepared its statements. */
const inTurns = `
import asyncio, sys, time
from pgqueue import AsyncProducer, Producer, Worker, task
url = sys.argv[1]
schemas = ("eu_1", "eu_2")
done = {schema: [] for schema in schemas}
def worker(schema):
    @task(schema)
    def note(payload, ctx):
        done[schema].append(payload["n"])
    return Worker(url, [note], schema=schema)  # forgets listen=False
async def asynchronous():
    producers = {schema: AsyncProducer(url, schema=schema) for schema in schemas}
    for n in range(10, 20):
        for schema, producer in producers.items():
            await producer.enqueue(schema, {"n": n})
    for producer in producers.values():
        await producer.close()
workers = [worker(schema) for schema in schemas]
for one in workers:
    one.start()
producers = {schema: Producer(url, schema=schema) for schema in schemas}
for n in range(10):
    for schema, producer in producers.items():
        producer.enqueue(schema, {"n": n})
asyncio.run(asynchronous())
deadline = time.monotonic() + 60
while any(len(numbers) < 20 for numbers in done.values()) and time.monotonic() < deadline:
    time.sleep(0.02)
for one in (*workers, *producers.values()):
    one.stop() if isinstance(one, Worker) else one.close()
print({schema: sorted(numbers) == list(range(20)) for schema, numbers in done.items()})
`;

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a program to its end, with its output. */
function run(command: string, args: readonly string[], cwd: string, more: object = {}): Promise<Ended> {
  const child = spawn(command, args, {
    cwd,
    env: { ...ground.env, ...more },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data: Buffer) => (output += data.toString()));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output }));
  });
}

/** Runs a program, and returns its output. Fails if the program does. */
async function ok(...given: Parameters<typeof run>): Promise<string> {
  const { code, output } = await run(...given);
  if (code !== 0) throw new Error(`${given[0]} ended with ${code}:\n${output}`);
  return output;
}

describe('the Python client', () => {
  test.skipIf(lacks('psycopg'))(
    'passes its own tests, with the rights of a producer and of a worker',
    async () => {
      const output = await ok(
        python,
        ['-W', 'ignore', '-m', 'unittest', 'discover', '-s', 'tests', '-t', '.'],
        client,
      );
      const [, count] = /^Ran (\d+) tests/m.exec(output) ?? [];
      expect(Number(count)).toBeGreaterThan(60);
      expect(output).not.toContain('skipped');
    },
  );

  test.skipIf(lacks('psycopg') || lacks('pgbouncer'))(
    'keeps to its schema where PgBouncer hands out sessions by transactions',
    async () => {
      const connectionString = ground.env.PGQUEUE_TEST_URL;
      const bouncer = await startPgBouncer(connectionString, 1);
      const schedulers = ['eu_1', 'eu_2'].map((schema) => createScheduler({ connectionString, schema }));
      try {
        for (const schema of ['eu_1', 'eu_2']) await migrate({ connectionString, schema });
        for (const scheduler of schedulers) await scheduler.start();
        const said = await ok(python, ['-W', 'ignore', '-c', inTurns, bouncer.url], root);
        expect(said.trim().split('\n').at(-1)).toBe("{'eu_1': True, 'eu_2': True}");
      } finally {
        for (const scheduler of schedulers) await scheduler.stop();
        await bouncer.stop();
      }
    },
  );

  test.skipIf(lacks('mypy'))('has complete types', async () => {
    const mypy = ['--cache-dir', join(ground.folder, 'mypy')];
    expect(await ok('mypy', mypy, client)).toContain('Success');
    const strict = ['--strict', '--enable-incomplete-feature=Unpack', 'worker.py'];
    expect(await ok('mypy', [...mypy, ...strict], example, { MYPYPATH: client })).toContain('Success');
  });

  test.skipIf(lacks('black'))('is formatted, with all else that is Python here', async () => {
    const folders = [
      'clients',
      'test/conformance/clients',
      'test/bench/python',
      'test/chaos/actors',
      'examples/embeddings',
    ];
    const black = ['--check', '--config', join(client, 'pyproject.toml'), ...folders];
    expect(await ok('/usr/bin/black', black, root)).toContain('would be left unchanged');
  });

  test.skipIf(lacks('python venv'))(
    'is built as a wheel, which says hello from an empty environment',
    async () => {
      const source = join(ground.folder, 'source');
      cpSync(client, source, { recursive: true });
      const bare = { PYTHONPATH: '' };
      for (const name of ['builder', 'user'])
        await ok(python, ['-m', 'venv', '--system-site-packages', name], ground.folder, bare);
      const offline = ['--no-index', '--disable-pip-version-check'];
      const build = [
        'wheel',
        ...offline,
        '--no-build-isolation',
        '--no-deps',
        '--wheel-dir',
        'wheels',
        source,
      ];
      await ok(join(ground.folder, 'builder/bin/pip'), build, ground.folder, bare);
      const wheels = readdirSync(join(ground.folder, 'wheels'));
      expect(wheels).toEqual([expect.stringMatching(/^pgqueue-[\d.]+-py3-none-any\.whl$/)]);
      const pip = join(ground.folder, 'user/bin/pip');
      await ok(pip, ['install', ...offline, join('wheels', wheels[0] ?? '')], ground.folder, bare);
      const readme = blocksOf(readFileSync(join(client, 'README.md'), 'utf8'));
      const hello = readme.find(({ words }) => words.includes('hello.py'));
      const lines = hello?.text.trim().split('\n') ?? [];
      expect(lines.length).toBeLessThanOrEqual(10);
      writeFileSync(
        join(ground.folder, 'hello.py'),
        `${hello?.text}\nimport pgqueue\nprint(pgqueue.__path__)\n`,
      );
      const said = await ok(join(ground.folder, 'user/bin/python'), ['hello.py'], ground.folder, bare);
      expect(said).toContain('Hello, Ada!');
      expect(said).toContain(join(ground.folder, 'user/lib'));
      expect(readdirSync(join(ground.folder, 'user/lib/python3.11/site-packages/pgqueue'))).toContain(
        'py.typed',
      );
    },
  );

  test.skipIf(lacks('psycopg'))('runs the jobs of a producer in TypeScript', async () => {
    const worker = spawn(python, ['worker.py'], {
      cwd: example,
      env: ground.env,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    const ended = new Promise((resolve) => worker.on('close', resolve));
    try {
      const said = await ok(process.execPath, ['--conditions=@pgqueue/source', 'producer.ts'], example);
      expect(said).toBe('a cab, a bac: 1.00; a cab, zzz: 0.00\n');
    } finally {
      worker.kill('SIGTERM');
    }
    expect(await ended).toBe(0);
  });
});
