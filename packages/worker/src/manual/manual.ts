/**
 * A worker node without its claim loop, for tests and for tools that pace it themselves. Jobs run and settle
 * by the same code as in {@link createWorker}; only the caller decides when to claim.
 */
import { PgQueueError } from '@pgqueue/core';
import { within } from '@pgqueue/core/internal';
import { openDatabase } from '@pgqueue/postgres/internal';
import type { Attempt } from '../attempt/attempt.ts';
import { Bag } from '../lease/bag.ts';
import { createBlockedWatch } from '../node/event-loop-watchdog.ts';
import { unitsOf } from '../lease/unit.ts';
import { createClaims } from '../claim/claims.ts';
import { drain } from '../drain.ts';
import { aroundIsolation } from '../run/around.ts';
import { createExecutor } from '../run/executor.ts';
import { createFloating } from '../attempt/unhandled-rejections.ts';
import { createIsolation } from '../isolation/isolation.ts';
import { createMembership } from '../node/node.ts';
import type { WorkerOptions } from '../options.ts';
import { workerSettings } from '../options.ts';
import { connectionOptions } from '../node-options.ts';
import { createSettler, noHints } from '../settle/settler.ts';
import { SharedMarks } from '../node/thread-protocol.ts';
import { createTransactions } from '../attempt/transaction/transaction.ts';

export type { LoneAttempt, LoneAttemptOptions } from './run-attempt.ts';
export { runAttempt } from './run-attempt.ts';
export { sleepsUntilMs } from '../durable/memo.ts';

/** A node that claims when it is told to. Made by {@link createWorkerSteps}. */
export interface WorkerSteps {
  readonly node: string;
  /**
   * Registers the node and starts its heartbeat.
   * @throws {PgQueueError} `schema_version`, `node_id_in_use`
   */
  readonly begin: () => Promise<void>;
  /**
   * Claims up to `max` ready jobs, but no more than `concurrency` handlers would take, runs them, and settles
   * them. Resolves to the number of claimed jobs, once their handlers have returned and the database has
   * answered.
   * @throws {PgQueueError} `node_ended`, and the errors of the claim
   */
  readonly run: (max?: number) => Promise<number>;
  /** Aborts running handlers, gives their jobs back, and leaves. May be called again. */
  readonly end: () => Promise<void>;
}

/**
 * Creates a node; opens no connection yet. The node does not LISTEN, and sends heartbeats from the event
 * loop.
 * @throws {PgQueueError} `configuration`
 */
export function createWorkerSteps(options: WorkerOptions): WorkerSteps {
  const stepped = { ...options, listen: false, heartbeatThread: false, blockedMs: 0 };
  const settings = workerSettings(stepped);
  const { observe, handlers, logger, node, codec } = settings;
  const databaseOptions = connectionOptions(stepped);
  const onError = (error: Error): void => observe({ type: 'database.error', during: 'idle', error });
  const connectionsMax = options.connectionsMax ?? 10;
  const forHandlers = openDatabase({
    applicationName: `pgqueue ${node} handlers`,
    ...databaseOptions,
    connectionsMax,
    onError,
  });
  const transactions = createTransactions(forHandlers.pool);
  const attempts = new Bag<Attempt>();
  const marks = new SharedMarks();
  const isolation = aroundIsolation(settings.around, createIsolation(settings, options.floatingRejections));
  const floating = createFloating(options.floatingRejections ?? 'fail');
  const membership = createMembership({
    settings,
    databaseOptions,
    holding: attempts,
    leases: () => [...executor.leases(), ...settler.pending()],
    marks,
    onWork: () => {},
    onFatal: (error) => observe({ type: 'database.error', during: 'register', error }),
  });
  const { database, incarnation, ended, tokens } = membership;
  const settler = createSettler({ database, observe, hints: noHints, onAccepted: () => {} });
  const blocked = createBlockedWatch({ settings, marks, attempts });
  const common = {
    database,
    transactions,
    codec,
    logger,
    observe,
    handlers,
    settler,
    hints: noHints,
    queueHints: noHints,
    isolation,
  };
  const executor = createExecutor({ ...common, attempts, blocked, floating, onNext: () => {} });
  const claims = createClaims({ database, node, incarnation, ended, tokens, observe });
  let ending: Promise<void> | undefined;

  const end = async (): Promise<void> => {
    membership.drain();
    await drain({ executor, settler, database }, { drainMs: 0, graceMs });
    await within(closeMs, isolation.close());
    transactions.destroy();
    await Promise.all([membership.leave(), forHandlers.close()]);
  };
  return {
    node,
    begin: async () => {
      if (ending !== undefined) throw new PgQueueError('configuration', 'this node has ended: make another');
      await membership.start();
      floating.open();
    },
    run: async (max = settings.slots) => {
      const wanted = { max: Math.min(max, settings.slots), ahead: null, from: 0, whole: true };
      const { rows, claimedAt } = await claims(wanted);
      const jobs = rows.flatMap((row) => row.jobs);
      await Promise.all(unitsOf(jobs).map((unit) => executor.run(unit, { claimedAt })));
      await settler.idle();
      return jobs.length;
    },
    end: () => (ending ??= end()),
  };
}

const closeMs = 3_000;
/** Short, since it delays the error of a test: handlers that heed their signal end at once. */
const graceMs = 100;
