import type { ScheduleTimes, ScheduleDefinition, Operator } from './operator-interface.ts';
import { keptOptions } from './operator-interface.ts';
import type { Codec, NewJob } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import {
  aCodec,
  aNumber,
  anObject,
  anything,
  aText,
  optional,
  optionProblems,
  throwProblems,
  toJobRow,
} from '@pgqueue/core/internal';
import { checkedDatabase } from '../connection/checked-database.ts';
import { scheduleProblems } from '../calendar/slots.ts';
import type { Database, DatabaseOptions } from '../connection/database.ts';
import { openDatabase } from '../connection/database.ts';
import { databaseShape } from '../connection/database-options.ts';
import { isKnownNode, listNodes } from '../reads/nodes.ts';
import type { QueueChange, QueueSettings } from '../reads/queue-settings.ts';
import { configureQueue, forgetQueue } from '../reads/queue-settings.ts';
import { listQueues } from '../reads/queues.ts';
import { listRecorded } from '../reads/recorded.ts';
import { listSchedules } from '../reads/schedules.ts';
import { checkSchemaVersion } from '../connection/schema.ts';
import { resetNode } from '../calls/node.ts';
import { pauseSchedule, removeSchedule, runSchedule, setSchedule } from '../calls/schedules.ts';
import type { Actor } from '../dashboard/audit.ts';
import { anActor } from '../dashboard/audit.ts';
import { withAudit } from './audited.ts';
import { operateDead } from './dead.ts';
import { diagnose } from './doctor/doctor.ts';
import { answerWithinMs, askLeader } from './explain/ask.ts';
import { withReadOnly } from './explain/read-only.ts';
import { explainJob } from './explain/explain.ts';
import { operateFlows } from './flows.ts';
import { operateInstallation } from './installation.ts';
import { operateSharedLimits } from './shared-limits.ts';
import { operateJobs } from './jobs.ts';
import { readStatus } from './status.ts';
import { readTop } from './top.ts';
import { wakeSchedulers } from '../hints/wake.ts';

/** See {@link createOperator}. */
export interface OperatorOptions extends DatabaseOptions {
  /**
   * Person or program that acts. Every change is then noted in the table `audit`, before and after. Default:
   * nothing is noted.
   */
  readonly actor?: Actor;
  /**
   * Decrypts what is read of jobs, and encrypts the values of signals: what `encrypted` returns. A value that it can't decrypt is
   * returned as it is stored, with the id of its key. Default: none.
   */
  readonly codec?: Codec;
}

const operatorShape: Shape<OperatorOptions> = {
  ...databaseShape,
  actor: optional(anActor),
  codec: optional(aCodec),
};

/**
 * Creates an operator. Opens no connection yet. A check of the schema precedes the first statement: if these
 * packages can't work with the schema, every operation rejects with `schema_version`.
 * @throws {PgQueueError} `configuration`
 */
export function createOperator(options: OperatorOptions): Operator {
  throwProblems('configuration', 'the operator', optionProblems(options, operatorShape));
  const { actor, codec, ...own } = options;
  const database = checkedDatabase(openDatabase({ applicationName: 'pgqueue operator', ...own }));
  const operator = operatorOf(database, codec);
  return actor === undefined ? operator : withAudit(database, operator, actor);
}

/** Same as {@link createOperator}, on an open database. */
export function operatorOf(database: Database, codec?: Codec): Operator {
  return {
    jobs: operateJobs(database, codec),
    dead: operateDead(database, codec),
    flows: operateFlows(database, codec),
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
    schedules: operateSchedules(database, codec),
    installation: operateInstallation(database),
    limits: operateSharedLimits(database),
    status: () => readStatus(database),
    top: (options) => readTop(database, options),
    explain: (id, { waitMs = answerWithinMs } = {}) =>
      withReadOnly(
        database,
        explainJob(database, id, (job) => askLeader(database, job, waitMs)),
      ),
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

function operateSchedules(database: Database, codec: Codec | undefined): Operator['schedules'] {
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
      const row = await toScheduleRow(definition);
      if (codec?.plain === 'refuse') throw plainSchedule(row.name);
      const result = await setSchedule(database, row);
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

/**
 * The scheduler has no keys, so it copies the payload of a schedule as it is stored: into jobs whose ids nobody knows beforehand.
 */
function plainSchedule(name: string): PgQueueError {
  return new PgQueueError(
    'configuration',
    `schedule ${JSON.stringify(name)}: the payloads of schedules are not encrypted, and the codec has plain: 'refuse', so no worker would take its jobs. Use plain: 'accept', or enqueue from a process of yours`,
    { data: { name } },
  );
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
  const reads = Object.keys(job?.needs ?? {});
  const steps =
    reads.length === 0
      ? []
      : [
          `job: its task reads results of the steps ${reads.join(', ')}: start the flow in a handler of another job`,
        ];
  return [...both, ...none, ...single, ...steps, ...scheduleProblems(cron, timezone, Date.now())];
}

/** Checks the job of a schedule as if it were enqueued now, so that it can't fail at every slot. */
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

/** Returns the job of a schedule that names only its task: the worker checks the payload. */
function jobOf({ task = '', payload = {}, options: given = {} }: AnySchedule): NewJob {
  const { payloadVersion = 1, ...options } = given;
  return { task, payloadVersion, payload, options, check: () => [] };
}
