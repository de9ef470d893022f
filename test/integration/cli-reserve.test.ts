import { fileURLToPath } from 'node:url';
import { openDatabase } from '@pgqueue/postgres';
import type { Database } from '@pgqueue/postgres';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { until } from '../support/actors.ts';
import { cliOf, startCli } from '../support/cli.ts';
import type { CliProcess } from '../support/cli.ts';
import type { TestDatabase } from '../support/database.ts';
import { createTestDatabase } from '../support/database.ts';
import { seedOf } from '../support/seed.ts';
import { isAlive } from '../support/servers/machine.ts';

const tasks = fileURLToPath(new URL('../support/cli-tasks.ts', import.meta.url));
let own: TestDatabase;
let database: Database;
let scheduler: CliProcess;
const { insert, sql } = seedOf(() => database);
const { pgqueue } = cliOf(() => own.url);

beforeAll(async () => {
  own = await createTestDatabase();
  database = openDatabase({ connectionString: own.url, connectionsMax: 2 });
  scheduler = startCli(['scheduler'], { env: { PGQUEUE_DATABASE_URL: own.url } });
  await scheduler.says('ready');
});
const workers: CliProcess[] = [];
afterEach(async () => {
  for (const { process, ended } of workers.splice(0)) {
    process.kill('SIGKILL');
    await ended;
  }
});
afterAll(async () => {
  scheduler.process.kill('SIGKILL');
  await scheduler.ended;
  await database.close();
  await own.drop();
});

interface Node {
  readonly id: string;
  readonly pid: number;
}

/** The process id stands in the id that a node gives itself. */
async function reserves(): Promise<readonly Node[]> {
  const rows = await sql(`select id from pgqueue.node where slots = 0 and state = 'alive'`);
  return rows.map(({ id }) => ({ id, pid: Number(String(id).match(/-(\d+)-[0-9a-f]+$/)?.[1]) }));
}

async function onlyReserve(but?: Node): Promise<Node> {
  let found: Node | undefined;
  await until('one reserve', async () => {
    const [node, ...others] = (await reserves()).filter(({ id }) => id !== but?.id);
    found = others.length === 0 ? node : undefined;
    return found !== undefined;
  });
  if (found === undefined) throw new Error('none');
  return found;
}

async function start(node: string, ...args: readonly string[]): Promise<CliProcess> {
  const worker = startCli(['worker', '--tasks', tasks, '--node', node, '--concurrency', '1', ...args], {
    env: { PGQUEUE_DATABASE_URL: own.url },
  });
  workers.push(worker);
  await worker.says('ready');
  return worker;
}

async function runsOn(id: string): Promise<string | undefined> {
  const [row] = await sql(`select node from pgqueue.job where id = $1 and status = 'running'`, [id]);
  return row?.node;
}

const stateOf = async (id: string): Promise<string> =>
  (await sql('select state from pgqueue.node where id = $1', [id]))[0].state;

test('a worker brings a reserve, which has the job of a dead node although every slot is taken, and outlives what it ran', async () => {
  const dying = await start('dying', '--no-reserve');
  expect(await reserves()).toEqual([]);
  const job = await insert({ task: 'linger', payload: '{"ms": 7000}' });
  await until('it to run', async () => (await runsOn(job)) === 'dying');
  const busy = await start('busy');
  const stuck = await insert({ task: 'stuck' });
  await until('the other node to be full', async () => (await runsOn(stuck)) === 'busy');
  const first = await onlyReserve();
  dying.process.kill('SIGKILL');
  await dying.ended;
  expect((await pgqueue('nodes', 'reset', 'dying')).stdout).toMatch(/1 job ready/);
  const resetAt = performance.now();
  await until('the reserve to have it', async () => (await runsOn(job)) === first.id);
  expect(performance.now() - resetAt).toBeLessThan(2_000);

  process.kill(first.pid, 'SIGKILL');
  // the dead one passes for alive until it is lost
  const second = await onlyReserve(first);
  expect(busy.output().stderr).toContain('reserve.ended');
  expect((await pgqueue('nodes', 'reset', first.id)).stdout).toMatch(/1 job ready/);
  await until('the next reserve to have it', async () => (await runsOn(job)) === second.id);

  // what runs there is let finish
  busy.process.kill('SIGTERM');
  await until('the job to be done', async () => {
    const [row] = await sql('select node, status from pgqueue.job where id = $1', [job]);
    return row.status === 'done' && row.node === second.id;
  });
  await until('the reserve to leave', async () => (await stateOf(second.id)) === 'left');
  await until('it to end', () => !isAlive(second.pid));
  busy.process.kill('SIGTERM');
  expect((await busy.ended).code).toBe(1);
  expect((await pgqueue('nodes', 'reset', 'busy')).code).toBe(0);
  expect((await pgqueue('jobs', 'delete', stuck)).code).toBe(0);
  expect(busy.output().stdout).toBe('worker busy (3 tasks, 1 slot) ready\n');
}, 60_000);

test('a reserve leaves in order when its worker was killed, and ends with one that is ended at once', async () => {
  const killed = await start('killed');
  const orphan = await onlyReserve();
  killed.process.kill('SIGKILL');
  await killed.ended;
  await until('it to leave', async () => (await stateOf(orphan.id)) === 'left');
  await until('it to end', () => !isAlive(orphan.pid));

  const hurried = await start('hurried');
  const reserve = await onlyReserve();
  const stuck = await insert({ task: 'stuck' });
  await until('it to run', async () => (await runsOn(stuck)) === 'hurried');
  // as a terminal does: it is for the worker to say what this means
  process.kill(reserve.pid, 'SIGINT');
  hurried.process.kill('SIGINT');
  await until('it to say that it stops', () => hurried.output().stderr.includes('a second signal'));
  hurried.process.kill('SIGINT');
  expect((await hurried.ended).code).toBe(1);
  await until('the reserve to end', () => !isAlive(reserve.pid));
}, 60_000);
