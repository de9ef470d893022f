import { PgBoss } from 'pg-boss';
import type { FlowJob, Job, WorkOptions } from 'pg-boss';
import type { BenchJob, Payload } from '../load.ts';
import type { BenchProducer, FlowStarter, Peer, Place, Runner, Stoppable, Wish } from './peer.ts';
import { anyRow } from './sql.ts';

const queue = 'bench';
const batch = 1_000;
const local = 2;
/**
 * Jobs of one group that run at a time, and the batch size, where groups are used.
 *
 * A fetch takes its batch first and then drops the jobs beyond the group's limit. A larger batch is therefore
 * never full, which ends the burst, and it never reaches another group's jobs. There are two workers, because
 * a worker finds A's limit reached only while the other runs A's jobs.
 */
const groupMax = 5;
/** Pause between two looks for jobs of flows whose parents are done: the shortest that pg-boss takes. */
const flowIntervalSeconds = 1;

export const peer: Peer = {
  name: 'pg-boss',
  store: 'postgres',
  packageName: 'pg-boss',
  settings: [
    {
      name: 'best',
      says:
        `a queue with a table of its own (partition), batchSize ${batch}, localConcurrency ${local}, burstWhenBatchFull, pollingIntervalSeconds 0.5, schedule off; ` +
        'for latency, chains and groups useListenNotify and notify, notifyPollingIntervalSeconds 0.5; ' +
        `with groups groupConcurrency ${groupMax}, batchSize ${groupMax}, localConcurrency ${local}; ` +
        `for flows flowIntervalSeconds ${flowIntervalSeconds}; completed jobs are kept, as it always does`,
    },
    { name: 'readme', says: 'nothing set: one job every two seconds', readme: true, perSecond: 0.5 },
  ],
  install: async ({ databaseUrl }, setting) => {
    const boss = await started(databaseUrl, { migrate: true });
    await boss.createQueue(queue, setting === 'best' ? { partition: true } : {});
    await boss.stop({ graceful: false });
  },
  remains: ({ databaseUrl }) =>
    anyRow(databaseUrl, `select 1 from pgboss.job where name = '${queue}' and state < 'completed' limit 1`),
  startWorker,
  openProducer,
  openFlowStarter,
};

async function started(
  connectionString: string,
  options: ConstructorParameters<typeof PgBoss>[0] & object = {},
): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString, ...options });
  boss.on('error', (error) => process.stderr.write(`pg-boss: ${error.message}\n`));
  await boss.start();
  return boss;
}

async function startWorker({ databaseUrl }: Place, wish: Wish, { handle }: Runner): Promise<Stoppable> {
  const best = wish.setting === 'best';
  const notified = best && (wish.quick === true || wish.ownKeys === true);
  const boss = await started(
    databaseUrl,
    best ? { schedule: false, flowIntervalSeconds, ...(notified ? { useListenNotify: true } : {}) } : {},
  );
  if (notified) await boss.updateQueue(queue, { notify: true });
  await boss.work<Payload>(queue, workOptions(wish), async (jobs: Job<Payload>[]) => {
    const running = jobs.flatMap(({ data }) => handle(data) ?? []);
    if (running.length > 0) await Promise.all(running);
  });
  return { stop: () => boss.stop({ graceful: true }) };
}

function workOptions({ setting, concurrency, ownKeys }: Wish): WorkOptions {
  if (setting !== 'best') return {};
  const often: WorkOptions = {
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 0.5,
  };
  if (ownKeys) {
    return {
      ...often,
      batchSize: groupMax,
      localConcurrency: local,
      groupConcurrency: groupMax,
    };
  }
  return {
    ...often,
    batchSize: concurrency ?? batch,
    localConcurrency: concurrency === undefined ? local : 1,
  };
}

async function openProducer(
  { databaseUrl }: Place,
  { ownKeys }: Wish,
  { calls }: { readonly calls: number },
): Promise<BenchProducer> {
  const boss = await started(databaseUrl, { max: calls + 1, schedule: false, supervise: false });
  const group = ({ key }: BenchJob): { readonly group?: { readonly id: string } } =>
    ownKeys && key !== undefined ? { group: { id: key } } : {};
  return {
    one: async (job) => void (await boss.send(queue, job.payload, group(job))),
    many: async (jobs) =>
      void (await boss.insert(
        queue,
        jobs.map((job) => ({ data: job.payload, ...group(job) })),
      )),
    close: () => boss.stop({ graceful: true }),
  };
}

/** Each job depends on all jobs of the step before, by the references that `flow` takes. */
async function openFlowStarter(
  { databaseUrl }: Place,
  _wish: Wish,
  { calls }: { readonly calls: number },
): Promise<FlowStarter> {
  const boss = await started(databaseUrl, { max: calls + 1, schedule: false, supervise: false });
  return {
    start: async (steps) => {
      const refs = steps.map((jobs, step) => jobs.map((_, at) => `${step}-${at}`));
      const jobs = steps.flatMap((each, step) =>
        each.map(({ payload }, at): FlowJob => ({
          ref: refs[step]?.[at] ?? '',
          name: queue,
          data: payload,
          ...(step === 0 ? {} : { dependsOn: refs[step - 1] ?? [] }),
        })),
      );
      await boss.flow(jobs);
    },
    close: () => boss.stop({ graceful: true }),
  };
}
