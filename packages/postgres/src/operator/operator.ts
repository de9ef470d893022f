import type { JobOptions, NewJob, Shape } from '@pgqueue/core';
import {
  aNumber,
  anObject,
  anything,
  aText,
  oneOf,
  optional,
  optionProblems,
  PgQueueError,
  throwProblems,
  toJobRow,
} from '@pgqueue/core';
import { checkedDatabase } from '../connection/checked-database.ts';
import { scheduleProblems } from './cron-slots.ts';
import type { Database, DatabaseOptions } from '../connection/database.ts';
import { openDatabase } from '../connection/database.ts';
import { databaseShape } from '../connection/database-options.ts';
import type { NodeInfo } from '../reads/nodes.ts';
import { isKnownNode, listNodes } from '../reads/nodes.ts';
import type { QueueChange, QueueSettings } from '../reads/queue-settings.ts';
import { configureQueue, forgetQueue } from '../reads/queue-settings.ts';
import type { QueueInfo } from '../reads/queues.ts';
import { listQueues } from '../reads/queues.ts';
import type { Page } from '../reads/page.ts';
import type { RecordedJob, RecordedOptions } from '../reads/recorded.ts';
import { listRecorded } from '../reads/recorded.ts';
import type { ScheduleInfo } from '../reads/schedules.ts';
import { listSchedules } from '../reads/schedules.ts';
import { checkSchemaVersion } from '../connection/schema.ts';
import type { NodeReset } from '../statements/node.ts';
import { resetNode } from '../statements/node.ts';
import { pauseSchedule, removeSchedule, runSchedule, setSchedule } from '../statements/schedules.ts';
import type { Actor } from '../dashboard/audit.ts';
import { withAudit } from './audited.ts';
import type { DeadOperator } from './dead.ts';
import { operateDead } from './dead.ts';
import type { Diagnosis } from './doctor/doctor.ts';
import { diagnose } from './doctor/doctor.ts';
import { answerWithinMs, askLeader } from './explain/ask.ts';
import type { JobExplanation } from './explain/explain.ts';
import { explainJob } from './explain/explain.ts';
import type { JobsOperator } from './jobs.ts';
import { operateJobs } from './jobs.ts';
import type { Status } from './status.ts';
import { readStatus } from './status.ts';
import type { Top, TopOptions } from './top.ts';
import { readTop } from './top.ts';
import { wakeSchedulers } from './wake.ts';

/** When a recurring job is enqueued. */
export interface ScheduleTimes {
  readonly name: string;
  /** Five fields, or six with seconds first. */
  readonly cron: string;
  /** An IANA name. Default UTC. */
  readonly timezone?: string;
}

/** A recurring job: one that a task made, whose queue, key, tries and payload are checked and kept; or the name of a task. */
export type ScheduleDefinition = ScheduleTimes &
  (
    | {
        /** `task.job(payload)`: with what the task says. */
        readonly job: NewJob;
        readonly task?: never;
        readonly payload?: never;
        readonly options?: never;
      }
    | {
        readonly job?: never;
        readonly task: string;
        readonly payload?: unknown;
        /** They count for each job that it enqueues: of the task nothing else is known. */
        readonly options?: Pick<JobOptions, (typeof keptOptions)[number]> & {
          readonly payloadVersion?: number;
        };
      }
  );

/** Options of a job that a schedule keeps. The others are of one job, and not of all that come. */
const keptOptions = ['queue', 'key', 'priority', 'attributes', 'timeout', 'retry'] as const;

/** What an operator does: the command line and dashboards are made of this. */
export interface Operator {
  readonly jobs: JobsOperator;
  readonly dead: DeadOperator;
  readonly queues: {
    readonly list: () => Promise<readonly QueueInfo[]>;
    /** No more of its jobs are scheduled; those that are ready or running go on. */
    readonly pause: (queue: string) => Promise<QueueChange>;
    readonly resume: (queue: string) => Promise<QueueChange>;
    /**
     * Changes settings, limits among them; they count from the scheduler's next tick on, which this wakes.
     * @throws {PgQueueError} `configuration`, with all problems at once
     */
    readonly set: (queue: string, settings: QueueSettings) => Promise<QueueChange>;
    /**
     * Takes away all of its settings, its limits and whether it is paused among them, and resolves to what they were, by their columns; its jobs stay. A queue with neither is listed no more.
     * Where its `keyPending` was the last one, this waits for transactions as `set` does ({@link QueueSettings.keyPending}).
     * @throws {PgQueueError} `not_found` where it had none
     */
    readonly forget: (queue: string) => Promise<Readonly<Record<string, unknown>>>;
  };
  readonly nodes: {
    readonly list: () => Promise<readonly NodeInfo[]>;
    /**
     * Takes back everything that a node holds, long timeouts or not, and ends its incarnation: what the old process says
     * later is refused. @throws {PgQueueError} `not_found` where neither a row nor a lease has this id
     */
    readonly reset: (node: string) => Promise<NodeReset>;
  };
  readonly schedules: {
    readonly list: () => Promise<readonly ScheduleInfo[]>;
    /**
     * Makes or changes a schedule: `set({ name, cron, job: task.job(payload) })`.
     * @throws {PgQueueError} `configuration` (it would never come, for example), `invalid_job`
     */
    readonly set: (definition: ScheduleDefinition) => Promise<'created' | 'changed'>;
    /** @throws {PgQueueError} `not_found`, as the next two */
    readonly pause: (name: string) => Promise<void>;
    readonly resume: (name: string) => Promise<void>;
    readonly remove: (name: string) => Promise<void>;
    /** Enqueues what the schedule would, now, beside its slots and also while it is paused; resolves to the job's id. */
    readonly runNow: (name: string) => Promise<string>;
  };
  readonly status: () => Promise<Status>;
  /** The same, with the keys that have the most jobs, the jobs that have run for the longest, and the nodes. */
  readonly top: (options?: TopOptions) => Promise<Top>;
  /**
   * Why a job is not running, or what it does. Of one that waits for its turn the leading scheduler is asked, and waited for
   * `waitMs` (default 2000; 0: not asked); without its answer, the rest is what the database alone can say.
   * @throws {PgQueueError} `not_found`
   */
  readonly explain: (id: string, options?: { readonly waitMs?: number }) => Promise<JobExplanation>;
  /** The jobs that ran, page by page, by the time at which they finished: as far back as history is kept. */
  readonly recorded: (options?: RecordedOptions) => Promise<Page<RecordedJob>>;
  readonly doctor: (options?: { readonly mend?: boolean }) => Promise<Diagnosis>;
  /** @throws {PgQueueError} `schema_version` where these packages can't work with the schema that is there */
  readonly check: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** See {@link createOperator}. */
export interface OperatorOptions extends DatabaseOptions {
  /** Who acts: every change is then noted in the table `audit`, before and after. Default: nothing is noted. */
  readonly actor?: Actor;
}

const operatorShape: Shape<OperatorOptions> = {
  ...databaseShape,
  actor: optional(anObject({ name: aText({ max: 200 }), via: oneOf('dashboard', 'cli') })),
};

/**
 * Opens no connection yet. The first statement is preceded by a check of the schema: where these packages can't work with it, all that
 * the operator does rejects with `schema_version`. @throws {PgQueueError} `configuration`
 */
export function createOperator(options: OperatorOptions): Operator {
  throwProblems('configuration', 'the operator', optionProblems(options, operatorShape));
  const { actor, ...own } = options;
  const database = checkedDatabase(openDatabase({ applicationName: 'pgqueue operator', ...own }));
  const operator = operatorOf(database);
  return actor === undefined ? operator : withAudit(database, operator, actor);
}

/** The same on a database that is open already. */
export function operatorOf(database: Database): Operator {
  return {
    jobs: operateJobs(database),
    dead: operateDead(database),
    queues: operateQueues(database),
    nodes: {
      list: () => listNodes(database),
      reset: async (node) => {
        if (await isKnownNode(database, node)) return resetNode(database, node);
        throw new PgQueueError(
          'not_found',
          `there is no node ${JSON.stringify(node)}, and nothing is leased by one: "pgqueue nodes list" shows them all`,
          { data: { node } },
        );
      },
    },
    schedules: operateSchedules(database),
    status: () => readStatus(database),
    top: (options) => readTop(database, options),
    explain: (id, { waitMs = answerWithinMs } = {}) =>
      explainJob(database, id, (job) => askLeader(database, job, waitMs)),
    recorded: (options) => listRecorded(database, options),
    doctor: (options) => diagnose(database, options),
    check: () => checkSchemaVersion(database, database.schema),
    close: database.close,
  };
}

function operateQueues(database: Database): Operator['queues'] {
  const set = async (queue: string, settings: QueueSettings): Promise<QueueChange> => {
    const change = await configureQueue(database, queue, settings);
    await wakeSchedulers(database);
    return change;
  };
  return {
    list: () => listQueues(database),
    pause: (queue) => set(queue, { paused: true }),
    resume: (queue) => set(queue, { paused: false }),
    set,
    forget: async (queue) => {
      const settings = await forgetQueue(database, queue);
      await wakeSchedulers(database);
      return settings;
    },
  };
}

function operateSchedules(database: Database): Operator['schedules'] {
  const known = (found: boolean, name: string): void => {
    if (found) return;
    throw new PgQueueError(
      'not_found',
      `there is no schedule ${JSON.stringify(name)}: "pgqueue schedules list" shows them all`,
      {
        data: { name },
      },
    );
  };
  return {
    list: () => listSchedules(database),
    set: async (definition) => {
      const result = await setSchedule(database, await toScheduleRow(definition));
      await wakeSchedulers(database);
      return result;
    },
    pause: async (name) => known(await pauseSchedule(database, name, true), name),
    resume: async (name) => {
      known(await pauseSchedule(database, name, false), name);
      await wakeSchedulers(database);
    },
    remove: async (name) => known(await removeSchedule(database, name), name),
    runNow: async (name) => {
      const id = await runSchedule(database, name);
      known(id !== undefined, name);
      await wakeSchedulers(database);
      return id ?? '';
    },
  };
}

/** A definition of either kind. */
interface AnySchedule extends ScheduleTimes {
  readonly job?: NewJob;
  readonly task?: string;
  readonly payload?: unknown;
  readonly options?: ScheduleDefinition['options'];
}

const scheduled: Shape<NonNullable<ScheduleDefinition['options']>> = {
  queue: optional(anything),
  key: optional(anything),
  priority: optional(anything),
  attributes: optional(anything),
  timeout: optional(anything),
  retry: optional(anything),
  payloadVersion: optional(aNumber({ min: 1, whole: true })),
};

const schedule: Shape<AnySchedule> = {
  name: aText({ max: 200 }),
  cron: { ...aText(), judge: (cron) => typeof cron === 'string' && cron.trim() !== '' },
  timezone: optional(aText()),
  job: optional(anything),
  task: optional(aText({ max: 200 })),
  payload: optional(anything),
  options: optional(anObject(scheduled)),
};

function scheduleFaults(definition: ScheduleDefinition): readonly string[] {
  const wrong = optionProblems(definition, schedule);
  if (wrong.length > 0) return wrong;
  const { cron, timezone, job, ...named }: AnySchedule = definition;
  const others = Object.keys(named).filter((name) => name !== 'name');
  const both = job === undefined ? [] : others.map((name) => `${name}: the job says it, leave it out`);
  const none =
    job === undefined && named.task === undefined ? ['there must be a job, or the name of a task'] : [];
  const kept: ReadonlySet<string> = new Set(keptOptions);
  const single = Object.entries(job?.options ?? {}).flatMap(([name, value]) =>
    value === undefined || kept.has(name)
      ? []
      : [`job: ${name} is for one job, and a schedule enqueues many`],
  );
  return [...both, ...none, ...single, ...scheduleProblems(cron, timezone, Date.now())];
}

/** Checks what a schedule would enqueue as if it were enqueued now, so that it can't fail at every slot. */
async function toScheduleRow(definition: ScheduleDefinition): Promise<Parameters<typeof setSchedule>[1]> {
  const about = `schedule ${JSON.stringify(definition?.name)}`;
  throwProblems('configuration', about, scheduleFaults(definition));
  const { name, cron, timezone = 'UTC' } = definition;
  const made = definition.job ?? jobOf(definition);
  const { payloadVersion } = made;
  const job = await toJobRow(made, () => '');
  const { task, queue, key, priority, attributes, timeoutMs, maxTries, maxCrashes, retry } = job;
  const stored = { queue, key, priority, attributes, timeoutMs, maxTries, maxCrashes, retry };
  const given = Object.entries({ ...stored, payloadVersion }).filter(([, value]) => value !== null);
  return {
    name,
    cron,
    timezone,
    task,
    payload: job.payload,
    options: JSON.stringify(Object.fromEntries(given)),
  };
}

/** Of a task of which only the name is known: its worker checks the payload. */
function jobOf({ task = '', payload = {}, options: given = {} }: AnySchedule): NewJob {
  const { payloadVersion = 1, ...options } = given;
  return { task, payloadVersion, payload, options, check: () => [] };
}
