import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { JobOptions, SingleTaskHandler } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { toJobRow } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import type { Target } from '@pgqueue/postgres/internal';
import {
  claim,
  dispatch,
  lead,
  leaveNode,
  openDatabase,
  registerNode,
  resign,
} from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import type { TestedDatabase } from '../drain/options.ts';
import { memoryLease } from './memory-lease.ts';

/** A leased job, and the target that holds its lease. */
export interface Leased {
  readonly job: ClaimedJob;
  readonly database: Target;
  readonly pool?: Database['pool'];
  /** Leaves, and closes the connections. */
  readonly end: () => Promise<void>;
}

/** Description of the job to lease. `before`: state that earlier attempts left. */
export interface LeasedInput {
  readonly handler: SingleTaskHandler;
  readonly payload: unknown;
  readonly options: JobOptions;
  readonly before: { readonly tries: number; readonly crashes: number; readonly checkpoint: unknown };
  /** Results by step, for a job in memory. */
  readonly needs: Readonly<Record<string, readonly unknown[]>>;
}

const defaultTimeoutMs = 300_000;
const leadWithinMs = 1_000;

/**
 * Leases a job that is in no database.
 * @throws {PgQueueError} `invalid_job`
 */
export async function leaseInMemory({
  handler,
  payload,
  options,
  before,
  needs,
}: LeasedInput): Promise<Leased> {
  const row = await toJobRow(handler.task.job(payload, options), () => randomUUID());
  const job: ClaimedJob = {
    id: row.id,
    token: randomUUID(),
    position: 1,
    queue: row.queue,
    task: row.task,
    key: row.key,
    priority: row.priority,
    attributes: row.attributes,
    payload: JSON.parse(row.payload),
    payloadVersion: row.payloadVersion,
    maxTries: row.maxTries,
    retry: row.retry,
    trace: row.trace,
    created: new Date(),
    leaseMs: row.timeoutMs ?? defaultTimeoutMs,
    bundle: null,
    ...before,
  };
  return { job, database: memoryLease(job, needs), end: () => Promise.resolve() };
}

/**
 * Enqueues a job, dispatches it past all others to a pool of its own, and claims it there, by the statements
 * of producer, scheduler and worker.
 */
export async function leaseFrom(tested: TestedDatabase, input: LeasedInput): Promise<Leased> {
  const where = {
    connectionString: tested.url,
    ...(tested.schema === undefined ? {} : { schema: tested.schema }),
  };
  const database = openDatabase({ ...where, applicationName: 'pgqueue runHandler', connectionsMax: 4 });
  const node = `runHandler-${randomUUID()}`;
  const incarnation = randomUUID();
  const end = async (): Promise<void> => {
    await leaveNode(database, node, incarnation).catch(() => false);
    await database.close();
  };
  try {
    const id = await enqueue(where, input);
    await setBefore(database, id, input.before);
    const { task } = input.handler;
    await registerNode(database, {
      node,
      incarnation,
      tasks: { [task.name]: { min: task.minVersion, max: task.version, timeoutMs: task.timeoutMs } },
      slots: 1,
      pool: node,
      heartbeatMs: 60_000,
      lostAfterMs: 3_600_000,
      software: '@pgqueue/testing',
      seen: null,
    });
    await dispatchTo(database, { id, pool: node });
    const [job] = await claim(database, { node, incarnation, max: 1, token: randomUUID() });
    if (job === undefined)
      throw new PgQueueError('invariant', `job ${id} was dispatched, and is not there to be claimed`);
    return { job, database, pool: database.pool, end };
  } catch (error) {
    await end();
    throw error;
  }
}

async function enqueue(
  where: { readonly connectionString: string; readonly schema?: string },
  { handler, payload, options }: LeasedInput,
): Promise<string> {
  const producer = createProducer({ ...where, notify: false, connectionsMax: 1 });
  try {
    const { id } = await producer.enqueue(handler.task, payload, options);
    return id;
  } finally {
    await producer.close();
  }
}

async function setBefore(
  { query, schema }: Database,
  id: string,
  before: LeasedInput['before'],
): Promise<void> {
  const { tries, crashes, checkpoint } = before;
  await query(
    `update ${schema}.queue set tries = $2, crashes = $3, checkpoint = $4::jsonb, run_after = null where id = $1`,
    [id, tries, crashes, checkpoint === null ? null : JSON.stringify(checkpoint)],
  );
}

async function dispatchTo(
  database: Database,
  { id, pool }: { readonly id: string; readonly pool: string },
): Promise<void> {
  const leader = pool;
  const epoch = await leadSoon(database, leader);
  try {
    const jobs = [{ id, pool, rowVersion: null, bundle: null }];
    await dispatch(database, { leader, epoch, jobs, parts: null, settled: [], notify: false });
  } finally {
    await resign(database, leader, epoch);
  }
}

/** Waits up to 1 s for leadership: other calls of `runHandler` lead for a moment only. */
async function leadSoon(database: Database, leader: string): Promise<number> {
  const deadline = performance.now() + leadWithinMs;
  for (;;) {
    const { leads, epoch, leader: other } = await lead(database, leader, 10_000);
    if (leads) return epoch;
    if (performance.now() > deadline) {
      throw new PgQueueError(
        'leadership_lost',
        `another scheduler leads in this database (${other}): stop it before runHandler, or run the handler without a database`,
        { data: { leader: other } },
      );
    }
    await delay(10);
  }
}
