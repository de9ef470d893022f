import type { PgQueueEvent, TaskHandler } from '@pgqueue/core';
import type { Database, JobDetails } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import type { Producer } from '@pgqueue/producer';
import { createWorker } from '@pgqueue/worker';
import type { Worker, WorkerOptions } from '@pgqueue/worker';
import type { TestDatabase } from './database.ts';
import { createTestDatabase } from './database.ts';
import { dispatchAll } from './dispatch-all.ts';
import { emptying, jobTables } from './empty.ts';
import { until } from './until.ts';

export { until } from './until.ts';

/** A worker under test, and what it told its observer. */
export interface TestWorker extends Worker {
  readonly events: readonly PgQueueEvent[];
  readonly of: <Type extends PgQueueEvent['type']>(
    type: Type,
  ) => readonly Extract<PgQueueEvent, { readonly type: Type }>[];
}

/** Options of a node that beats once, when it starts: then it hears of a lost lease by its own statements only. */
export const seldom = { heartbeatMs: 60_000, lostAfterMs: 120_000, heartbeatThread: false } as const;

export interface WorkerBench {
  readonly test: TestDatabase;
  readonly database: Database;
  readonly producer: Producer;
  /** Starts a worker that is stopped with the bench. */
  readonly worker: (tasks: readonly TaskHandler[], options?: Partial<WorkerOptions>) => Promise<TestWorker>;
  readonly dispatch: () => Promise<number>;
  readonly job: (id: string) => Promise<JobDetails>;
  /** Resolves when the only node has beaten. */
  readonly beaten: () => Promise<unknown>;
  readonly sql: (text: string, values?: readonly unknown[]) => Promise<readonly Record<string, unknown>[]>;
  /** Stops the workers and empties the tables, between tests. */
  readonly clear: () => Promise<void>;
  readonly close: () => Promise<void>;
}

export async function openWorkerBench(): Promise<WorkerBench> {
  const test = await createTestDatabase();
  const database = openDatabase({ connectionString: test.url, connectionsMax: 4 });
  const producer = createProducer({ connectionString: test.url, notify: false });
  const { jobs } = createOperator({ connectionString: test.url, pool: database.pool });
  const running: Worker[] = [];
  const stopAll = async (): Promise<void> => {
    await Promise.all(running.splice(0).map((worker) => worker.stop({ drainMs: 0 })));
  };
  const sql: WorkerBench['sql'] = (text, values = []) => database.query(text, values);
  return {
    test,
    database,
    producer,
    sql,
    worker: async (tasks, options = {}) => {
      const events: PgQueueEvent[] = [];
      const worker = createWorker({
        connectionString: test.url,
        tasks,
        heartbeatMs: 200,
        // no machine is so busy that a node is lost where a test does not want it
        lostAfterMs: 30_000,
        observe: (event) => events.push(event),
        ...options,
      });
      running.push(worker);
      await worker.start();
      return Object.defineProperties(Object.create(worker), {
        events: { value: events },
        node: { value: worker.node },
        running: { get: () => worker.running },
        start: { value: () => worker.start() },
        stop: { value: (how?: { readonly drainMs?: number }) => worker.stop(how) },
        leave: { value: () => worker.leave() },
        of: { value: (type: string) => events.filter((event) => event.type === type) },
      }) as TestWorker;
    },
    dispatch: () => dispatchAll(database),
    job: (id) => until(`job ${id} to exist`, () => jobs.get(id)),
    beaten: () =>
      until('its first heartbeat', async () => {
        const rows = await sql('select from pgqueue.node where heartbeat > started');
        return rows.length === 1;
      }),
    clear: async () => {
      await stopAll();
      await sql(emptying(jobTables));
    },
    close: async () => {
      await stopAll();
      await producer.close();
      await database.close();
      await test.drop();
    },
  };
}
