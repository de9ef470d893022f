import type { Shape } from '@pgqueue/core/internal';
import { aNumber, optional, optionProblems, throwProblems } from '@pgqueue/core/internal';
import type { Database } from '../connection/database.ts';
import type { NodeInfo } from '../reads/nodes.ts';
import { listNodes } from '../reads/nodes.ts';
import type { KeyNumbers } from '../reads/numbers.ts';
import { listKeys } from '../reads/numbers.ts';
import type { Status } from './status.ts';
import { readStatus } from './status.ts';

/** A running job. */
export interface RunningJob {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly node: string;
  /** Time since it was claimed, in milliseconds. */
  readonly runningMs: number;
  /** Below 0 if its lease has run out. */
  readonly leaseEndsInMs: number;
  /** Earlier attempts that ran to an error. */
  readonly tries: number;
  readonly crashes: number;
  /** Its cancellation was requested. */
  readonly cancelled: boolean;
}

/** Status of the installation, with its busiest keys, its longest-running jobs, and its nodes. */
export interface Top extends Status {
  /** Keys with the most jobs; the rest of each queue has key null. */
  readonly keys: readonly KeyNumbers[];
  /** Jobs that have run the longest, longest first. */
  readonly slowest: readonly RunningJob[];
  /** Every node, alive and draining ones first. */
  readonly everyNode: readonly NodeInfo[];
}

/** Limits of {@link Operator.top}. */
export interface TopOptions {
  /** 0 to 1000. Default 10. */
  readonly keys?: number;
  /** 0 to 1000. Default 10. */
  readonly slowest?: number;
}

const count = aNumber({ min: 0, max: 1_000, whole: true });
const shape: Shape<TopOptions> = { keys: optional(count), slowest: optional(count) };

/**
 * Reads the status, with its keys, jobs and nodes. The cost is bounded like that of `readStatus`.
 * @throws {PgQueueError} `configuration`
 */
export async function readTop(database: Database, options: TopOptions = {}): Promise<Top> {
  throwProblems('configuration', 'top', optionProblems(options, shape));
  const { keys = 10, slowest = 10 } = options;
  const [status, found, running, everyNode] = await Promise.all([
    readStatus(database),
    listKeys(database, keys),
    listSlowest(database, slowest),
    listNodes(database),
  ]);
  return { ...status, keys: found, slowest: running, everyNode };
}

/** Sorts the leased work items, which are few, and looks up the jobs of the first `max`. */
async function listSlowest({ query, schema }: Database, max: number): Promise<readonly RunningJob[]> {
  return query<RunningJob>(
    `select w.id, q.queue, w.task, q.key, w.node, w.running_ms as "runningMs", w.left_ms as "leaseEndsInMs",
            q.tries::integer as tries, q.crashes::integer as crashes, w.cancelled
     from (select id, task, lock_key as node, cancelled is not null as cancelled,
                  extract(epoch from clock_timestamp() - started)::float8 * 1000 as running_ms,
                  extract(epoch from lock_timeout - clock_timestamp())::float8 * 1000 as left_ms
           from ${schema}.work_item where lock_key is not null order by started, position limit $1) w
     join ${schema}.queue q on q.id = w.id
     order by w.running_ms desc`,
    [max],
  );
}
