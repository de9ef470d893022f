// Scenarios with real schedulers and workers.
import { setTimeout as delay } from 'node:timers/promises';
import type { JobContext } from '@pgqueue/core';
import { concurrency, defineTask, fifo, implement, policy, rate } from '@pgqueue/core';
import type { SchedulerOptions } from '@pgqueue/scheduler';
import { createScheduler } from '@pgqueue/scheduler';
import type { WorkerOptions } from '@pgqueue/worker';
import { createWorker } from '@pgqueue/worker';
import { z } from 'zod';
import { tokens } from '../chaos/actors/tap.ts';
import { startStatementProxy } from '../kill-points/statement-proxy.ts';
import { until } from '../support/until.ts';
import type { Stage } from './stage.ts';

type Scenario = (stage: Stage) => Promise<void>;

const plain = defineTask({
  name: 'plain',
  payload: z.object({}),
  retry: { backoff: 'fixed', base: 1, jitter: 0 },
});

function schedulerOf(
  stage: Stage,
  options: Partial<SchedulerOptions> = {},
): ReturnType<typeof createScheduler> {
  return createScheduler({
    connectionString: stage.url,
    listen: false,
    leaseMs: 1_000,
    pollMs: { min: 5, max: 10 },
    ...options,
  });
}

function workerOf(
  stage: Stage,
  node: string,
  work: (context: JobContext) => Promise<unknown>,
  options: Partial<WorkerOptions> = {},
): ReturnType<typeof createWorker> {
  return createWorker({
    connectionString: stage.url,
    node,
    listen: false,
    heartbeatThread: false,
    blockedMs: 0,
    heartbeatMs: 100,
    lostAfterMs: 1_000,
    tasks: [
      implement(plain, async (_payload, context) => {
        const { id } = context.job;
        stage.write({ type: 'start', id, token: tokens.get(id) ?? '', node });
        await work(context);
      }),
    ],
    ...options,
  });
}

const left = async ({ database }: Stage, jobs: number): Promise<boolean> => {
  const [row] = await database.query<{ jobs: number }>(
    'select count(*)::integer as jobs from pgqueue.queue',
    [],
  );
  return (row?.jobs ?? 0) <= jobs;
};

const limited: Scenario = async (stage) => {
  stage.facts({ groupMax: 1 });
  await stage.enqueue({ count: 4, tenant: 'one' });
  const gate = concurrency({ name: 'tenant', by: ({ attributes }) => attributes['tenant'], limit: 1 });
  const scheduler = schedulerOf(stage, { policy: policy({ gates: [gate], order: fifo() }) });
  // each long enough for a tick while it runs, on a machine that does much else
  const worker = workerOf(stage, 'n1', () => delay(600), { lostAfterMs: 60_000 });
  await Promise.all([scheduler.start(), worker.start()]);
  await until('all to be done', () => left(stage, 0));
  await Promise.all([scheduler.stop(), worker.stop()]);
};

/** It is told to stop while its job takes longer than a lost node may be silent. Nothing else happens. */
const shutdown: Scenario = async (stage) => {
  // longer than a machine that does much else keeps its heartbeat waiting
  const lostAfterMs = 4_000;
  stage.facts({ lostAfterMs });
  await stage.enqueue();
  const scheduler = schedulerOf(stage);
  const begun = Promise.withResolvers<void>();
  const leave = (): Promise<unknown> => {
    begun.resolve();
    return delay(2 * lostAfterMs);
  };
  const leaving = workerOf(stage, 'n1', leave, { lostAfterMs });
  const staying = workerOf(stage, 'n2', () => Promise.resolve(), { lostAfterMs: 60_000 });
  await Promise.all([scheduler.start(), leaving.start()]);
  await begun.promise;
  const stopped = leaving.stop({ drainMs: 60_000 });
  await staying.start();
  await until('all to be done', () => left(stage, 0));
  await Promise.all([stopped, staying.stop(), scheduler.stop()]);
};

/** The backend of a handler's transaction is ended between two of its statements. */
const brokenConnection: Scenario = async (stage) => {
  stage.facts({ witnessTasks: ['plain'] });
  const [id] = await stage.enqueue();
  const scheduler = schedulerOf(stage);
  const worker = workerOf(
    stage,
    'n1',
    ({ job, transaction }) =>
      transaction(async (client) => {
        await client.query('insert into chaos.witness (job) values ($1)', [job.id]);
        if (job.tries > 0) return;
        const { rows } = await client.query('select pg_backend_pid() as pid');
        await stage.database.query('select pg_terminate_backend($1, 5000)', [rows[0]?.['pid']]);
        await delay(200); // the connection has ended, and nobody has asked it anything
        await client.query('select 1');
      }),
    { lostAfterMs: 60_000 },
  );
  await Promise.all([scheduler.start(), worker.start()]);
  await until(`job ${id} to be done`, () => left(stage, 0));
  await Promise.all([scheduler.stop(), worker.stop()]);
};

/** The leader dies behind the first statement of its first batch; another one goes on. */
const halfBatch: Scenario = async (stage) => {
  // the fourth waits for ten seconds: far more than it takes until the second one leads
  const limit = { perSecond: 0.1, burst: 3 };
  stage.facts({ rate: { queue: 'metered', ...limit } });
  await stage.node('n1');
  const gate = rate({ name: 'metered', by: ({ queue }) => queue, ...limit });
  const plan = policy({ gates: [gate], order: fifo() });
  const point = { n: 1, moment: 'after', fate: 'death', of: '.dispatch(' } as const;
  const proxy = await startStatementProxy(stage.url, point);
  const first = schedulerOf(stage, { connectionString: proxy.url, policy: plan, leaseMs: 60_000 });
  await first.start();
  await until('the first to lead', () => first.leads);
  const second = schedulerOf(stage, { policy: plan });
  await second.start();
  await stage.enqueue({ count: 4, queue: 'metered' });
  await proxy.reached;
  await stage.database.query('update pgqueue.scheduler_lease set expires = clock_timestamp()', []);
  await until('the second to lead', () => second.leads);
  await until('all to be dispatched', () => items(stage, 4));
  await Promise.all([first.stop(), second.stop()]);
  await proxy.close();
};

async function items({ database }: Stage, count: number): Promise<boolean> {
  const [row] = await database.query<{ items: number }>(
    'select count(*)::integer as items from chaos.item',
    [],
  );
  return (row?.items ?? 0) >= count;
}

export const roleScenarios: Readonly<Record<string, Scenario>> = {
  limited,
  shutdown,
  'broken connection': brokenConnection,
  'half a batch': halfBatch,
};
