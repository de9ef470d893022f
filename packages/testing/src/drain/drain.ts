import { randomBytes } from 'node:crypto';
import type { Codec, HeldCounts } from '@pgqueue/core';
import { allObservers } from '@pgqueue/core';
import { durationMs, placeOf } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import { amend, decoded, openDatabase } from '@pgqueue/postgres/internal';
import type { SchedulerStep, SchedulerSteps } from '@pgqueue/scheduler/internal/steps';
import { createSchedulerSteps } from '@pgqueue/scheduler/internal/steps';
import type { WorkerSteps } from '@pgqueue/worker/internal/steps';
import { createWorkerSteps, sleepsUntilMs } from '@pgqueue/worker/internal/steps';
import { needClock } from '../clock/clock.ts';
import { putForward } from '../clock/clock-sql.ts';
import type { DrainedFlow, FlowNotes } from './flows.ts';
import { noteFlows } from './flows.ts';
import type { DrainOptions } from './options.ts';
import { checkDrain, timeoutOf } from './options.ts';
import type { DrainedJob, DrainRecord } from './record.ts';
import { createRecord } from './record.ts';

/** Result of a drain: the attempts that it ran, the flows that it moved on, and the jobs that it left. */
export interface Drained {
  /** All attempts, in the order in which they ended. */
  readonly jobs: readonly DrainedJob[];
  /** Number of attempts by outcome. */
  readonly counts: Readonly<Record<DrainedJob['outcome'], number>>;
  /**
   * Flows that are open, or have ended during this drain, in the order of their starts; up to 1,000. Signals come
   * between two drains, by `producer.signal`.
   */
  readonly flows: readonly DrainedFlow[];
  /** Number of jobs that ended as expired, unstarted. */
  readonly expired: number;
  /** Number of jobs that schedules have enqueued. */
  readonly fired: number;
  readonly left: DrainLeft;
}

/** Jobs that still wait after a drain. */
export interface DrainLeft {
  readonly pending: number;
  readonly delayed: number;
  /** Jobs that were scheduled and not run, because `maxJobs` was reached. */
  readonly ready: number;
  /** Reasons why jobs are pending: their numbers by queue, and by the reason that holds them. */
  readonly held: HeldCounts;
  /**
   * Milliseconds until the next job, schedule, rate, or timer or deadline of a flow is due, by the database's
   * clock; null: nothing will be.
   */
  readonly nextInMs: number | null;
}

const jobsMax = 1_000;
const policyBudgetMs = 5_000;

/**
 * Runs what is due now, in this process: puts a scheduler and a worker node through their steps until nothing
 * is due any more. Plans, handlers and settlements are those of production. Sees only committed jobs.
 * @throws {PgQueueError} `configuration`; `leadership_lost`: another scheduler leads there
 * @throws {Error} after `timeoutMs`; after 1000 attempts without an end, unless `maxJobs` is given; if a
 * policy or a schedule fails, which production would report, and go on
 */
export async function drain(options: DrainOptions): Promise<Drained> {
  checkDrain(options);
  const timeoutMs = timeoutOf(options);
  const record = createRecord(options.codec?.errors);
  const drainage = open(options, record);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(tooLate(record, timeoutMs)), timeoutMs);
  });
  try {
    return await Promise.race([run(drainage, options, record), late]);
  } finally {
    clearTimeout(timer);
    await drainage.close();
  }
}

interface Drainage {
  readonly scheduler: SchedulerSteps;
  readonly worker: WorkerSteps;
  readonly database: Database;
  readonly close: () => Promise<void>;
}

function open(options: DrainOptions, record: DrainRecord): Drainage {
  const { database: tested, tasks, policy, pool, around, codec, concurrency = 1 } = options;
  const { url: connectionString, schema } = tested;
  const observe = allObservers(record.observe, options.observe);
  const where = { connectionString, ...(schema === undefined ? {} : { schema }) };
  const common = { ...where, observe };
  const scheduler = createSchedulerSteps({
    ...common,
    name: `drain ${randomBytes(4).toString('hex')}`, // a drain beside this one is another scheduler
    policyBudgetMs, // tests run on busy machines
    ...(policy === undefined ? {} : { policy }),
  });
  const worker = createWorkerSteps({
    ...common,
    tasks: record.noted(tasks),
    concurrency,
    ...(pool === undefined ? {} : { pool }),
    ...(around === undefined ? {} : { around }),
    ...(codec === undefined ? {} : { codec }),
  });
  const database = openDatabase({ ...where, applicationName: 'pgqueue drain', connectionsMax: 1 });
  return {
    scheduler,
    worker,
    database,
    close: async () => {
      await worker.end();
      await scheduler.end();
      await database.close();
    },
  };
}

async function run(drainage: Drainage, options: DrainOptions, record: DrainRecord): Promise<Drained> {
  const { scheduler, worker, database } = drainage;
  const { maxJobs = jobsMax, ahead = 0 } = options;
  const total = { expired: 0, fired: 0 };
  let aheadMs = durationMs(ahead, 'ahead');
  if (aheadMs > 0) await needClock(database);
  await worker.begin(); // before a plan, which dispatches only to live nodes
  await scheduler.begin();
  const flows = await noteFlows(database);
  let claimed = 0;
  for (;;) {
    const step = await scheduler.step();
    const fault = record.fault();
    if (fault !== undefined) throw fault;
    total.expired += step.expired;
    total.fired += step.fired;
    const ran = await runReady(worker, maxJobs - claimed);
    claimed += ran;
    if (claimed >= maxJobs) {
      if (options.maxJobs === undefined) throw endless(record);
      return report(drainage, record, { ...total, flows, step: await scheduler.step() });
    }
    if (ran > 0 || step.dispatched + step.promoted + step.fired > 0) continue;
    if ((await runNow(database, options)) > 0) continue;
    if (aheadMs <= 0) return report(drainage, record, { ...total, flows, step });
    await flows.noteEnded();
    const byMs = Math.min(aheadMs, leap(step.nextMs ?? aheadMs));
    await putForward(database, { byMs });
    aheadMs -= byMs;
  }
}

/**
 * Returns the milliseconds to the next due time; 1 s if something is overdue and did not go, since somebody
 * else holds it.
 */
function leap(nextMs: number): number {
  return nextMs <= 0 ? 1_000 : Math.ceil(nextMs) + 1;
}

/** Claims until nothing is ready, or `max` jobs were claimed. */
async function runReady(worker: WorkerSteps, max: number): Promise<number> {
  let ran = 0;
  while (ran < max) {
    const claimed = await worker.run(max - ran);
    ran += claimed;
    if (claimed === 0) break;
  }
  return ran;
}

interface Delayed {
  readonly id: string;
  readonly task: string;
  readonly checkpoint: unknown;
  readonly nowMs: number;
}

/**
 * Makes delayed jobs pending, as the options ask. A delayed job that has failed before is a retry. A job that
 * waits for a flow of its own goes on waiting, and one that sleeps in its handler sleeps on: it would go back to
 * sleep at once, for ever.
 */
async function runNow(
  database: Database,
  { retries = false, delayed = false, codec }: DrainOptions,
): Promise<number> {
  if (!retries && !delayed) return 0;
  const rows = await database.query<Delayed>(
    `select q.id, q.task, q.checkpoint, extract(epoch from clock_timestamp())::float8 * 1000 as "nowMs" from ${database.schema}.queue q
     where q.run_after is not null and case when q.tries > 0 then $1::boolean else $2::boolean end
       and not exists (
         select from ${database.schema}.flow f where f.waiter = q.id and f.waiter_token = q.last_token and f.state = 'open')
     order by q.run_after, q.seq`,
    [retries, delayed],
  );
  const awake = rows.filter((row) => !sleeps(codec, row)).map(({ id }) => id);
  if (awake.length === 0) return 0;
  return (await amend(database, awake.slice(0, 1_000), { runAfter: 'now' })).size;
}

function sleeps(codec: Codec | undefined, { id, task, checkpoint, nowMs }: Delayed): boolean {
  const place = placeOf({ id, task }, 'checkpoint');
  try {
    return sleepsUntilMs(decoded(codec, checkpoint, place)) > nowMs;
  } catch {
    return false; // its attempt says why it can't be read
  }
}

async function report(
  { database }: Drainage,
  { jobs }: DrainRecord,
  {
    expired,
    fired,
    flows,
    step,
  }: {
    readonly expired: number;
    readonly fired: number;
    readonly flows: FlowNotes;
    readonly step: SchedulerStep;
  },
): Promise<Drained> {
  const counts = { done: 0, retry: 0, snooze: 0, dead: 0, cancelled: 0, crashed: 0, lost: 0 };
  for (const { outcome } of jobs) counts[outcome] += 1;
  const rows = await database.query<{
    readonly status: 'pending' | 'delayed' | 'ready';
    readonly jobs: number;
  }>(
    `select status, count(*)::integer as jobs from ${database.schema}.job
     where status in ('pending', 'delayed', 'ready') group by status`,
    [],
  );
  const waiting = { pending: 0, delayed: 0, ready: 0 };
  for (const { status, jobs: count } of rows) waiting[status] = count;
  const left: DrainLeft = { ...waiting, held: step.held, nextInMs: step.nextMs };
  return { jobs, counts, flows: await flows.all(), expired, fired, left };
}

function tooLate({ jobs, running, trouble }: DrainRecord, timeoutMs: number): Error {
  const names = [...running].map(([id, task]) => `${task} (job ${id})`);
  const cause = trouble();
  const ended = `${jobs.length} attempts had ended${jobs.length === 0 ? '' : `, the last of ${lastTasks(jobs)}`}`;
  let why = 'a job may enqueue itself, or fail for ever';
  if (names.length > 0) why = `still running: ${names.join(', ')}, which may never return`;
  else if (cause !== undefined) why = `no handler runs, so ${cause.message}`;
  else if (jobs.length === 0) why = 'no handler runs, so it was the database that took so long';
  return new Error(
    `drain did not come to an end within ${timeoutMs} ms, when ${ended}: ${why}. More time: timeoutMs`,
    { cause },
  );
}

function endless({ jobs }: DrainRecord): Error {
  return new Error(
    `drain came to no end within ${jobsMax} attempts, the last of ${lastTasks(jobs)}: a job that enqueues itself, or fails for ever? Else say how many: maxJobs`,
  );
}

function lastTasks(jobs: readonly DrainedJob[]): string {
  return [...new Set(jobs.slice(-20).map(({ task }) => task))].join(', ');
}
