/**
 * The scheduler without its loops, for tests and for tools that pace it themselves. Planning and writing use
 * the same code as {@link createScheduler}; only the timing differs.
 */
import type { HeldCounts } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { soonest, within } from '@pgqueue/core/internal';
import type { Database } from '@pgqueue/postgres';
import type { Leader, TickDue } from '@pgqueue/postgres/internal';
import { checkSchemaVersion, lead, openDatabase, resign } from '@pgqueue/postgres/internal';
import { createDispatcher } from '../tick/tick.ts';
import { createHealthWatch } from '../reporting/database-health.ts';
import type { SchedulerOptions, Settings } from '../options.ts';
import { toSettings } from '../options.ts';
import type { Planner } from '../policy/planner.ts';
import { createPlanner } from '../policy/planner.ts';
import type { SweepKind } from '../sweeps/agenda.ts';
import type { Sweep } from '../sweeps/sweeps.ts';
import { sweepOnce } from '../sweeps/sweeps.ts';
import { advanceOnce, createFlowMemory, stopOnce } from '../flows/advance.ts';

/** A scheduler that runs one step on demand. Made by {@link createSchedulerSteps}. */
export interface SchedulerSteps {
  /**
   * Becomes the leader for a minute; each step renews it.
   * @throws {PgQueueError} `schema_version`; `leadership_lost`: another scheduler leads
   */
  readonly begin: () => Promise<void>;
  /**
   * Does everything that is due: promotes, fires schedules, expires jobs, takes back what dead nodes hold,
   * then plans and dispatches until a plan has nothing more to dispatch. @throws as `begin`, and any error of
   * a sweep or a tick
   */
  readonly step: () => Promise<SchedulerStep>;
  /** Resigns and closes all connections. May be called again. */
  readonly end: () => Promise<void>;
}

/** Result of one step. */
export interface SchedulerStep {
  /** Jobs that changed from pending to ready. */
  readonly dispatched: number;
  readonly promoted: number;
  readonly expired: number;
  /** Jobs enqueued by schedules. */
  readonly fired: number;
  /** Held jobs, by queue and by reason. */
  readonly held: HeldCounts;
  /**
   * Milliseconds on the database's clock until something becomes due: a delay, a retry, a schedule, an
   * expiry, a rate. Null: nothing will.
   */
  readonly nextMs: number | null;
}

const leaseMs = 60_000;
/** Longest wait for the values a policy prepares before the first plan, in milliseconds. */
const preparedMs = 2_000;
/** Longest time that an unanswered `begin` delays `end`, in milliseconds. */
const endMs = 5_000;
/** Most ticks of one step; more means a bug in the scheduler. */
const ticksMax = 10_000;
const sweepsMax = 1_000;

/**
 * Creates a scheduler without opening a connection. It does not listen, and serves no health checks. @throws
 * {PgQueueError} `configuration`
 */
export function createSchedulerSteps(options: SchedulerOptions): SchedulerSteps {
  const settings = toSettings({ ...options, listen: false });
  const database = openDatabase({ applicationName: 'pgqueue steps', connectionsMax: 2, ...options });
  const ticking = startTicking(database, settings);
  let leader: Leader | undefined;
  let ended = false;
  let beginning: Promise<void> = Promise.resolve();

  const renew = async (): Promise<Leader> => {
    const answer = await lead(database, settings.name, leaseMs);
    if (!answer.leads) throw leads(answer.leader);
    leader = { leader: settings.name, epoch: answer.epoch };
    return leader;
  };
  const begin = async (): Promise<void> => {
    await checkSchemaVersion(database, database.schema);
    await renew();
    // after `end`, nothing would stop the planner
    if (!ended) await ticking.begin();
  };
  return {
    begin: () => (beginning = begin()),
    step: async () => {
      const current = await renew();
      const swept = await sweepAll({ database, settings, leader: current });
      return { ...swept, ...(await ticking.untilQuiet(current)) };
    },
    end: async () => {
      ended = true;
      // a lease still being requested is given back, too
      await within(endMs, beginning);
      await ticking.end();
      const last = leader;
      leader = undefined;
      if (last !== undefined)
        await within(
          leaseMs,
          resign(database, last.leader, last.epoch).catch(() => false),
        );
      await database.close();
    },
  };
}

interface Sweeping {
  readonly database: Database;
  readonly settings: Settings;
  readonly leader: Leader;
}

/** Runs all sweeps, ordered so that jobs one of them makes pending are seen by the next. */
async function sweepAll({
  database,
  settings,
  leader,
}: Sweeping): Promise<Pick<SchedulerStep, 'promoted' | 'fired' | 'expired'>> {
  const sweep = { database, observe: settings.observe, leader, onWork: (): void => {} };
  const sweepWhole = async (kind: SweepKind): Promise<number> => {
    for (let [times, total] = [1, 0]; ; times += 1) {
      const { count, again } = await sweepOnce(kind, sweep);
      total += count;
      if (again !== 0 || count === 0 || times >= sweepsMax) return total;
    }
  };
  await sweepWhole('history');
  await sweepWhole('trim');
  await sweepWhole('loseNodes');
  await sweepWhole('reap');
  const expired = await sweepWhole('expire');
  const fired = await sweepWhole('cron');
  await advanceAll(sweep);
  return { promoted: await sweepWhole('promote'), fired, expired };
}

/** Moves flows on until nothing more can be done, and looks at each open flow once. */
async function advanceAll({ database, observe, leader }: Sweep): Promise<void> {
  const memory = createFlowMemory();
  for (let times = 1; times <= sweepsMax; times += 1) {
    // a step does not wait for the next rescan or walk
    [memory.rescanAt, memory.walkAt] = [0, 0];
    const { more, stops, walked } = await advanceOnce(database, leader, { memory, observe });
    if (!more && walked === null && !(stops && (await stopOnce(database, leader)))) return;
  }
}

interface Ticking {
  readonly begin: () => Promise<void>;
  readonly untilQuiet: (leader: Leader) => Promise<Pick<SchedulerStep, 'dispatched' | 'held' | 'nextMs'>>;
  readonly end: () => Promise<void>;
}

function startTicking(database: Database, settings: Settings): Ticking {
  const prepared = Promise.withResolvers<void>();
  const planner = createPlanner({
    ...settings,
    onPrepared: () => void (isPrepared() && prepared.resolve()),
  });
  const isPrepared = (): boolean =>
    Object.keys(planner.prepared(0)).length >= (settings.policy.prepare ?? []).length;
  const health = createHealthWatch({ database, ...settings, needed: planner.needs.health === true });
  const seen = { dispatched: 0, held: {} as HeldCounts, planMs: null as number | null };
  const dispatcher = createDispatcher({
    database,
    settings,
    planner: noting(planner, (nextMs) => (seen.planMs = nextMs)),
    beside: (nowMs) => ({ health: health.health(), prepared: planner.prepared(nowMs) }),
    questionsAfter: () => 0,
    onServerLost: () => {},
    hearing: () => false,
    onSeen: () => {},
    onTick: ({ dispatched, held }) => {
      seen.dispatched += dispatched.count;
      seen.held = held;
    },
    onUnknown: () => {},
  });
  return {
    begin: async () => {
      planner.start();
      health.start();
      if (!isPrepared()) await within(preparedMs, prepared.promise);
    },
    untilQuiet: async (leader) => {
      seen.dispatched = 0;
      for (let ticks = 0; ; ticks += 1) {
        if (ticks >= ticksMax) throw new PgQueueError('invariant', `${ticksMax} ticks came to no end`);
        const before = seen.dispatched;
        const nextMs = await dispatcher.tick(leader);
        if (nextMs > 0 && seen.dispatched === before) break;
      }
      const { dispatched, held, planMs } = seen;
      const nextMs = soonest(planMs, ...(await due(database)));
      return { dispatched, held, nextMs: nextMs === null ? null : Math.max(0, nextMs) };
    },
    end: async () => {
      await Promise.all([planner.stop(), health.stop(), dispatcher.settled()]);
    },
  };
}

/** Wraps the planner to note when the held jobs may go. */
function noting(planner: Planner, next: (ms: number | null) => void): Planner {
  return {
    ...planner,
    plan: (snapshot) => {
      const planned = planner.plan(snapshot);
      next(planned.nextMs === null ? null : planned.nextMs - snapshot.nowMs);
      return planned;
    },
  };
}

async function due({ query, schema }: Database): Promise<readonly (number | null)[]> {
  // without jobs that wait for a flow of their own, until a time years away
  const [row] = await query<{ readonly due: TickDue | null; readonly promoteMs: number | null }>(
    `select ${schema}.tick_due() as due, (
       select extract(epoch from q.run_after - clock_timestamp())::float8 * 1000 from ${schema}.queue q
       where q.run_after is not null and not exists (
         select from ${schema}.flow f where f.waiter = q.id and f.waiter_token = q.last_token and f.state = 'open')
       order by q.run_after limit 1) as "promoteMs"`,
    [],
  );
  const { expireMs = null, cronMs = null, flowsMs = null } = row?.due ?? {};
  return [row?.promoteMs ?? null, expireMs, cronMs, flowsMs];
}

function leads(other: string | null): PgQueueError {
  return new PgQueueError(
    'leadership_lost',
    `another scheduler leads in this database${other === null ? '' : ` (${other})`}: stop it first, since only one can dispatch`,
    { data: { leader: other } },
  );
}
