import type { JobOptions } from '@pgqueue/core';
import type { NewJob } from '@pgqueue/core';
import type { NodeInfo } from '../reads/nodes.ts';
import type { QueueChange } from '../reads/queue-settings.ts';
import type { QueueSettings } from '../reads/queue-settings.ts';
import type { StoredQueueSettings } from '../reads/queue-settings.ts';
import type { QueueInfo } from '../reads/queues.ts';
import type { Page } from '../reads/page.ts';
import type { RecordedJob } from '../reads/recorded.ts';
import type { RecordedOptions } from '../reads/recorded.ts';
import type { ScheduleInfo } from '../reads/schedules.ts';
import type { NodeReset } from '../calls/node.ts';
import type { DeadOperator } from './dead.ts';
import type { Diagnosis } from './doctor/doctor.ts';
import type { JobExplanation } from './explain/explain.ts';
import type { FlowsOperator } from './flows.ts';
import type { InstallationOperator } from './installation.ts';
import type { SharedLimitsOperator } from './shared-limits.ts';
import type { JobsOperator } from './jobs.ts';
import type { Status } from './status.ts';
import type { Top } from './top.ts';
import type { TopOptions } from './top.ts';

/** Name and times of a recurring job. */
export interface ScheduleTimes {
  readonly name: string;
  /** Five fields, six with seconds first, or seven with a year last; or a name such as `@daily`. */
  readonly cron: string;
  /** An IANA name. Default UTC. */
  readonly timezone?: string;
}

/** Job options that a schedule keeps. The others concern a single job. */
export const keptOptions = ['queue', 'key', 'priority', 'attributes', 'timeout', 'retry'] as const;

/**
 * A recurring job: a job that a task made, whose queue, key, tries and payload are checked and kept; or the
 * name of a task.
 */
export type ScheduleDefinition = ScheduleTimes &
  (
    | {
        /** `task.job(payload)`, with the settings of the task. */
        readonly job: NewJob;
        readonly task?: never;
        readonly payload?: never;
        readonly options?: never;
      }
    | {
        readonly job?: never;
        readonly task: string;
        readonly payload?: unknown;
        /** Options of each job that the schedule enqueues: of its task only the name is known. */
        readonly options?: Pick<JobOptions, (typeof keptOptions)[number]> & {
          readonly payloadVersion?: number;
        };
      }
  );

/** Operations of an operator. The command line and dashboards are built on it. */
export interface Operator {
  readonly jobs: JobsOperator;
  readonly dead: DeadOperator;
  readonly flows: FlowsOperator;
  readonly queues: {
    readonly list: () => Promise<readonly QueueInfo[]>;
    /** Stops scheduling the queue's jobs; ready and running ones go on. */
    readonly pause: (queue: string) => Promise<QueueChange>;
    readonly resume: (queue: string) => Promise<QueueChange>;
    /**
     * Changes settings, limits among them. They take effect with the scheduler's next tick, which this call
     * wakes.
     * @throws {PgQueueError} `configuration`, with all problems at once
     */
    readonly set: (queue: string, settings: QueueSettings) => Promise<QueueChange>;
    /**
     * Removes all settings of a queue, its limits and its pause among them; its jobs stay. Resolves to the
     * removed settings. A queue without settings and jobs is not listed any more. Removing the
     * last `keyPending` waits for transactions, as `set` does ({@link QueueSettings.keyPending}).
     * @throws {PgQueueError} `not_found` if it had none
     */
    readonly forget: (queue: string) => Promise<StoredQueueSettings>;
  };
  readonly nodes: {
    readonly list: () => Promise<readonly NodeInfo[]>;
    /**
     * Takes back everything that a node holds, whatever the timeouts, and ends its incarnation: later calls
     * of the old process are refused.
     * @throws {PgQueueError} `not_found` if neither a row nor a lease has this id
     */
    readonly reset: (node: string) => Promise<NodeReset>;
  };
  readonly schedules: {
    readonly list: () => Promise<readonly ScheduleInfo[]>;
    /**
     * Creates or changes a schedule: `set({ name, cron, job: task.job(payload) })`.
     * @throws {PgQueueError} `configuration` (it would never come, for example; or the codec refuses plain payloads), `invalid_job`
     */
    readonly set: (definition: ScheduleDefinition) => Promise<'created' | 'changed'>;
    /** @throws {PgQueueError} `not_found`, as do the next three */
    readonly pause: (name: string) => Promise<void>;
    readonly resume: (name: string) => Promise<void>;
    readonly remove: (name: string) => Promise<void>;
    /**
     * Enqueues the schedule's job now, beside its slots and also while it is paused. Resolves to the job's
     * id.
     */
    readonly runNow: (name: string) => Promise<string>;
  };
  readonly installation: InstallationOperator;
  readonly limits: SharedLimitsOperator;
  readonly status: () => Promise<Status>;
  /**
   * Same as `status`, with the keys that have the most jobs, the jobs that have run the longest, and the
   * nodes.
   */
  readonly top: (options?: TopOptions) => Promise<Top>;
  /**
   * Explains why a job is not running, or what it does. Asks the leading scheduler about a job that waits for
   * its turn, and waits up to `waitMs` for the answer (default 2000; 0: does not ask). Without an answer, the
   * explanation rests on the database alone.
   * @throws {PgQueueError} `not_found`
   */
  readonly explain: (id: string, options?: { readonly waitMs?: number }) => Promise<JobExplanation>;
  /**
   * Lists the jobs that ran, page by page, in the order in which they finished: as far back as history is
   * kept.
   */
  readonly recorded: (options?: RecordedOptions) => Promise<Page<RecordedJob>>;
  readonly doctor: (options?: { readonly mend?: boolean }) => Promise<Diagnosis>;
  /**
   * Checks the schema.
   * @throws {PgQueueError} `schema_version` if these packages can't work with the schema of the database
   */
  readonly check: () => Promise<void>;
  readonly close: () => Promise<void>;
}
