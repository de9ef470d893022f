import type { Codec, Observer, Policy, TaskHandler } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import {
  aCodec,
  aFlag,
  aFunction,
  aListOf,
  aNumber,
  anObject,
  anything,
  aText,
  isTaskHandler,
  optional,
  optionProblems,
  throwProblems,
} from '@pgqueue/core/internal';
import type { Executor, HealthOptions, Operator, PgQueryable } from '@pgqueue/postgres';
import { createOperator, migrate } from '@pgqueue/postgres';
import { aConnectionString, createJointHealth, databaseShape, healthShape } from '@pgqueue/postgres/internal';
import type { Enqueuer, FlowStarter, Producer } from '@pgqueue/producer';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import type { Around, Worker, WorkerLogger } from '@pgqueue/worker';
import { createWorker } from '@pgqueue/worker';
import { aDrain, aHeartbeatThread } from '@pgqueue/worker/internal';

/** Options of {@link createQueue}. */
export interface QueueOptions {
  /**
   * `postgres://USER@HOST/DATABASE`, a direct connection. Behind PgBouncer in transaction mode, set `listen`
   * to false.
   */
  readonly connectionString: string;
  /** Schema of the tables. Default `pgqueue`. */
  readonly schema?: string;
  /** Handlers of the jobs this process runs, one per task. Default: it runs no jobs. */
  readonly tasks?: readonly TaskHandler[];
  /**
   * Decides which job goes next and which jobs are held. Only the leading scheduler's policy applies, so give
   * all processes the same. Default: `defaultPolicy()`.
   */
  readonly policy?: Policy;
  /**
   * A second policy that plans on the same snapshots and dispatches nothing; its differences from `policy`
   * are reported.
   */
  readonly shadow?: Policy;
  /** Most handlers running at a time, 1 to 10,000. Default 10. */
  readonly concurrency?: number;
  /** Milliseconds that `stop` waits for running handlers before it aborts their signals, up to 86,400,000. Default 30,000. */
  readonly drainMs?: number;
  /** The group of nodes this process belongs to. Default `default`. */
  readonly pool?: string;
  /**
   * Source of the heartbeats of this process's node. `true`: a thread with a connection of its own. A URL: the file of
   * that thread, when a bundler has put it elsewhere. `false`: the event loop. Default true.
   */
  readonly heartbeatThread?: boolean | URL;
  /** Listens for hints with LISTEN; otherwise polls. Default true. */
  readonly listen?: boolean;
  /**
   * Migrates the schema in `start`, which needs the privileges to create and alter its tables. Default true.
   */
  readonly migrate?: boolean;
  /** Middleware: is called around every call of a handler. Default: none. */
  readonly around?: Around;
  /** Encrypts what is stored of jobs: what `encrypted(…)` returns. Give all processes the same. Default: nothing is encrypted. */
  readonly codec?: Codec;
  /**
   * Address of `GET /live`, `GET /ready` and `GET /metrics` of all roles together, which are served from `start` on. Default:
   * none.
   */
  readonly health?: HealthOptions;
  /** Receives every event as data, for example `logObserver(pino())`. */
  readonly observe?: Observer;
  /** Destination of `ctx.log`: a pino logger, or any object of its shape. Default: logs are discarded. */
  readonly logger?: WorkerLogger;
}

/**
 * All roles of a queue in one process, made by {@link createQueue}. Can enqueue at any time once the schema
 * exists.
 */
export interface Queue extends Enqueuer {
  /** Enqueues and starts flows within a transaction of yours: see `Producer.with`. */
  readonly with: (tx: Executor | PgQueryable) => Enqueuer & FlowStarter;
  /** Starts a flow: see `Producer.start`. */
  readonly startFlow: FlowStarter['start'];
  /** A flow by its id: see `Producer.flow`. */
  readonly flow: Producer['flow'];
  /** Gives a signal of a flow its value: see `Producer.signal`. */
  readonly signal: FlowStarter['signal'];
  /** Gives a job the value of a signal that its handler waits for: see `Producer.signalJob`. */
  readonly signalJob: FlowStarter['signalJob'];
  /** Waits until a job has ended, and resolves to its result: see `Producer.result`. */
  readonly result: Producer['result'];
  /** Administers jobs, queues, limits, schedules and nodes; `explain`, `status`, `doctor`. */
  readonly operator: Operator;
  /** Id of this process's node, by which an operator can reset it; undefined: it runs no jobs. */
  readonly node: string | undefined;
  /** Port of the health checks, from `start` on; undefined: none are served. */
  readonly healthPort: number | undefined;
  /** True while this process's scheduler leads; otherwise it stands by. */
  readonly leads: boolean;
  /**
   * Migrates the schema, then leads or stands by, and begins to claim jobs. An unreachable database is
   * retried until `stop`, except by the migration, which fails. If any role fails to start, everything
   * already started is stopped again. A `stop` meanwhile ends it.
   * @throws {PgQueueError} `schema_version`, `node_id_in_use`, `configuration` (the queue was stopped, or the port of its
   * health checks can't be listened on)
   * @throws permanent database errors (a wrong password, a missing privilege)
   */
  readonly start: () => Promise<void>;
  /**
   * Gives running handlers up to `drainMs` to finish, releases the other jobs, resigns, and closes all
   * connections. May be called again.
   */
  readonly stop: () => Promise<void>;
  /**
   * Gives all running jobs back at once, uncounted, and ends this process's node: call it right before the
   * process exits.
   */
  readonly leave: () => Promise<void>;
  /** Resolves when the queue was stopped; rejects when its node had to end by itself. */
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
  drainMs: aDrain,
  pool: optional(aText({ max: 100 })),
  heartbeatThread: optional(aHeartbeatThread),
  listen: optional(aFlag),
  migrate: optional(aFlag),
  around: optional(aFunction),
  codec: optional(aCodec),
  health: optional(anObject(healthShape)),
  observe: optional(aFunction),
  logger: optional(anything),
};

/**
 * Creates a queue in one process: it enqueues, schedules, runs and administers jobs. Any number of processes
 * may use one database: one scheduler leads, the others stand by, and all of them run jobs. The roles can be
 * split later (`@pgqueue/scheduler`, `@pgqueue/worker`) without changes to tables or tasks. Opens no
 * connection yet.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function createQueue(options: QueueOptions): Queue {
  throwProblems('configuration', 'the queue', optionProblems(options, shape));
  const {
    tasks = [],
    concurrency,
    drainMs,
    pool,
    heartbeatThread,
    policy,
    shadow,
    around,
    logger,
    codec,
    listen,
    observe,
    migrate: migrates = true,
  } = options;
  const place = given({ connectionString: options.connectionString, schema: options.schema });
  const joint =
    options.health === undefined ? undefined : createJointHealth(options.health, tasks.length === 0 ? 1 : 2);
  const heard = given({ listen, observe, health: joint?.options });
  const worker =
    tasks.length === 0
      ? undefined
      : createWorker({
          ...place,
          ...heard,
          ...given({ concurrency, drainMs, pool, heartbeatThread, around, logger, codec }),
          tasks,
        });
  const scheduler = createScheduler({ ...place, ...heard, ...given({ policy, shadow }) });
  const coded = given({ codec });
  const producer = createProducer({ ...place, ...given({ listen, observe }), ...coded });
  const operator = createOperator({ ...place, ...coded });
  const ended = Promise.withResolvers<void>();
  ended.promise.catch(() => {}); // callers need not handle it
  worker?.ended.catch(ended.reject);
  let starting: Promise<void> | undefined;
  let stopping: Promise<void> | undefined;

  const stop = (): Promise<void> =>
    (stopping ??= stopAll({ worker, scheduler, producer, operator })
      .then(() => joint?.close())
      .then(ended.resolve));
  const start = async (): Promise<void> => {
    try {
      await joint?.start(); // probes are answered while the schema is migrated
      if (migrates) await migrate(place);
      if (stopping !== undefined) return; // a role that is stopped meanwhile ends its start, too
      await Promise.all([scheduler.start(), worker?.start()]);
    } catch (error) {
      await stop();
      throw error;
    }
  };
  return {
    ...producer,
    startFlow: (flow, given) => producer.start(flow, given),
    operator,
    node: worker?.node,
    get healthPort() {
      return joint?.port;
    },
    get leads() {
      return scheduler.leads;
    },
    start: () => {
      if (stopping === undefined) return (starting ??= start());
      // a start that failed has stopped the queue, and says again why
      return (starting ?? Promise.resolve()).then(() => {
        throw new PgQueueError('configuration', 'this queue was stopped; make another one');
      });
    },
    stop,
    leave: async () => worker?.leave(),
    ended: ended.promise,
  };
}

/** Stops the roles in order: the worker first, since finishing jobs may briefly need the scheduler. */
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

/** Omits options that are undefined. */
function given<Options extends object>(
  options: Options,
): { [Name in keyof Options]?: Exclude<Options[Name], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
