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

/** A job that has a work item, with its lease. A job in a batch has the lease of its batch. */
export interface WorkItemView {
  id: string;
  position: BigInt8;
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

/** Tables and views that are read with kysely. */
export interface Tables {
  queue: QueueTable;
  work_item: WorkItemView;
  history: HistoryTable;
  dead_letter: DeadLetterTable;
  flow: FlowTable;
  flow_step: FlowStepTable;
  node: NodeTable;
  queue_config: QueueConfigTable;
  job: JobView;
}
