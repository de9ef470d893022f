import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createTestDatabase, startTestServer } from '@pgqueue/testing';
import type { TestServer } from '@pgqueue/testing';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, inject, test, vi } from 'vitest';
import { until } from '../../support/until.ts';

let admin: pg.Client;
let server: TestServer | undefined;

beforeAll(async () => {
  admin = new pg.Client({ connectionString: inject('adminUrl') });
  await admin.connect();
});
afterEach(async () => {
  await server?.stop();
  server = undefined;
  vi.unstubAllEnvs();
});
afterAll(() => admin.end());

const databases = async (like: string): Promise<readonly string[]> =>
  (
    await admin.query<{ name: string }>('select datname as name from pg_database where datname like $1', [
      like,
    ])
  ).rows.map(({ name }) => name);

test('without a server the error says how to have one', async () => {
  await expect(createTestDatabase()).rejects.toThrow(
    /no test server: name '@pgqueue\/testing\/vitest-setup' \(or jest-setup\) in globalSetup, or call startTestServer/,
  );
});

test('wrong options are told, before there is a server', async () => {
  await expect(startTestServer({ prepar: () => {}, clock: 'yes' } as never)).rejects.toThrow(
    /prepar: did you mean prepare\?.*clock must be true or false/,
  );
  await expect(startTestServer({ schema: 'My Jobs' })).rejects.toThrow('is no usable name');
});

test('copies a template that was prepared once, and leaves a server that is given as it was', async () => {
  vi.stubEnv('PGQUEUE_TEST_DATABASE_URL', inject('adminUrl'));
  vi.stubEnv('PGQUEUE_TEST_SERVER', undefined);
  const old = `pgqueue_test_${Date.now() - 2 * 86_400_000}_aaaa`;
  const young = `pgqueue_test_${Date.now()}_bbbb`;
  for (const name of [old, young]) await admin.query(`create database ${name} template template0`);
  let prepared = 0;
  server = await startTestServer({
    schema: 'jobs',
    prepare: async (connectionString) => {
      prepared += 1;
      const client = new pg.Client({ connectionString });
      await client.connect();
      await client.query('create table account (name text)');
      await client.end();
    },
  });
  // what a killed run has left goes with a later one
  expect(await databases(old)).toEqual([]);
  expect(await databases(young)).toEqual([young]);
  await admin.query(`drop database ${young}`);

  await expect(createTestDatabase({ name: 'mine' } as never)).rejects.toThrow(
    'createTestDatabase: server.adminUrl must be given',
  );
  const [one, other] = await Promise.all([createTestDatabase(), createTestDatabase()]);
  await one.query("insert into account values ('Ada')", []);
  await one.query("insert into jobs.queue (task) values ('a')", []);
  const wall = Date.now();
  await one.clock.advance('1h');
  // also the connection that was opened first
  const ahead = 'select extract(epoch from now())::float8 * 1000 - $1::float8 > 3500000 as is_ahead';
  expect(await Promise.all([one.query(ahead, [wall]), one.query(ahead, [wall])])).toEqual(
    Array.from({ length: 2 }, () => [{ is_ahead: true }]),
  );
  expect(await other.query('select 1 from account', [])).toEqual([]);
  expect(await other.query('select 1 from jobs.queue', [])).toEqual([]);
  expect(Math.abs((await other.clock.now()).getTime() - Date.now())).toBeLessThan(60_000);
  await one.clear();
  expect(await one.query('select 1 from jobs.queue', [])).toEqual([]);
  expect(await one.query('select 1 from account', [])).toHaveLength(1);
  expect(Math.abs((await one.clock.now()).getTime() - Date.now())).toBeLessThan(60_000);

  const forgotten = new pg.Client({ connectionString: one.url, application_name: 'my app' });
  await forgotten.connect();
  await forgotten.query('select 42');
  await expect(one.drop()).rejects.toThrow(
    /1 connection\(s\) to \w+ leaked: end your clients, .* before drop\(\)\nmy app, idle, last: select 42/,
  );
  await forgotten.query('select 42'); // its connection lives: a test runner tells the error above, and not that this one was cut
  await forgotten.end();
  await Promise.all([one.drop(), one.drop(), other.drop()]);
  expect(await databases(one.name)).toEqual([]);
  await server.stop();
  expect(prepared).toBe(1);
  expect(await databases(server.template)).toEqual([]);
  await expect(createTestDatabase()).rejects.toThrow('no test server');
});

test('a template that can not be prepared fails the run, and leaves nothing', async () => {
  vi.stubEnv('PGQUEUE_TEST_DATABASE_URL', inject('adminUrl'));
  const before = await databases('pgqueue_template_%');
  const failing = startTestServer({ prepare: () => Promise.reject(new Error('no such column')) });
  await expect(failing).rejects.toThrow('no such column');
  expect(await databases('pgqueue_template_%')).toEqual(before);
});

test('the embedded server ends with a process that is killed', async () => {
  const code = `import { startTestServer, createTestDatabase } from '@pgqueue/testing';
    await startTestServer();
    const { url } = await createTestDatabase();
    console.log(url);
    setInterval(() => {}, 1_000);`;
  const child = spawn(
    process.execPath,
    ['--conditions=@pgqueue/source', '--input-type=module', '--eval', code],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, PGQUEUE_TEST_DATABASE_URL: undefined, PGQUEUE_TEST_SERVER: 'embedded' },
    },
  );
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  const client = new pg.Client({ connectionString: said.toString().trim() });
  client.on('error', () => {});
  await client.connect();
  expect((await client.query('select 1 from pgqueue.queue')).rowCount).toBe(0);
  const gone = new Promise((resolve) => client.once('end', resolve));
  child.kill('SIGKILL');
  await gone;
  await until('the server to be gone', async () => {
    const again = new pg.Client({ connectionString: said.toString().trim() });
    const refused = await again.connect().then(
      () => false,
      (error: { readonly code?: string }) => error.code === 'ECONNREFUSED',
    );
    await again.end().catch(() => {});
    return refused;
  });
});
