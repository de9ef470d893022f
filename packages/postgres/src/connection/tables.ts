import type { Attributes, Backoff, ErrorData, JobStatus, TraceContext } from '@pgqueue/core';
import type { ColumnType, Generated } from 'kysely';

/** A bigint. `pg` reads it as text unless told otherwise, so statements cast it where they need a number. */
type BigInt8 = ColumnType<string, never, never>;
type Stored<Value> = ColumnType<Value, Value | undefined, Value>;

/** One attempt's error, as stored in `errors`. */
export interface AttemptError {
  readonly kind?: 'error' | 'timeout' | 'crash' | 'invalid';
  readonly name?: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly errors?: readonly ErrorData[];
  readonly cause?: ErrorData;
  readonly node: string | null;
  readonly try: number;
  readonly at: string;
  /** Duration of the attempt in milliseconds, as its node measured it. */
  readonly ms?: number;
}

/** A waiting, ready or running job; it leaves the table when it ends. */
export interface QueueTable {
  id: Stored<string>;
  seq: BigInt8;
  queue: Stored<string>;
  task: string;
  key: Stored<string>;
  priority: Stored<number>;
  attributes: Stored<Attributes>;
  tries: Generated<number>;
  max_tries: Stored<number>;
  crashes: Generated<number>;
  max_crashes: Stored<number>;
  run_after: Date | null;
  expires_at: Date | null;
  created: Generated<Date>;
  timeout: unknown;
  unique_key: string | null;
  payload: Stored<unknown>;
  payload_version: Stored<number>;
  retry: Backoff | null;
  trace: TraceContext | null;
  errors: AttemptError[] | null;
  last_token: string | null;
  checkpoint: unknown;
  /** Changed while it waited, or returned to waiting. */
  moved: Generated<boolean | null>;
  /** The flow that it belongs to, and the number of its step. */
  flow: string | null;
  step: number | null;
}

/**
 * A work item: one job (`id`), or a batch of short ones (`jobs`). Its jobs have been scheduled, and are ready
 * (no lock) or running.
 */
export interface WorkQueueTable {
  position: BigInt8;
  id: string | null;
  jobs: string[] | null;
  version: number;
  pool: string;
  task: string;
  lock_key: string | null;
  lock_token: string | null;
  lock_timeout: Date | null;
  started: Date | null;
  cancelled: Date | null;
  progress: unknown;
  dispatched: Generated<Date | null>;
  together: string | null;
  suspect: Generated<boolean>;
  timeout: unknown;
}

/** A job that has a work item, with its lease. A job in a batch has the lease of its batch. */
export interface WorkItemView extends Omit<WorkQueueTable, 'id' | 'jobs' | 'timeout'> {
  id: string;
}

/** A job that ended as done, cancelled or expired; partitioned by `finished`. */
export interface HistoryTable {
  id: string;
  queue: string;
  task: string;
  key: string;
  priority: number;
  outcome: 'done' | 'cancelled' | 'expired';
  tries: number;
  crashes: number;
  created: Date;
  started: Date | null;
  finished: Date;
  payload_version: number;
  node: string | null;
  token: string | null;
  unique_key: string | null;
  attributes: Attributes;
  payload: unknown;
  result: unknown;
  errors: AttemptError[] | null;
  trace: TraceContext | null;
  flow: string | null;
  step: number | null;
  /** Timeout, tries and retry policy of a cancelled or expired job of a flow. */
  settings: unknown;
}

/** A job that will not run again by itself, with the error of every attempt. */
export interface DeadLetterTable {
  id: string;
  queue: string;
  task: string;
  key: string;
  priority: number;
  reason: 'max_tries' | 'crash_limit' | 'gave_up';
  tries: number;
  max_tries: number;
  crashes: number;
  max_crashes: number;
  created: Date;
  died: Date;
  timeout: unknown;
  payload_version: number;
  node: string | null;
  token: string | null;
  unique_key: string | null;
  attributes: Attributes;
  payload: unknown;
  retry: Backoff | null;
  trace: TraceContext | null;
  errors: AttemptError[];
  flow: string | null;
  step: number | null;
}

/**
 * Tasks that a node can run, by name. For each: payload versions, the timeout of a job without one, whether
 * its handler takes bundles whole (`batch`), and whether it runs in processes of its own (`isolated`).
 */
export type NodeTasks = Readonly<
  Record<
    string,
    {
      readonly min: number;
      readonly max: number;
      readonly timeoutMs: number | null;
      readonly batch?: boolean;
      readonly isolated?: boolean;
    }
  >
>;

/** A worker node: its present or last incarnation. */
export interface NodeTable {
  id: string;
  incarnation: string;
  state: 'alive' | 'draining' | 'left' | 'lost';
  pool: string;
  slots: number;
  running: number;
  tasks: NodeTasks;
  heartbeat: Date;
  heartbeat_ms: number;
  lost_after_ms: number;
  started: Date;
  software: string;
}

/** Settings of a queue; a queue without a row has the defaults. */
export interface QueueConfigTable {
  queue: string;
  paused: Stored<boolean>;
  pool: Stored<string>;
  retention: ColumnType<unknown, string | undefined, string>;
  concurrency: number | null;
  key_concurrency: number | null;
  rate: number | null;
  rate_burst: number | null;
  key_rate: number | null;
  key_rate_burst: number | null;
  key_pending: number | null;
  weight: Stored<number>;
  updated: Generated<Date>;
}

/**
 * A recurring job: a cron expression in a time zone. Each slot is enqueued once, whichever scheduler leads.
 */
export interface ScheduleTable {
  name: string;
  cron: string;
  timezone: Stored<string>;
  task: string;
  payload: Stored<unknown>;
  options: Stored<unknown>;
  paused: Stored<boolean>;
  next_slot: Date | null;
  last_slot: Date | null;
  retry_after: Date | null;
  updated: Generated<Date>;
}

/** One job, in whichever table, with its one status. No payload. */
export interface JobView {
  id: string;
  status: JobStatus;
  queue: string;
  task: string;
  key: string;
  priority: number;
  attributes: Attributes;
  tries: number;
  max_tries: number | null;
  crashes: number;
  max_crashes: number | null;
  run_after: Date | null;
  expires_at: Date | null;
  timeout: unknown;
  unique_key: string | null;
  payload_version: number;
  trace: TraceContext | null;
  created: Date;
  position: string | null;
  pool: string | null;
  node: string | null;
  started: Date | null;
  lock_timeout: Date | null;
  cancelled: Date | null;
  progress: unknown;
  finished: Date | null;
  reason: string | null;
  last_error: AttemptError | null;
  errors: AttemptError[] | null;
  has_checkpoint: boolean;
  suspect: boolean;
  flow: string | null;
  step: number | null;
}

/** A flow: a graph of steps. */
export interface FlowTable {
  id: string;
  name: string;
  key: string;
  unique_key: string | null;
  state: 'open' | 'done' | 'failed' | 'cancelled';
  reason: string | null;
  created: Date;
  deadline: Date | null;
  stopping: Date | null;
  ended: Date | null;
  waiter: string | null;
}

/** A step of a flow, with its counts as the leader wrote them last. */
export interface FlowStepTable {
  flow: string;
  step: number;
  name: string;
  state: 'blocked' | 'open' | 'ended';
  added: number;
  done: number;
  failed: number;
  other: number;
}

/** One queue in numbers. Ages in seconds; counts are bigints as text. */
export interface QueueStatusView {
  queue: string;
  paused: boolean;
  pool: string;
  delayed: string;
  pending: string;
  ready: string;
  running: string;
  dead: string;
  oldest_s: number | null;
  claim_age_s: number | null;
  retry_rate: number | null;
  done_5m: string;
  dead_5m: string;
  exact: boolean;
  window_s: number;
  failed: string;
  attempts: string;
}

/** The whole installation in one row. */
export interface OverviewView extends Omit<
  QueueStatusView,
  'queue' | 'paused' | 'pool' | 'window_s' | 'failed' | 'attempts'
> {
  leader: string | null;
  epoch: string;
  alive_nodes: string;
  draining_nodes: string;
  lost_nodes: string;
  slots: string;
  tick_p50_s: number | null;
  tick_p99_s: number | null;
}

/** The schema, as kysely sees it. */
export interface Tables {
  queue: QueueTable;
  work_queue: WorkQueueTable;
  work_item: WorkItemView;
  history: HistoryTable;
  dead_letter: DeadLetterTable;
  flow: FlowTable;
  flow_step: FlowStepTable;
  node: NodeTable;
  queue_config: QueueConfigTable;
  policy_state: { part: string; state: unknown; saved: Date };
  scheduler_lease: { leader: string | null; epoch: BigInt8; expires: Date };
  scheduler_report: { leader: string; epoch: BigInt8; written: Date; report: unknown };
  schedule: ScheduleTable;
  migration: {
    version: number;
    name: string;
    checksum: string;
    compatible: boolean;
    applied: Date;
  };
  job: JobView;
  queue_status: QueueStatusView;
  overview: OverviewView;
  queue_held: { queue: string; reason: string; jobs: string; at: Date };
}
