import type { Observer, Policy, Shape, TaskHandler } from '@pgqueue/core';
import {
  aFlag,
  aFunction,
  aListOf,
  aNumber,
  anything,
  aText,
  isTaskHandler,
  optional,
  optionProblems,
  PgQueueError,
  throwProblems,
} from '@pgqueue/core';
import type { Executor, Operator, PgQueryable } from '@pgqueue/postgres';
import { aConnectionString, createOperator, databaseShape, migrate } from '@pgqueue/postgres';
import type { Enqueuer, Producer } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import type { Worker, WorkerLogger } from '@pgqueue/worker';
import { createWorker } from '@pgqueue/worker';

/** What {@link createQueue} takes. */
export interface QueueOptions {
  /** `postgres://USER@HOST/DATABASE`, a direct connection: behind PgBouncer in transaction mode set `listen` to false. */
  readonly connectionString: string;
  /** Where its tables are. Default `pgqueue`. */
  readonly schema?: string;
  /** Handlers of the jobs that this process runs, each task once. Default: it runs none. */
  readonly tasks?: readonly TaskHandler[];
  /** Decides which job goes next, and which is held. The leading scheduler's counts, so give all processes the same. Default: `defaultPolicy()`. */
  readonly policy?: Policy;
  /** Plans beside it on the same snapshots, and dispatches nothing: the differences are reported. */
  readonly shadow?: Policy;
  /** Handlers at a time, 1 to 10,000. Default 10. */
  readonly concurrency?: number;
  /** The group of nodes that this process belongs to. Default `default`. */
  readonly pool?: string;
  /** Whether to hear hints by LISTEN instead of polling. Default true. */
  readonly listen?: boolean;
  /** Whether `start` brings the schema up to date, which takes the rights to create and alter its tables. Default true. */
  readonly migrate?: boolean;
  /** Hears of everything that happens, as data: `logObserver(pino())` writes it down. */
  readonly observe?: Observer;
  /** Where `ctx.log` goes: a pino logger, or anything of its shape. Default: nowhere. */
  readonly logger?: WorkerLogger;
}

/** All roles of a queue in one process, made by {@link createQueue}. Enqueues at any time once the schema is there. */
export interface Queue extends Enqueuer {
  /** Enqueues within a transaction of yours: see `Producer.with`. */
  readonly with: (tx: Executor | PgQueryable) => Enqueuer;
  /** Jobs, queues, limits, schedules, nodes; `explain`, `status`, `doctor`. */
  readonly operator: Operator;
  /** The id of this process's node, by which it can be reset; undefined: it runs no jobs. */
  readonly node: string | undefined;
  /** Whether its scheduler leads now; otherwise it stands by, and another process's leads. */
  readonly leads: boolean;
  /**
   * Brings the schema up to date, then leads or stands by, and begins to claim. A database that can't be reached is tried again until `stop`, but for
   * the migration, which fails. What has started is stopped again where something fails.
   * @throws {PgQueueError} `schema_version`, `node_id_in_use`, `configuration` (it was stopped)
   * @throws what the database says where trying again is no use (a wrong password, a right that is missing)
   */
  readonly start: () => Promise<void>;
  /** Lets running handlers finish for up to 30 s, gives back the rest, resigns, and closes its connections. May be called again. */
  readonly stop: () => Promise<void>;
  /** Resolves when it was stopped; rejects when its node had to end by itself. */
  readonly ended: Promise<void>;
}

const shape: Shape<QueueOptions> = {
  connectionString: aConnectionString,
  schema: databaseShape.schema,
  tasks: optional(
    aListOf(
      { expected: 'made by implement(task, handler) or implementBatch(task, handler)', judge: isTaskHandler },
      'a list of handlers, such as [implement(task, handler)]',
    ),
  ),
  policy: optional(anything),
  shadow: optional(anything),
  concurrency: optional(aNumber({ min: 1, max: 10_000, whole: true })),
  pool: optional(aText({ max: 100 })),
  listen: optional(aFlag),
  migrate: optional(aFlag),
  observe: optional(aFunction),
  logger: optional(anything),
};

/**
 * A queue in one process: enqueues, schedules, runs jobs and operates. Start as many as you like on one database: one leads, the others stand by, and
 * all of them work. The roles can be told apart later (`@pgqueue/scheduler`, `@pgqueue/worker`) without a change of tables or tasks. Opens no
 * connection yet.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function createQueue(options: QueueOptions): Queue {
  throwProblems('configuration', 'the queue', optionProblems(options, shape));
  const { tasks = [], concurrency, pool, policy, shadow, logger, migrate: migrates = true } = options;
  const place = given({ connectionString: options.connectionString, schema: options.schema });
  const heard = given({ listen: options.listen, observe: options.observe });
  const worker =
    tasks.length === 0
      ? undefined
      : createWorker({ ...place, ...heard, ...given({ concurrency, pool, logger }), tasks });
  const scheduler = createScheduler({ ...place, ...heard, ...given({ policy, shadow }) });
  const producer = createProducer({ ...place, ...given({ observe: options.observe }) });
  const operator = createOperator(place);
  const ended = Promise.withResolvers<void>();
  ended.promise.catch(() => {}); // nobody has to ask
  worker?.ended.catch(ended.reject);
  let starting: Promise<void> | undefined;
  let stopping: Promise<void> | undefined;

  const stop = (): Promise<void> =>
    (stopping ??= stopAll({ worker, scheduler, producer, operator }).then(ended.resolve));
  const start = async (): Promise<void> => {
    if (stopping !== undefined)
      throw new PgQueueError('configuration', 'this queue was stopped; make another one');
    try {
      if (migrates) await migrate(place);
      await Promise.all([scheduler.start(), worker?.start()]);
    } catch (error) {
      await stop();
      throw error;
    }
  };
  return {
    ...producer,
    operator,
    node: worker?.node,
    get leads() {
      return scheduler.leads;
    },
    start: () => (starting ??= start()),
    stop,
    ended: ended.promise,
  };
}

/** Ends in the order in which nothing waits for what is gone: jobs that finish still need a scheduler for no more than a moment. */
async function stopAll({
  worker,
  scheduler,
  producer,
  operator,
}: {
  readonly worker: Worker | undefined;
  readonly scheduler: { readonly stop: () => Promise<void> };
  readonly producer: Producer;
  readonly operator: Operator;
}): Promise<void> {
  await worker?.stop();
  await Promise.all([scheduler.stop(), producer.close(), operator.close()]);
}

/** Leaves out options that are undefined. */
function given<Options extends object>(
  options: Options,
): { [Name in keyof Options]?: Exclude<Options[Name], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
