// Installations on servers of their own, a scheduler for each, one worker of all; and the cost of their jobs.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '@pgqueue/postgres';
import { createOperator, migrate } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createRouter } from '@pgqueue/router';
import { cpuMsOf, serverCpuMs } from '../../bench/src/actors/processes.ts';
import type { RunningServer } from '../../packages/postgres/src/testing/running-server.ts';
import { startEmbedded } from '../../packages/postgres/src/testing/server-local.ts';
import { startActor } from '../support/actors.ts';
import { nothing } from './routed-task.ts';

/** Cost of jobs that were drained. */
export interface Cost {
  readonly jobsPerSecond: number;
  /** Microseconds of processor time a job, in processes of Node, and in servers. */
  readonly node: number;
  readonly servers: number;
}

export interface Opened {
  /** Drains so many jobs of these installations (indexes; default: all), enqueued while nothing ran. */
  readonly drain: (jobs: number, of?: readonly number[]) => Promise<Cost>;
  readonly stopServer: (index: number) => Promise<void>;
  readonly close: () => Promise<void>;
}

interface Server extends RunningServer {
  readonly data: string;
  readonly pid: number;
}

const batch = 1_000;
const keys = 200;

async function openServer(): Promise<Server> {
  const data = mkdtempSync(join(tmpdir(), 'pgqueue-installations-'));
  const server = await startEmbedded({ data });
  await migrate({ connectionString: server.adminUrl });
  const pid = Number.parseInt(readFileSync(join(data, 'postmaster.pid'), 'utf8'), 10);
  return { ...server, data, pid };
}

export async function openInstallations(count: number): Promise<Opened> {
  const servers = await Promise.all(Array.from({ length: count }, openServer));
  const installations = servers.map(({ adminUrl }, index) => ({
    number: index,
    name: `n${index}`,
    connectionString: adminUrl,
  }));
  const operators = installations.map(({ connectionString }) => createOperator({ connectionString }));
  const databases = servers.map(({ adminUrl }) =>
    openDatabase({ connectionString: adminUrl, connectionsMax: 1 }),
  );
  const router = createRouter({ installations });
  for (const [index, operator] of operators.entries())
    await operator.installation.init({ number: index, name: `n${index}` });
  const actors = await Promise.all([
    ...installations.map(({ name, connectionString }) =>
      startActor('scheduler', { url: connectionString, name }),
    ),
    startActor('worker', {
      url: '',
      name: 'worker',
      options: { installations },
      file: new URL('routed-worker.ts', import.meta.url),
    }),
  ]);
  const cpu = (): { readonly node: number; readonly servers: number } => ({
    node: actors.reduce((sum, { process }) => sum + cpuMsOf(process.pid ?? 0), 0),
    servers: servers.reduce((sum, { pid }) => sum + (serverCpuMs(pid) || 0), 0),
  });
  const all = installations.map(({ number }) => number);

  return {
    drain: async (jobs, of = all) => {
      const names = Array.from({ length: keys * 9 }, (_, n) => `key-${n}`)
        .filter((key) => of.includes(router.homeOf(key).number))
        .slice(0, keys);
      const working = operators.filter((_, index) => of.includes(index));
      const looking = databases.filter((_, index) => of.includes(index));
      await Promise.all(working.map(({ queues }) => queues.pause('default')));
      for (let first = 0; first < jobs; first += batch) {
        const some = Array.from({ length: batch }, (_, index) => first + index);
        await router.producer.enqueueMany(
          some.map((n) => nothing.job({ n }, { key: names[n % names.length] ?? '' })),
        );
      }
      const before = cpu();
      const beganAt = performance.now();
      await Promise.all(working.map(({ queues }) => queues.resume('default')));
      const isEmpty = async ({ query }: Database): Promise<boolean> =>
        (await query('select from pgqueue.queue limit 1', [])).length === 0;
      while ((await Promise.all(looking.map(isEmpty))).includes(false)) await delay(100);
      const seconds = (performance.now() - beganAt) / 1_000;
      const after = cpu();
      return {
        jobsPerSecond: jobs / seconds,
        node: ((after.node - before.node) * 1_000) / jobs,
        servers: ((after.servers - before.servers) * 1_000) / jobs,
      };
    },
    stopServer: async (index) => servers[index]?.stop(),
    close: async () => {
      await Promise.all(actors.map((actor) => actor.stop()));
      await router.close();
      await Promise.all([...operators, ...databases].map((one) => one.close()));
      await Promise.all(servers.map((server) => server.stop()));
      for (const { data } of servers) rmSync(data, { recursive: true, force: true });
    },
  };
}
