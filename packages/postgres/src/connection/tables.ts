import type { Attributes, ErrorData } from '@pgqueue/core';
import type { ColumnType, Generated } from 'kysely';

type Stored<Value> = ColumnType<Value, Value | undefined, Value>;

/** One attempt's error, as stored in `errors`. */
export interface AttemptError extends Omit<ErrorData, 'name'> {
  readonly kind?: 'error' | 'timeout' | 'crash' | 'invalid';
  readonly name?: string;
  readonly node: string | null;
  readonly try: number;
  readonly at: string;
  /** Duration of the attempt in milliseconds, as its node measured it. */
  readonly ms?: number;
}

/** A waiting, ready or running job; it leaves the table when it ends. */
export interface QueueTable {
  id: Stored<string>;
  queue: Stored<string>;
  task: string;
  key: Stored<string>;
  run_after: Date | null;
  /** The flow that it belongs to, and the number of its step. */
  flow: string | null;
  step: number | null;
}

/** A job that has a work item, with its lease. A job in a batch has the lease of its batch. */
export interface WorkItemView {
  id: string;
  lock_key: string | null;
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
  created: Date;
  started: Date | null;
  finished: Date;
  payload_version: number;
  attributes: Attributes;
  flow: string | null;
  step: number | null;
}

/** A job that will not run again by itself, with the error of every attempt. */
export interface DeadLetterTable {
  id: string;
  queue: string;
  task: string;
  key: string;
  reason: 'max_tries' | 'crash_limit' | 'gave_up';
  tries: number;
  crashes: number;
  created: Date;
  died: Date;
  node: string | null;
  unique_key: string | null;
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

/** Tables and views that are read or written with kysely, with the columns that are. */
export interface Tables {
  queue: QueueTable;
  work_item: WorkItemView;
  history: HistoryTable;
  dead_letter: DeadLetterTable;
  flow: FlowTable;
  flow_step: FlowStepTable;
  queue_config: QueueConfigTable;
}
