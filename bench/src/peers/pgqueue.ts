import type { Flow, Task } from '@pgqueue/core';
import { defineTask, flow, implement } from '@pgqueue/core';
import { migrate } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { BenchJob, Payload } from '../load.ts';
import type { BenchProducer, FlowStarter, Peer, Place, Runner, Stoppable, Wish } from './peer.ts';
import { timeClaims } from './claim-times.ts';
import { anyRow, runSql } from './sql.ts';

/** Concurrent handlers in the setting `concurrency`. */
const concurrency = 500;

/** Validates nothing, since the other peers validate nothing either. */
const anything: StandardSchemaV1<Payload> = {
  '~standard': {
    version: 1,
    vendor: 'bench',
    validate: (value: unknown) => ({ value: value as Payload }),
  },
};

const task: Task<Payload, Payload> = defineTask({ name: 'bench', payload: anything });

export const peer: Peer = {
  name: 'pgqueue',
  store: 'postgres',
  packageName: '@pgqueue/worker',
  settings: [
    { name: 'default', says: 'one scheduler process; nothing set; every finished job is kept in history' },
    {
      name: 'no-history',
      says: 'retention 0 for the queue, nothing else set',
      works: ['drain', 'sustain', 'pinned', 'soak'],
    },
    {
      name: 'concurrency',
      says: `concurrency ${concurrency}, nothing else set`,
      works: ['drain', 'sustain', 'pinned', 'soak'],
    },
  ],
  install: async ({ databaseUrl }, setting) => {
    await migrate({ connectionString: databaseUrl });
    if (setting === 'no-history') {
      await runSql(
        databaseUrl,
        `insert into pgqueue.queue_config (queue, retention) values ('default', '0')`,
      );
    }
  },
  remains: ({ databaseUrl }) =>
    anyRow(
      databaseUrl,
      `(select 1 from pgqueue.queue order by id limit 1)
       union all (select 1 from pgqueue.flow where state = 'open' limit 1)`,
    ),
  startWorker,
  startScheduler: async ({ databaseUrl }, { polling }) => {
    const scheduler = createScheduler({
      connectionString: databaseUrl,
      ...(polling ? { listen: false } : {}),
    });
    await scheduler.start();
    return { stop: () => scheduler.stop() };
  },
  openProducer,
  openFlowStarter,
};

async function startWorker(
  { databaseUrl }: Place,
  wish: Wish,
  { handle, claimed }: Runner,
): Promise<Stoppable> {
  const asked = wish.concurrency ?? (wish.setting === 'concurrency' ? concurrency : undefined);
  const worker = createWorker({
    connectionString: databaseUrl,
    tasks: [implement(task, (payload: Payload) => handle(payload))],
    ...(asked === undefined ? {} : { concurrency: asked }),
    ...(wish.polling ? { listen: false } : {}),
  });
  const stopTiming = timeClaims(claimed);
  await worker.start();
  return {
    stop: async () => {
      await worker.stop();
      stopTiming();
    },
  };
}

function openProducer(
  { databaseUrl }: Place,
  { polling }: Wish,
  { calls }: { readonly calls: number },
): Promise<BenchProducer> {
  const producer = createProducer({
    connectionString: databaseUrl,
    connectionsMax: calls + 1,
    ...(polling ? { notify: false } : {}),
  });
  const options = ({ key }: BenchJob): { readonly key?: string } => (key === undefined ? {} : { key });
  return Promise.resolve({
    one: async (job) => void (await producer.enqueue(task, job.payload, options(job))),
    many: async (jobs) =>
      void (await producer.enqueueMany(jobs.map((job) => task.job(job.payload, options(job))))),
    close: () => producer.close(),
  });
}

function openFlowStarter(
  { databaseUrl }: Place,
  _wish: Wish,
  { calls }: { readonly calls: number },
): Promise<FlowStarter> {
  const producer = createProducer({ connectionString: databaseUrl, connectionsMax: calls + 1 });
  return Promise.resolve({
    start: async (steps) => void (await producer.start(flowOf(steps))),
    close: () => producer.close(),
  });
}

function flowOf(steps: readonly (readonly BenchJob[])[]): Flow {
  return steps.reduce<Flow>(
    (begun, jobs, step) =>
      begun.step(
        `step-${step}`,
        jobs.map(({ payload }) => task.job(payload)),
        step === 0 ? {} : { needs: [`step-${step - 1}`] },
      ),
    flow('bench'),
  );
}
