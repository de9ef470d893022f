import type { TaskHandler } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import type { Producer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import type { SchedulerOptions } from '@pgqueue/scheduler';
import type { WorkerOptions } from '@pgqueue/worker';
import { emptying, flowTables } from '../empty.ts';
import type { TestWorker, WorkerBench } from '../worker-bench.ts';
import { openWorkerBench, until } from '../worker-bench.ts';

/** A bench for flows: with a scheduler, and a producer that sends hints. */
export interface FlowBench extends Omit<WorkerBench, 'worker' | 'dispatch' | 'producer'> {
  readonly producer: Producer;
  /** Starts a worker, and a scheduler beside it, unless one runs. */
  readonly start: (tasks: readonly TaskHandler[], options?: StartOptions) => Promise<TestWorker>;
  /** Resolves when a job has ended, to its status. */
  readonly endOf: (id: string) => Promise<string>;
  /** Resolves when a job is done, to its result. */
  readonly resultOf: (id: string) => Promise<unknown>;
  /** Resolves when a job waits without a slot. */
  readonly suspended: (id: string) => Promise<unknown>;
  /** Resolves when a flow has ended, to its outcome. */
  readonly flowEnd: (id: string) => Promise<string>;
}

export interface StartOptions extends Partial<WorkerOptions> {
  readonly scheduler?: Partial<SchedulerOptions>;
}

export async function openFlowBench(): Promise<FlowBench> {
  const bench = await openWorkerBench();
  const producer = createProducer({ connectionString: bench.test.url });
  let scheduler: ReturnType<typeof createScheduler> | undefined;
  const stop = async (): Promise<void> => {
    await scheduler?.stop();
    scheduler = undefined;
  };
  return {
    ...bench,
    producer,
    start: async (tasks, { scheduler: options, ...rest } = {}) => {
      if (scheduler === undefined) {
        scheduler = createScheduler({
          connectionString: bench.test.url,
          policyBudgetMs: 10_000, // no plan is cut off on a busy machine
          ...options,
        });
        await scheduler.start();
      }
      return bench.worker(tasks, rest);
    },
    endOf: (id) =>
      until(`job ${id} to end`, async () => {
        const { status } = await bench.job(id);
        return ['done', 'dead', 'cancelled', 'expired'].includes(status) && status;
      }),
    resultOf: (id) =>
      until(`job ${id} to be done`, async () => {
        const { status, result } = await bench.job(id);
        if (['dead', 'cancelled', 'expired'].includes(status)) throw new Error(`job ${id} is ${status}`);
        return status === 'done' && { result };
      }).then(({ result }) => result),
    suspended: (id) =>
      until(`job ${id} to wait`, async () => {
        const rows = await bench.sql(
          `select from pgqueue.queue q where id = $1 and run_after is not null and checkpoint is not null
           and not exists (select from pgqueue.work_item w where w.id = q.id)`,
          [id],
        );
        return rows.length > 0;
      }),
    flowEnd: (id) =>
      until(`flow ${id} to end`, async () => {
        const [row] = await bench.sql('select state from pgqueue.flow where id = $1', [id]);
        return row?.['state'] !== 'open' && String(row?.['state']);
      }),
    clear: async () => {
      await stop();
      await bench.clear();
      await bench.sql(emptying(flowTables));
    },
    close: async () => {
      await stop();
      await producer.close();
      await bench.close();
    },
  };
}
