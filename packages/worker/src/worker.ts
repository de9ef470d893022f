import { setTimeout as delay } from 'node:timers/promises';
import type { ClaimedJob, Loop, Observer } from '@pgqueue/core';
import { allObservers, PgQueueError, retryPauseMs } from '@pgqueue/core';
import type { Database, Hints, Listener } from '@pgqueue/postgres';
import {
  channelName,
  checkSchemaVersion,
  createHints,
  isTransient,
  leaveNode,
  openDatabase,
  startListener,
} from '@pgqueue/postgres';
import pLimit from 'p-limit';
import type { LimitFunction } from 'p-limit';
import type { Attempts } from './attempts.ts';
import { createAttempts } from './attempts.ts';
import type { Claimer } from './claimer.ts';
import { startClaimer } from './claimer.ts';
import { createExecutor } from './executor.ts';
import { startHeartbeat } from './heartbeat.ts';
import type { WorkerOptions, WorkerSettings } from './options.ts';
import { workerSettings } from './options.ts';
import { register } from './registry.ts';
import type { Settler } from './settler.ts';
import { createSettler } from './settler.ts';

/** One worker node. */
export interface Worker {
  readonly node: string;
  /** Jobs whose attempt is not over. */
  readonly running: number;
  /**
   * Registers the node and begins to claim. A database that can't be reached is tried again until `stop`.
   * @throws {PgQueueError} `schema_version`, `node_id_in_use`
   */
  start(): Promise<void>;
  /**
   * Ends in order: claims no more, waits for running handlers up to `drainMs`, aborts the signals of the others, gives back
   * what did not end (uncounted), and leaves. May be called again, and at any time.
   */
  stop(options?: { readonly drainMs?: number }): Promise<void>;
}

/** How long handlers may take to end after their signal aborted because of a shutdown. */
const shutdownGraceMs = 1_000;

/** A worker node; opens no connection before `start`. @throws {PgQueueError} `configuration`, with all that is wrong */
export function createWorker(options: WorkerOptions): Worker {
  return new WorkerNode(options);
}

class WorkerNode implements Worker {
  readonly #settings: WorkerSettings;
  readonly #observe: Observer;
  readonly #control: Database;
  readonly #handlers: Database;
  readonly #attempts: Attempts;
  readonly #settler: Settler;
  readonly #done: Hints;
  readonly #slots: LimitFunction;
  readonly #execute: (job: ClaimedJob, claimedAt: number) => Promise<void>;
  readonly #stopping = new AbortController();
  readonly #connectionString: string | undefined;
  #incarnation = '';
  #claimer: Claimer | undefined;
  #heartbeat: Loop | undefined;
  #listener: Listener | undefined;
  #reborn: Promise<void> | undefined;
  #started: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: WorkerOptions) {
    this.#settings = workerSettings(options);
    this.#observe = allObservers(options.observe);
    this.#connectionString = options.connectionString;
    const { concurrency } = this.#settings;
    const onError = (error: Error): void => this.#observe({ type: 'database.error', during: 'idle', error });
    const { tasks: _tasks, pool: _pool, ...database } = options;
    const common = { applicationName: `pgqueue worker ${this.#settings.node}`, onError, ...database };
    // leases have connections of their own: handlers that hold all of theirs cannot starve them
    this.#control = openDatabase({ ...common, connectionsMax: 4 });
    this.#handlers = openDatabase({
      ...common,
      connectionsMax: options.connectionsMax ?? Math.min(concurrency, 20),
    });
    this.#attempts = createAttempts(this.#observe);
    this.#done = createHints(this.#control, this.#control.schema, 'done');
    this.#settler = createSettler(this.#control, this.#observe, this.#done.send);
    this.#slots = pLimit(concurrency);
    this.#execute = createExecutor({
      control: this.#control,
      handlers: () => this.#handlers,
      attempts: this.#attempts,
      logger: options.logger,
      settings: this.#settings,
      settler: this.#settler,
      observe: this.#observe,
    });
  }

  get node(): string {
    return this.#settings.node;
  }

  get running(): number {
    return this.#attempts.size();
  }

  start(): Promise<void> {
    if (this.#stopped !== undefined) {
      return Promise.reject(new PgQueueError('configuration', 'this worker was stopped: create another one'));
    }
    this.#started ??= this.#start();
    return this.#started;
  }

  stop({ drainMs = this.#settings.drainMs }: { readonly drainMs?: number } = {}): Promise<void> {
    this.#stopped ??= this.#stop(drainMs);
    return this.#stopped;
  }

  async #start(): Promise<void> {
    try {
      await this.#persistently('start', () => checkSchemaVersion(this.#control, this.#control.schema));
      await this.#register();
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      await this.stop({ drainMs: 0 });
      throw error;
    }
    if (this.#stopping.signal.aborted) return;
    const { node, heartbeatMs, lostAfterMs, listen } = this.#settings;
    this.#heartbeat = startHeartbeat({
      database: this.#control,
      node,
      heartbeatMs,
      lostAfterMs,
      incarnation: () => this.#incarnation,
      draining: () => this.#stopping.signal.aborted,
      leases: this.#attempts.leases,
      onCancelled: this.#attempts.cancel,
      onLost: (id) => this.#attempts.lose(id, 'heartbeat'),
      onEnded: () => this.#rebirth(),
      onSilent: this.#attempts.loseAll,
      observe: this.#observe,
    });
    this.#claimer = startClaimer({
      database: this.#control,
      node,
      incarnation: () => this.#incarnation,
      freeSlots: () => this.#freeSlots(),
      run: (jobs, claimedAt) => this.#run(jobs, claimedAt),
      onEnded: () => this.#rebirth(),
      listening: listen,
      observe: this.#observe,
    });
    if (listen) this.#listen();
  }

  #freeSlots(): number {
    if (this.#stopping.signal.aborted) return 0;
    return this.#settings.concurrency - this.#slots.activeCount - this.#slots.pendingCount;
  }

  #run(jobs: readonly ClaimedJob[], claimedAt: number): void {
    for (const job of jobs) {
      void this.#slots(() => this.#execute(job, claimedAt)).then(() => this.#claimer?.slotFreed());
    }
  }

  async #register(): Promise<void> {
    const { node, nodeTasks: tasks, concurrency: slots, pool, heartbeatMs, lostAfterMs } = this.#settings;
    const registration = {
      node,
      tasks,
      slots,
      pool,
      heartbeatMs,
      lostAfterMs,
      observe: this.#observe,
      database: this.#control,
    };
    this.#incarnation = await this.#persistently('register', () =>
      register(registration, this.#stopping.signal),
    );
  }

  /** This incarnation was ended by others: what it held is theirs. Begins another one. */
  #rebirth(): Promise<void> {
    this.#reborn ??= (async (): Promise<void> => {
      this.#attempts.loseAll();
      if (!this.#stopping.signal.aborted) await this.#register();
    })().finally(() => {
      this.#reborn = undefined;
    });
    return this.#reborn;
  }

  #listen(): void {
    const { schema } = this.#control;
    const work = channelName(schema, 'work');
    const cancelled = channelName(schema, 'cancel');
    this.#listener = startListener({
      connectionString: this.#connectionString ?? '',
      applicationName: `pgqueue worker ${this.node}`,
      channels: [work, cancelled],
      onHint: (channel, pool) => {
        if (channel === cancelled) this.#heartbeat?.wake();
        else if (pool === '' || pool === this.#settings.pool) this.#claimer?.hint(pool === '');
      },
      onError: (error) => this.#observe({ type: 'database.error', during: 'listen', error }),
    });
  }

  /** Repeats what met a transient error, until it works or the worker is stopped. */
  async #persistently<Result>(during: string, work: () => Promise<Result>): Promise<Result> {
    for (let failures = 1; ; failures += 1) {
      try {
        return await work();
      } catch (error) {
        if (!isTransient(error) || this.#stopping.signal.aborted) throw error;
        const retryMs = retryPauseMs(failures);
        this.#observe({ type: 'database.error', during, error, retryMs });
        await delay(retryMs, undefined, { signal: this.#stopping.signal }).catch(() => {});
      }
    }
  }

  async #stop(drainMs: number): Promise<void> {
    this.#stopping.abort();
    if (this.#claimer !== undefined) await this.#claimer.stop();
    this.#observe({ type: 'node.draining', node: this.node, running: this.running });
    this.#heartbeat?.wake(); // tells the scheduler that these slots are gone
    await within(drainMs, this.#attempts.drained());
    if (this.running > 0) {
      this.#attempts.abortAll('shutdown');
      await within(shutdownGraceMs, this.#attempts.drained());
    }
    this.#settler.abandon();
    await this.#heartbeat?.stop();
    await this.#listener?.stop();
    if (this.#incarnation !== '') {
      await leaveNode(this.#control, this.node, this.#incarnation).catch((error: unknown) => {
        this.#observe({ type: 'database.error', during: 'leave', error });
      });
    }
    await this.#done.stop();
    await Promise.all([this.#control.close(), this.#handlers.close()]);
  }
}

async function within(ms: number, promise: Promise<void>): Promise<void> {
  const over = new AbortController();
  await Promise.race([promise, delay(ms, undefined, { signal: over.signal }).catch(() => {})]);
  over.abort();
}
