import { PgQueueError } from '@pgqueue/core';
import { within } from '@pgqueue/core/internal';
import type { Database, JobExplanation } from '@pgqueue/postgres';
import type { HealthServer, Listener, Lone, LoneOptions } from '@pgqueue/postgres/internal';
import {
  askLeader,
  channelName,
  checkSchemaVersion,
  explainJob,
  openDatabase,
  openLone,
  reach,
  readNumbers,
  resign,
  serveHealth,
  shareReading,
  startListener,
} from '@pgqueue/postgres/internal';
import { createDispatcher } from './tick/tick.ts';
import { createHealthWatch } from './reporting/database-health.ts';
import type { LivenessParts } from './reporting/health-checks.ts';
import { schedulerChecks } from './reporting/health-checks.ts';
import type { Election } from './leadership/election.ts';
import { startElection } from './leadership/election.ts';
import { createNodeSessions } from './sweeps/node-sessions.ts';
import type { SchedulerOptions, Settings } from './options.ts';
import { toSettings } from './options.ts';
import { watchOtherPolicies } from './leadership/policy-mismatch.ts';
import { createPlanner } from './policy/planner.ts';
import type { Sweeps } from './sweeps/sweeps.ts';
import { startSweeps } from './sweeps/sweeps.ts';
import { startFlowLoop } from './flows/flow-loop.ts';
import type { FlowLoop } from './flows/flow-loop.ts';
import { startReporting } from './reporting/reporting.ts';
import type { WokenTicks } from './tick/tick-loop.ts';
import { startTicks } from './tick/tick-loop.ts';

/** A scheduler, made by {@link createScheduler}. It leads, or stands by until the leader is gone. */
export interface Scheduler {
  /**
   * Checks the schema version, then runs as leader or standby until stopped. While the database is
   * unreachable, the scheduler reports `database.error` and retries.
   * @throws {PgQueueError} `schema_version`, `configuration` (the health check port is taken, or the
   * scheduler was stopped); permanent database errors are passed on (a wrong password, a missing privilege)
   */
  readonly start: () => Promise<void>;
  /**
   * Finishes the current tick, resigns so that a standby takes over at once, and closes all connections.
   * Resolves within 20 s, whatever the database does.
   */
  readonly stop: () => Promise<void>;
  /**
   * Explains why a job is not running, or what it is doing. Asks the current leader, as `operator.explain`
   * does.
   * @throws {PgQueueError} `not_found`
   */
  readonly explain: (job: string) => Promise<JobExplanation>;
  /** Port of the health check server, from `start` on; undefined if there is none. */
  readonly healthPort: number | undefined;
  readonly leads: boolean;
  /** Epoch of the current term; null on standby. */
  readonly epoch: number | null;
}

const stopMs = 5_000;

/** Creates a scheduler without opening a connection. @throws {PgQueueError} `configuration` */
export function createScheduler(options: SchedulerOptions): Scheduler {
  const settings = toSettings(options);
  const database = openDatabase({
    applicationName: 'pgqueue scheduler',
    connectionsMax: 4,
    // LISTEN needs a direct connection, and a direct connection supports prepared statements
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
  let running: Engine | undefined;
  let healthServer: HealthServer | undefined;
  let starting: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;

  const checks = schedulerChecks(settings, options.health ?? { port: 0 }, () => running?.parts);

  const start = async (): Promise<void> => {
    if (options.health !== undefined) healthServer = await serveHealth(options.health, checks);
    const first = async (): Promise<void> => {
      await checkSchemaVersion(database, database.schema);
      // nobody leads in epoch 0, so this changes nothing, but a role that may not resign may not lead either
      await resign(database, settings.name, 0);
    };
    await reach(`the scheduler ${settings.name}`, first, { ...settings, signal: stopping.signal });
    if (!stopping.signal.aborted)
      running = run(database, settings, {
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
        // closing the connections makes whatever is still pending fail
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
      return running?.election().term() !== undefined;
    },
    get epoch() {
      return running?.election().term()?.epoch ?? null;
    },
  };
}

/** Loops and sweeps of a scheduler that has reached its database. */
interface Engine {
  readonly election: () => Election;
  readonly parts: LivenessParts;
  /** Call when an idle connection broke. */
  readonly serverLost: () => void;
  readonly stop: () => Promise<void>;
}

/** Opens a dedicated connection outside the pool. Undefined without a connection string. */
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
}

function run(database: Database, settings: Settings, { connectionString, lone }: Found): Engine {
  let listener: Listener | undefined;
  // first, since the loops below read it at once; its callbacks run only after the database answered
  const election: Election = startElection({
    database,
    ...settings,
    session: lone,
    onElected: () => {
      planner.start();
      health.start();
      reporting.elected();
      sweeps.elected();
      flows.elected();
      ticks.wake();
    },
    onLost: () => void Promise.all([planner.stop(), health.stop()]),
  });
  const sweeps: Sweeps = startSweeps({
    database,
    settings,
    ...election,
    sessions: lone && createNodeSessions(database, lone),
    onWork: () => ticks.wake(),
  });
  const flows: FlowLoop = startFlowLoop({ database, settings, ...election, onWork: () => ticks.wake() });
  const planner = createPlanner({ ...settings, term: election.term, onPrepared: () => ticks.wake() });
  const health = createHealthWatch({ database, ...settings, needed: planner.needs.health === true });
  const reporting = startReporting(database, settings, planner);
  const dispatcher = createDispatcher({
    database,
    settings,
    planner,
    beside: (nowMs) => ({ health: health.health(), prepared: planner.prepared(nowMs) }),
    questionsAfter: reporting.questionsAfter,
    onServerLost: reporting.serverLost,
    hearing: () => listener?.hearing() ?? false,
    onSeen: ({ state, due, tallies }) => {
      sweeps.seen(state, due);
      flows.seen(tallies);
    },
    onTick: reporting.tick,
    onUnknown: ({ epoch }) => election.stepDown(epoch),
  });
  const ticks: WokenTicks = startTicks({ election, dispatcher, settings });
  listener = listen(database, settings, {
    connectionString,
    onHint: (channel, payload) =>
      routeHint({ schema: database.schema, election, ticks, flows }, channel, payload),
  });

  const others = watchOtherPolicies({
    database,
    policy: settings.policy,
    name: election.name,
    observe: settings.observe,
    leads: () => election.term() !== undefined,
  });

  return {
    election: () => election,
    parts: { election, ticks, sweeps, flows },
    serverLost: dispatcher.serverLost,
    stop: async () => {
      await Promise.all([ticks.stop(), sweeps.stop(), flows.stop()]);
      await reporting.stop();
      await election.stop();
      await others.stop();
      await listener?.stop();
      await Promise.all([planner.stop(), health.stop(), dispatcher.settled()]);
    },
  };
}

/** Wakes the loop that a hint concerns. A standby only listens for the leader's resignation. */
function routeHint(
  {
    schema,
    election,
    ticks,
    flows,
  }: {
    readonly schema: string;
    readonly election: Election;
    readonly ticks: WokenTicks;
    readonly flows: FlowLoop;
  },
  channel: string,
  payload: string,
): void {
  if (channel === channelName(schema, 'leader')) election.wake();
  else if (election.term() === undefined) return;
  else if (channel === channelName(schema, 'flow')) {
    // ids: flows that this leader has ended
    if (payload === '') flows.wake();
  } else if (channel === channelName(schema, 'queue')) ticks.wakeNew(payload);
  else if (channel === channelName(schema, 'done')) {
    flows.jobsEnded();
    ticks.wakeDone(payload);
  } else ticks.wake();
}

function listen(
  database: Database,
  settings: Settings,
  {
    connectionString,
    onHint,
  }: {
    readonly connectionString: string | undefined;
    readonly onHint: (channel: string, payload: string) => void;
  },
): Listener | undefined {
  if (!settings.listen || connectionString === undefined) return undefined;
  return startListener({
    connectionString,
    channels: (['queue', 'done', 'flow', 'leader'] as const).map((channel) =>
      channelName(database.schema, channel),
    ),
    onHint,
    onError: (error) => settings.observe({ type: 'database.error', during: 'listen', error }),
    applicationName: 'pgqueue scheduler listener',
  });
}
