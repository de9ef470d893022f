import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Session } from '@pgqueue/dashboard';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseCli, startCli } from '../../support/cli.ts';
import type { DashboardBench } from './support.ts';
import { openDashboardBench } from './support.ts';

let bench: DashboardBench;
let folder: string;

beforeAll(async () => {
  bench = await openDashboardBench('dashboard_cli_test');
  folder = mkdtempSync(join(tmpdir(), 'pgqueue-dashboard-test-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await bench.close();
});

const secret = 'correct-horse-battery-staple';
const other = 'another-token-of-24-chars';

function tokens(text: string): string {
  const file = join(folder, 'tokens');
  writeFileSync(file, text);
  return file;
}

test('pgqueue dashboard says where it is, and asks for name and token', async () => {
  const file = tokens(`# who may what\nvera viewer ${other}\n\notto operator ${secret}\n`);
  const server = startCli(
    [
      'dashboard',
      '--json',
      '--port',
      '0',
      '--token-file',
      file,
      '--schema',
      bench.schema,
      '--database-url',
      bench.url,
    ],
    {},
  );
  await server.says('"event":"ready"');
  const { url } = JSON.parse(server.output().stdout) as { url: string };
  const ask = async (authorization?: string): Promise<Response> =>
    fetch(`${url}api/session`, authorization === undefined ? {} : { headers: { authorization } });
  const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;
  const nobody = await ask();
  expect([nobody.status, nobody.headers.get('www-authenticate')]).toEqual([
    401,
    expect.stringContaining('Basic'),
  ]);
  const statuses = [];
  for (const wrong of [
    basic(`otto:${other}`),
    basic(`vera:${secret}`),
    'Bearer nonsense',
    basic('otto:'),
    'Basic %',
  ]) {
    statuses.push((await ask(wrong)).status);
  }
  expect(statuses).toEqual([401, 401, 401, 401, 401]);
  const actorOf = async (authorization: string): Promise<unknown> =>
    ((await (await ask(authorization)).json()) as Session).actor;
  expect(await actorOf(basic(`otto:${secret}`))).toEqual({ name: 'otto', role: 'operator' });
  expect(await actorOf(`Bearer ${other}`)).toEqual({ name: 'vera', role: 'viewer' });
  server.process.kill('SIGTERM');
  const { code, stdout, stderr } = await server.ended;
  expect(code).toBe(0);
  expect(stdout + stderr).not.toMatch(new RegExp(`${secret}|${other}`));
});

test('with --api it serves programs, whose jobs are of the tasks of a module', async () => {
  const file = tokens(`otto operator ${secret}\nshop producer ${other}\n`);
  const server = startCli([
    'dashboard',
    '--json',
    '--port',
    '0',
    '--token-file',
    file,
    '--schema',
    bench.schema,
    '--database-url',
    bench.url,
    '--api',
    '--tasks',
    'test/support/modules/cli-tasks.ts',
  ]);
  await server.says('"event":"ready"');
  const { url } = JSON.parse(server.output().stdout) as { url: string };
  const ask = (path: string, body?: object): Promise<Response> =>
    fetch(`${url}api/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${other}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  expect((await ask('session')).status).toBe(403);
  expect((await ask('v1/jobs', { task: 'no-such-task' })).status).toBe(400);
  const document = (await (await ask('v1/openapi.json')).json()) as {
    components: { schemas: { Job: { properties: { task: { enum: readonly string[] } } } } };
  };
  const [task = ''] = document.components.schemas.Job.properties.task.enum;
  const answer = await ask('v1/jobs', { task, payload: { key: 'a' } });
  expect([answer.status, await answer.json()]).toEqual([
    202,
    { jobs: [{ id: expect.any(String), outcome: 'enqueued' }] },
  ]);
  server.process.kill('SIGTERM');
  expect((await server.ended).code).toBe(0);
});

test('--tasks without --api is a wrong usage', async () => {
  const args = ['dashboard', '--tasks', 'tasks.js', '--schema', bench.schema, '--database-url', bench.url];
  expect(await parseCli(args)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('goes with --api only'),
  });
});

test.each([
  [
    'tasks that are not there',
    ['--api', '--tasks', '/nowhere/tasks.js'],
    '--tasks /nowhere/tasks.js: there is no such file',
  ],
  ['an address for others without tokens', ['--host', '0.0.0.0', '--port', '0'], 'by --token-file FILE'],
  [
    'a file that is not there',
    ['--token-file', '/nowhere/tokens'],
    "/nowhere/tokens can't be read: there is no such file",
  ],
  ['a base path that is none', ['--base-path', 'queue'], 'basePath'],
])('%s is a wrong configuration', async (_, options, message) => {
  const args = ['dashboard', ...options, '--schema', bench.schema, '--database-url', bench.url];
  expect(await parseCli(args)).toMatchObject({ code: 78, stderr: expect.stringContaining(message) });
});

test('a file of tokens that is wrong is told line by line, without a token', async () => {
  const file = tokens(`otto admin ${secret}\nvera viewer short\nvera viewer ${other} more\n`);
  const args = ['dashboard', '--token-file', file, '--schema', bench.schema, '--database-url', bench.url];
  const { code, stderr } = await parseCli(args);
  expect(code).toBe(78);
  expect(stderr).toMatch(
    /--token-file .*tokens: .*line 1: the role.*line 2: the token.*line 3: there is more.*stands twice; each line is "name role token"/,
  );
  expect(stderr).not.toMatch(new RegExp(`${secret}|${other}|short`));
});

test('roles that are missing are said before it listens', async () => {
  const file = tokens(`otto operator ${secret}\n`);
  await bench.sql(`alter role $schema_viewer rename to hidden_viewer_test`);
  const args = [
    'dashboard',
    '--port',
    '0',
    '--token-file',
    file,
    '--schema',
    bench.schema,
    '--database-url',
    bench.url,
  ];
  const { code, stderr } = await parseCli(args);
  await bench.sql(`alter role hidden_viewer_test rename to $schema_viewer`);
  expect([code, stderr]).toEqual([78, expect.stringContaining('migrate --roles')]);
});

test('what the command changes is in the audit, too', async () => {
  const [id = ''] = await bench.insert();
  const where = ['--schema', bench.schema, '--database-url', bench.url];
  await bench.sql('delete from $schema.audit');
  for (const args of [
    ['queues', 'pause', 'mail'],
    ['jobs', 'cancel', id],
    ['nodes', 'reset', 'nobody'],
    ['status'],
  ]) {
    await parseCli([...args, ...where]);
  }
  expect(
    await bench.sql('select via, action, target, details, result from $schema.audit order by n'),
  ).toEqual([
    {
      via: 'cli',
      action: 'queue.set',
      target: 'mail',
      details: { paused: true },
      result: { isNew: true },
    },
    {
      via: 'cli',
      action: 'jobs.cancel',
      target: id,
      details: { jobs: 1, ids: [id] },
      result: { cancelled: 1 },
    },
    { via: 'cli', action: 'node.reset', target: 'nobody', details: {}, result: null },
  ]);
  const [{ actor } = { actor: '' }] = await bench.sql<{ actor: string }>(
    'select actor from $schema.audit limit 1',
  );
  expect(actor).toMatch(/^.+@.+$/);
});
