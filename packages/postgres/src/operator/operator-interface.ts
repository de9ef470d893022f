import type { JobOptions } from '@pgqueue/core';
import type { NewJob } from '@pgqueue/core';
import type { NodeInfo } from '../reads/nodes.ts';
import type { QueueChange } from '../reads/queue-settings.ts';
import type { QueueSettings } from '../reads/queue-settings.ts';
import type { QueueInfo } from '../reads/queues.ts';
import type { Page } from '../reads/page.ts';
import type { RecordedJob } from '../reads/recorded.ts';
import type { RecordedOptions } from '../reads/recorded.ts';
import type { ScheduleInfo } from '../reads/schedules.ts';
import type { NodeReset } from '../statements/node.ts';
import type { DeadOperator } from './dead.ts';
import type { Diagnosis } from './doctor/doctor.ts';
import type { JobExplanation } from './explain/explain.ts';
import type { JobsOperator } from './jobs.ts';
import type { Status } from './status.ts';
import type { Top } from './top.ts';
import type { TopOptions } from './top.ts';

/** When a recurring job is enqueued. */
export interface ScheduleTimes {
  readonly name: string;
  /** Five fields, or six with seconds first. */
  readonly cron: string;
  /** An IANA name. Default UTC. */
  readonly timezone?: string;
}

/** Options of a job that a schedule keeps. The others are of one job, and not of all that come. */
export const keptOptions = ['queue', 'key', 'priority', 'attributes', 'timeout', 'retry'] as const;

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
