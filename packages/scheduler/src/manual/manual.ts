/**
 * The scheduler without its loops: for tests, and tools that pace it themselves. What decides and what writes is what runs in
 * {@link createScheduler}; only who says when differs.
 */
import type { HeldCounts } from '@pgqueue/core';
import { PgQueueError, within } from '@pgqueue/core';
import type { Database, Leader, TickDue } from '@pgqueue/postgres';
import { checkSchemaVersion, lead, openDatabase, resign } from '@pgqueue/postgres';
import { createDispatcher } from '../tick/tick.ts';
import { createHealthWatch } from '../reporting/database-health.ts';
import type { SchedulerOptions, Settings } from '../options.ts';
import { toSettings } from '../options.ts';
import type { Planner } from '../policy/planner.ts';
import { createPlanner } from '../policy/planner.ts';
import type { Kind } from '../sweeps/sweeps.ts';
import { sweepOnce } from '../sweeps/sweeps.ts';

/** A scheduler that does one step when it is told to. Made by {@link createSchedulerSteps}. */
export interface SchedulerSteps {
  /**
   * Leads, for a minute at a time.
   * @throws {PgQueueError} `schema_version`; `leadership_lost`: another scheduler leads
   */
  readonly begin: () => Promise<void>;
  /**
   * Everything that is due by now: promotes, fires schedules, expires, takes back what dead nodes hold, then plans and dispatches until
   * a plan has nothing more to dispatch. @throws as `begin`, and what a sweep or a tick throws
   */
  readonly step: () => Promise<SchedulerStep>;
  /** Resigns, and closes its connections. May be called again. */
  readonly end: () => Promise<void>;
}

/** What one step did. */
export interface SchedulerStep {
  /** Jobs that left pending for ready. */
  readonly dispatched: number;
  readonly promoted: number;
  readonly expired: number;
  /** Jobs that schedules have enqueued. */
  readonly fired: number;
  /** Waiting jobs, by queue and by the reason that holds them. */
  readonly held: HeldCounts;
  /** Milliseconds of the database's clock until something becomes due: a delay, a retry, a schedule, an expiry, a rate. Null: nothing will. */
  readonly nextMs: number | null;
}

const leaseMs = 60_000;
/** What a policy prepares must be there before it plans: it gets so long. */
const preparedMs = 2_000;
/** A begin that gets no answer holds up the end for no longer. */
const endMs = 5_000;
/** A tick that goes on without end is a mistake of ours. */
const ticksMax = 10_000;
const sweepsMax = 1_000;

/** Opens no connection yet. It listens to nothing, and answers no health checks. @throws {PgQueueError} `configuration` */
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
    // nobody would stop what begins after the end
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
      // a lease that is being asked for is given back, too
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

/** In an order in which what one makes pending is there for the next. */
async function sweepAll({
  database,
  settings,
  leader,
}: Sweeping): Promise<Pick<SchedulerStep, 'promoted' | 'fired' | 'expired'>> {
  const sweep = { database, observe: settings.observe, leader, onWork: (): void => {} };
  const sweepWhole = async (kind: Kind): Promise<number> => {
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
  return { promoted: await sweepWhole('promote'), fired, expired };
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
      return { dispatched, held, nextMs: soonest([planMs, ...(await due(database))]) };
    },
    end: async () => {
      await Promise.all([planner.stop(), health.stop(), dispatcher.settled()]);
    },
  };
}

/** The planner, which says when what it holds may go. */
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
  const [row] = await query<{ readonly due: TickDue | null }>(`select ${schema}.tick_due() as due`, []);
  return [row?.due?.promoteMs ?? null, row?.due?.expireMs ?? null, row?.due?.cronMs ?? null];
}

function soonest(times: readonly (number | null)[]): number | null {
  const known = times.filter((ms) => ms !== null);
  return known.length === 0 ? null : Math.max(0, Math.min(...known));
}

function leads(other: string | null): PgQueueError {
  return new PgQueueError(
    'leadership_lost',
    `another scheduler leads in this database${other === null ? '' : ` (${other})`}: stop it first, since only one can dispatch`,
    { data: { leader: other } },
  );
}
