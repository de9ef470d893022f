import { setTimeout as delay } from 'node:timers/promises';
import { PgQueueError, retryPauseMs, within } from '@pgqueue/core';
import type {
  Database,
  HealthServer,
  JobExplanation,
  Listener,
  Lone,
  LoneOptions,
  ReportedPolicy,
} from '@pgqueue/postgres';
import {
  askLeader,
  channelName,
  checkSchemaVersion,
  explainJob,
  isTransient,
  openDatabase,
  openLone,
  readNumbers,
  resign,
  serveHealth,
  shareReading,
  startListener,
  startWaiting,
} from '@pgqueue/postgres';
import { createDispatcher } from './tick/tick.ts';
import { createHealthWatch } from './reporting/database-health.ts';
import type { LivenessParts } from './reporting/health-checks.ts';
import { schedulerChecks } from './reporting/health-checks.ts';
import type { Leadership } from './leadership/election.ts';
import { startLeadership } from './leadership/election.ts';
import { createNodeSessions } from './sweeps/node-sessions.ts';
import type { SchedulerOptions, Settings } from './options.ts';
import { toSettings } from './options.ts';
import { lastReportedPolicy, watchOtherPolicies } from './leadership/policy-mismatch.ts';
import { createPlanner } from './policy/planner.ts';
import type { Sweeps } from './sweeps/sweeps.ts';
import { startSweeps } from './sweeps/sweeps.ts';
import { startTelling } from './reporting/reporting.ts';
import type { WokenTicks } from './tick/tick-loop.ts';
import { startTicks } from './tick/tick-loop.ts';

/** A scheduler, made by {@link createScheduler}: it leads, or stands by until the leader is gone. */
export interface Scheduler {
  /**
   * Checks the schema's version, then runs as leader or standby until it is stopped. While the database can't be reached, it
   * says so (`database.error`) and tries again.
   * @throws {PgQueueError} `schema_version`, `configuration` (the port of its health checks is taken, or it was stopped); and what the database says where trying again is no use (a wrong password, a right that is missing)
   */
  readonly start: () => Promise<void>;
  /**
   * Ends the tick under way, resigns so that a standby takes over at once, and closes its connections. Within 20 s, whatever the
   * database does.
   */
  readonly stop: () => Promise<void>;
  /**
   * Why a job is not running, or what it does: asks whoever leads, as `operator.explain` does.
   * @throws {PgQueueError} `not_found`
   */
  readonly explain: (job: string) => Promise<JobExplanation>;
  /** Of its health checks, where it has them, from `start` on. */
  readonly healthPort: number | undefined;
  readonly leads: boolean;
  /** Of its present reign; null on standby. */
  readonly epoch: number | null;
}

const stopMs = 5_000;

/** Opens no connection yet. @throws {PgQueueError} `configuration` */
export function createScheduler(options: SchedulerOptions): Scheduler {
  const settings = toSettings(options);
  const database = openDatabase({
    applicationName: 'pgqueue scheduler',
    connectionsMax: 4,
    // who can listen is connected directly
    prepare: settings.listen,
    onError: (error) => {
      running?.serverLost();
      settings.observe({ type: 'database.error', during: 'idle', error });
    },
    ...options,
  });
  const keys = options.health?.keys ?? 10;
  settings.metrics.tellOf(
    shareReading(() => readNumbers(database, { keys }), { share: 0.05, mostMs: 15_000 }),
  );
  const stopping = new AbortController();
  let running: Running | undefined;
  let healthServer: HealthServer | undefined;
  let starting: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;

  const checks = schedulerChecks(settings, options.health ?? { port: 0 }, () => running?.parts);

  const start = async (): Promise<void> => {
    if (options.health !== undefined) healthServer = await serveHealth(options.health, checks);
    await reach(database, settings, stopping.signal);
    const before = stopping.signal.aborted ? undefined : await lastReportedPolicy(database);
    if (!stopping.signal.aborted)
      running = run(database, settings, {
        before,
        connectionString: options.connectionString,
        lone: loneOf(options, database.schema),
      });
  };
  return {
    start: () => {
      if (stopped === undefined) return (starting ??= start());
      return Promise.reject(
        new PgQueueError('configuration', 'this scheduler was stopped: create another one'),
      );
    },
    stop: () => {
      stopping.abort();
      return (stopped ??= (async () => {
        await within(stopMs, starting ?? Promise.resolve());
        const ordered = running?.stop() ?? Promise.resolve();
        // then what it still waits for fails, since its connections go
        const inTime = await within(stopMs, ordered);
        settings.metrics.stop();
        await database.close();
        if (!inTime) await within(stopMs, ordered);
        await healthServer?.close();
      })());
    },
    explain: (job) => explainJob(database, job, (id) => askLeader(database, id)),
    get healthPort() {
      return healthServer?.port;
    },
    get leads() {
      return running?.leadership().reign() !== undefined;
    },
    get epoch() {
      return running?.leadership().reign()?.epoch ?? null;
    },
  };
}

/** Resolves when the database is there, has a schema that fits, and lets this role schedule; or when `signal` aborts. */
async function reach(database: Database, settings: Settings, signal: AbortSignal): Promise<void> {
  const waiting = startWaiting(`the scheduler ${settings.name}`);
  try {
    for (let failures = 1; !signal.aborted; failures += 1) {
      try {
        await checkSchemaVersion(database, database.schema);
        // nobody leads in epoch 0: it changes nothing, but whoever may not do it may not lead either
        await resign(database, settings.name, 0);
        return;
      } catch (error) {
        if (!isTransient(error)) throw error;
        waiting.failed(error);
        const retryMs = retryPauseMs(failures);
        settings.observe({ type: 'database.error', during: 'start', error, retryMs });
        await delay(retryMs, undefined, { signal }).catch(() => {});
      }
    }
  } finally {
    waiting.done();
  }
}

interface Running {
  readonly leadership: () => Leadership;
  readonly parts: LivenessParts;
  /** A connection broke while nothing was asked on it. */
  readonly serverLost: () => void;
  readonly stop: () => Promise<void>;
}

/** Opens connections of their own, where it is known how. */
type OpenLone = (given: Pick<LoneOptions, 'queryTimeoutMs' | 'onBroken'>) => Lone;

function loneOf(options: SchedulerOptions, schema: string): OpenLone | undefined {
  const { connectionString, applicationName = 'pgqueue scheduler', queryTimeoutMs = 30_000 } = options;
  if (connectionString === undefined) return undefined;
  return (given) =>
    openLone({
      ...given,
      connectionString,
      schema,
      applicationName: `${applicationName} lease`,
      queryTimeoutMs: Math.min(queryTimeoutMs, given.queryTimeoutMs),
    });
}

interface Found {
  readonly connectionString: string | undefined;
  readonly lone: OpenLone | undefined;
  /** The policy of who led last. */
  readonly before: ReportedPolicy | undefined;
}

function run(database: Database, settings: Settings, { connectionString, lone, before }: Found): Running {
  let hearing = false;
  // First of all: the loops below ask it at once, while it calls them only when the database has answered.
  const leadership: Leadership = startLeadership({
    database,
    ...settings,
    session: lone,
    onElected: () => {
      planner.start();
      health.start();
      telling.elected();
      sweeps.elected();
      ticks.wake();
    },
    onLost: () => void Promise.all([planner.stop(), health.stop()]),
  });
  const sweeps: Sweeps = startSweeps({
    database,
    settings,
    ...leadership,
    sessions: lone && createNodeSessions(database, lone),
    onWork: () => ticks.wake(),
  });
  const planner = createPlanner({ ...settings, onPrepared: () => ticks.wake() });
  const health = createHealthWatch({
    database,
    ...settings,
    needed: planner.needs.health === true,
  });
  const telling = startTelling(database, settings, planner);
  const dispatcher = createDispatcher({
    database,
    settings,
    planner,
    beside: (nowMs) => ({ health: health.health(), prepared: planner.prepared(nowMs) }),
    questionsAfter: telling.questionsAfter,
    onServerLost: telling.serverLost,
    hearing: () => hearing,
    onSeen: sweeps.seen,
    onTick: telling.tick,
    onUnknown: ({ epoch }) => leadership.renounce(epoch),
  });
  const ticks: WokenTicks = startTicks({ leadership, dispatcher, settings });
  const listener = listen(database, settings, {
    connectionString,
    onHint: (channel, payload) => {
      hearing = true;
      if (channel === channelName(database.schema, 'leader')) leadership.wake();
      else if (leadership.reign() === undefined) return;
      else if (channel === channelName(database.schema, 'done')) ticks.wakeDone(payload);
      else if (channel === channelName(database.schema, 'queue')) ticks.wakeNew(payload);
      else ticks.wake();
    },
    onSilence: () => {
      hearing = false;
    },
  });

  const others = watchOtherPolicies({
    database,
    policy: settings.policy.name,
    observe: settings.observe,
    leads: () => leadership.reign() !== undefined,
    before,
  });

  return {
    leadership: () => leadership,
    parts: { leadership, ticks, sweeps },
    serverLost: dispatcher.serverLost,
    stop: async () => {
      await others.stop();
      await Promise.all([ticks.stop(), sweeps.stop()]);
      await telling.stop();
      await leadership.stop();
      await listener?.stop();
      await Promise.all([planner.stop(), health.stop(), dispatcher.settled()]);
    },
  };
}

function listen(
  database: Database,
  settings: Settings,
  {
    connectionString,
    onHint,
    onSilence,
  }: {
    readonly connectionString: string | undefined;
    readonly onHint: (channel: string, payload: string) => void;
    readonly onSilence: () => void;
  },
): Listener | undefined {
  if (!settings.listen || connectionString === undefined) return undefined;
  return startListener({
    connectionString,
    channels: (['queue', 'done', 'leader'] as const).map((channel) => channelName(database.schema, channel)),
    onHint,
    onError: (error) => {
      onSilence();
      settings.observe({ type: 'database.error', during: 'listen', error });
    },
    applicationName: 'pgqueue scheduler listener',
  });
}
