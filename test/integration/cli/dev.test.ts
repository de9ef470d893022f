import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseCli, startCli } from '../../support/cli.ts';
import type { CliProcess, CliResult } from '../../support/cli.ts';
import { until } from '../../support/until.ts';

const policyFile = fileURLToPath(new URL('../../support/modules/cli-policy.ts', import.meta.url));
let folder: string;
let url = '';
const started: CliProcess[] = [];
const pgqueue = (...args: readonly string[]): Promise<CliResult> =>
  parseCli([...args, '--database-url', url]);

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pgqueue-dev-test-'));
  chmodSync(folder, 0o755); // if the tests run as root, the server runs as another user
  mkdirSync(join(folder, 'sub'));
  writeFileSync(join(folder, 'package.json'), '{}');
});
afterAll(async () => {
  for (const { process, ended } of started) {
    process.kill('SIGKILL');
    await ended;
  }
  rmSync(folder, { recursive: true, force: true });
});

async function startDev(...options: readonly string[]): Promise<CliProcess> {
  const dev = startCli(['dev', '--json', ...options], { cwd: join(folder, 'sub') });
  started.push(dev);
  await dev.says('"event":"ready"'); // it makes a database first
  const { databaseUrl, data } = JSON.parse(dev.output().stdout);
  // beside the nearest package.json, not in the folder that it is called from
  expect(data).toBe(join(folder, 'node_modules/.cache/pgqueue-dev'));
  url = databaseUrl;
  return dev;
}

/** Returns the processes that name the data folder on their command line. */
function processesOf(data: string): readonly string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(data);
      } catch {
        return false; // it has ended meanwhile
      }
    });
}

/** Returns the logged warnings and errors, without `node.blocked`: a busy machine blocks any process. */
function complaints(stderr: string): readonly unknown[] {
  return stderr
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as { readonly level: number; readonly msg: string })
    .filter(({ level, msg }) => level >= 40 && msg !== 'node.blocked');
}

function answers(): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(url).port) });
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

test('dev brings everything, keeps the data, and leaves no process behind', async () => {
  const dev = await startDev();
  const { stdout } = await pgqueue('enqueue', 'hello', '--payload', '{"n":1}', '--json');
  const { id } = JSON.parse(stdout);
  const show = async (): Promise<ReturnType<typeof JSON.parse>> =>
    JSON.parse((await pgqueue('jobs', 'show', id, '--json')).stdout);
  await until('hello to be done', async () => (await show()).status === 'done');
  expect(await show()).toMatchObject({ result: { hello: { n: 1 }, from: id } });
  const { dashboardUrl } = JSON.parse(dev.output().stdout.split('\n')[0] ?? '');
  const shown = await fetch(new URL(`api/jobs/${id}`, dashboardUrl));
  expect([shown.status, await shown.json()]).toMatchObject([200, { job: { id, status: 'done' } }]);
  const before = dev.output().stderr.length;
  dev.process.kill('SIGINT');
  const ended = await dev.ended;
  expect(ended).toMatchObject({ code: 0, stdout: expect.stringContaining('"event":"stopped"') });
  expect(complaints(ended.stderr.slice(before))).toEqual([]);
  expect(await answers()).toBe(false);
  await expect(fetch(dashboardUrl)).rejects.toThrow('fetch failed');
  expect(processesOf(folder)).toEqual([]);

  const again = await startDev('--policy', policyFile, '--workers', '3');
  expect((await show()).status).toBe('done');
  await until('its policy to be reported', async () => {
    const { stdout: status } = await pgqueue('status', '--json');
    return JSON.parse(status).scheduler?.policy === 'tenants';
  });
  again.process.kill('SIGKILL');
  await again.ended;
  await until('the database to follow it', () => processesOf(folder).length === 0);
  expect(await answers()).toBe(false);
});
