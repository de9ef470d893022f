import { PgQueueError } from '@pgqueue/core';
import { within } from '@pgqueue/core/internal';
import type { Database, HealthOptions } from '@pgqueue/postgres';
import type { HealthChecks, HealthServer, Hints, Lease } from '@pgqueue/postgres/internal';
import {
  createHints,
  openDatabase,
  serveHealth,
  tellRuns,
  warnWithoutLeader,
} from '@pgqueue/postgres/internal';
import type { Ahead } from './claim/prefetch.ts';
import { createAhead } from './claim/prefetch.ts';
import type { Attempt, Leased } from './attempt/attempt.ts';
import { isLate } from './lease/timing.ts';
import { Bag } from './lease/bag.ts';
import type { BlockedWatch } from './node/event-loop-watchdog.ts';
import { createBlockedWatch } from './node/event-loop-watchdog.ts';
import { batchOf, createBatch } from './attempt/batch.ts';
import type { Unit } from './lease/unit.ts';
import type { Claimer } from './claim/claim-loop.ts';
import { startClaimer } from './claim/claim-loop.ts';
import { createClaims } from './claim/claims.ts';
import type { NodeSlots } from './claim/node-slots.ts';
import { ownSlots, partIn } from './claim/node-slots.ts';
import type { SharedSlots } from './claim/shared-slots.ts';
import { drain } from './drain.ts';
import { aroundIsolation } from './run/around.ts';
import type { AttemptExecutor } from './run/executor.ts';
import { createExecutor } from './run/executor.ts';
import type { Floating } from './attempt/unhandled-rejections.ts';
import { createFloating } from './attempt/unhandled-rejections.ts';
import { workerChecks } from './health.ts';
import { both } from './lease/held-leases.ts';
import type { Isolation } from './isolation/isolation.ts';
import { createIsolation } from './isolation/isolation.ts';
import type { Membership } from './node/node.ts';
import { createMembership } from './node/node.ts';
import type { WorkerOptions, WorkerSettings } from './options.ts';
import { checkStop, workerSettings } from './options.ts';
import { connectionOptions } from './node-options.ts';
import { createRunTimes } from './claim/run-times.ts';
import type { Settler } from './settle/settler.ts';
import { createSettler } from './settle/settler.ts';
import { SharedMarks } from './node/thread-protocol.ts';
import type { Transactions } from './attempt/transaction/transaction.ts';
import { createTransactions } from './attempt/transaction/transaction.ts';
import type { Worker } from './worker-interface.ts';

const closeMs = 3_000;
/** Longest wait for settlements before a node leaves at once. */
const lastSettleMs = 200;
/** Time beyond `drainMs` after which a stop closes the connections without waiting for its orderly end. */
const orderedMs = 8_000;

/**
 * Creates a worker node; opens no connection before `start`.
 * @throws {PgQueueError} `configuration`, with all that is wrong
 */
export function createWorker(options: WorkerOptions): Worker {
  return new WorkerNode(options);
}

/**
 * Creates a worker node that shares its slots with others of this process.
 * @throws {PgQueueError} `configuration`, with all that is wrong
 */
export function createSharingWorker(options: WorkerOptions, slots: SharedSlots): Worker {
  return new WorkerNode({ ...options, concurrency: slots.size }, { slots });
}

interface NodeParts {
  readonly settings: WorkerSettings;
  readonly membership: Membership;
  readonly executor: AttemptExecutor;
  readonly settler: Settler;
  readonly floating: Floating;
}

/** Parts in place of those of {@link createWorker}. */
interface Otherwise {
  readonly slots?: SharedSlots;
  readonly hints?: Hints;
  /** Longest wait for handlers to end after a shutdown has aborted their signals. Default 1,000. */
  readonly graceMs?: number;
}

export class WorkerNode implements Worker {
  readonly ended: Promise<void>;
  readonly #settings: WorkerSettings;
  readonly #membership: Membership;
  readonly #handlerDatabase: Database;
  readonly #transactions: Transactions;
  readonly #settler: Settler;
  readonly #hints: Hints;
  readonly #queueHints: Hints;
  readonly #executor: AttemptExecutor;
  readonly #attempts = new Bag<Attempt>();
  readonly #ahead: Ahead;
  readonly #blocked: BlockedWatch;
  readonly #floating: Floating;
  readonly #isolation: Isolation;
  readonly #runTimes = createRunTimes();
  readonly #end = Promise.withResolvers<void>();
  readonly #slots: NodeSlots;
  readonly #health: HealthOptions | undefined;
  readonly #checks: HealthChecks;
  readonly #graceMs: number;
  #healthServer: HealthServer | undefined;
  #claimer: Claimer | undefined;
  #running = 0;
  #idle = true;
  #leaderless: { readonly stop: () => void } | undefined;
  #joined: Promise<void> | undefined;
  #hasJoined = false;
  #started: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: WorkerOptions, { slots, hints, graceMs = 1_000 }: Otherwise = {}) {
    this.#graceMs = graceMs;
    this.#slots = slots === undefined ? ownSlots : partIn(slots, () => this.#claimer?.slotFreed(false));
    const settings = workerSettings(options);
    const { observe } = settings;
    const databaseOptions = connectionOptions(options);
    this.#settings = settings;
    this.#isolation = aroundIsolation(settings.around, createIsolation(settings, options.floatingRejections));
    this.ended = this.#end.promise;
    this.ended.catch(() => {}); // callers that do not wait for it learn of a failure by an event
    this.#ahead = createAhead({ slots: settings.concurrency, release: (unit) => this.#release(unit) });
    this.#handlerDatabase = openDatabase({
      applicationName: `pgqueue ${settings.node} handlers`,
      ...databaseOptions,
      connectionsMax: options.connectionsMax ?? 10,
      onError: options.onError ?? ((error) => observe({ type: 'database.error', during: 'idle', error })),
    });
    this.#transactions = createTransactions(this.#handlerDatabase.pool);
    const marks = new SharedMarks();
    const attempts = this.#attempts;
    this.#floating = createFloating(options.floatingRejections ?? 'fail');
    this.#blocked = createBlockedWatch({ settings, marks, attempts });
    this.#membership = createMembership({
      settings,
      databaseOptions,
      holding: both(both(attempts, this.#ahead.holding), {
        size: 0,
        [Symbol.iterator]: () => this.#executor.waiting(),
      }),
      leases: () => this.#leases(),
      hung: () => this.#executor.hung(),
      marks,
      onWork: (released) => this.#claimer?.hint(released),
      onFatal: (error) => this.#fail(error),
    });
    const { database } = this.#membership;
    this.#hints = hints ?? createHints(database, database.schema, 'done');
    this.#queueHints = hints ?? createHints(database, database.schema, 'queue');
    this.#settler = createSettler({
      database,
      observe,
      codec: settings.codec,
      hints: this.#hints,
      onRows: () => (this.#claimer === undefined ? this.#hints.send() : this.#claimer.settled()),
      // The claimer may have waited for the settler.
      onAccepted: () => this.#claimer?.slotFreed(this.running === 0),
    });
    this.#health = options.health;
    this.#checks = workerChecks({
      settings,
      options: options.health ?? { port: 0 },
      membership: this.#membership,
      settler: this.#settler,
      marks,
      claimer: () => this.#claimer,
    });
    this.#executor = createExecutor({
      ...settings,
      attempts,
      blocked: this.#blocked,
      floating: this.#floating,
      database,
      transactions: this.#transactions,
      settler: this.#settler,
      hints: this.#hints,
      queueHints: this.#queueHints,
      isolation: this.#isolation,
      onNext: () => this.#claimer?.hint(true),
      stopping: () => this.#membership.draining.aborted,
      ran: (task, durationMs) => this.#runTimes.add(task, durationMs),
    });
  }

  /** Parts of a node that claims when it is told to. */
  static parts(node: WorkerNode): NodeParts {
    const [settings, membership, floating] = [node.#settings, node.#membership, node.#floating];
    return { settings, membership, floating, executor: node.#executor, settler: node.#settler };
  }

  get node(): string {
    return this.#settings.node;
  }

  get running(): number {
    return this.#running;
  }

  get healthPort(): number | undefined {
    return this.#healthServer?.port;
  }

  start(): Promise<void> {
    if (this.#stopped !== undefined) {
      return Promise.reject(new PgQueueError('configuration', 'this worker was stopped: create another one'));
    }
    return (this.#started ??= this.#start());
  }

  async stop(options: { readonly drainMs?: number } = {}): Promise<void> {
    checkStop(options);
    await (this.#stopped ??= this.#stopInTime(options.drainMs ?? this.#settings.drainMs));
  }

  async leave(): Promise<void> {
    this.#membership.drain();
    await within(lastSettleMs, this.#settler.idle());
    await this.#membership.leaveAtOnce();
  }

  async #start(): Promise<void> {
    const { observe, node, concurrency } = this.#settings;
    const { database, incarnation, ended, tokens, hearing, draining, start } = this.#membership;
    try {
      if (this.#health !== undefined) this.#healthServer = await serveHealth(this.#health, this.#checks);
      if (draining.aborted) return await this.#healthServer?.close();
      this.#joined = start();
      await this.#joined;
      this.#hasJoined = true;
    } catch (error) {
      if (draining.aborted) return;
      await this.stop({ drainMs: 0 });
      throw error;
    }
    if (draining.aborted) return;
    this.#hints.send(); // the node's slots are free
    this.#leaderless = warnWithoutLeader(database, { isIdle: () => this.#idle });
    this.#blocked.start();
    this.#floating.open();
    this.#claimer = startClaimer({
      claims: this.#slots.claims(createClaims({ database, node, incarnation, ended, tokens, observe })),
      starved: (starved) => this.#slots.starved(starved && this.#canTake()),
      slots: concurrency,
      wanted: () => this.#wanted(),
      take: (units, claim) => this.#take(units, claim),
      batch: (unit, size) => createBatch({ database, settler: this.#settler }, unit, size),
      ask: () => this.#hints.send(),
      hearing,
      observe,
    });
  }

  /** Work items that the node can take now, and batches to prefetch beyond them. */
  #wanted(): { readonly free: number; readonly ahead: number } {
    if (!this.#canTake()) return { free: 0, ahead: 0 };
    const idle = Math.max(0, this.#settings.concurrency - this.running);
    return { free: this.#slots.room(idle), ahead: this.#ahead.room() };
  }

  #canTake(): boolean {
    return this.#takes() && !this.#settler.full();
  }

  #release(unit: Unit): void {
    const batch = batchOf(unit);
    return batch === undefined ? this.#settler.release(unit) : this.#settler.releaseRow(batch);
  }

  #takes(): boolean {
    const { incarnation, draining, fenced } = this.#membership;
    return !draining.aborted && incarnation() !== undefined && !fenced();
  }

  #take(
    units: readonly Unit[],
    { claimedAt, ahead }: { readonly claimedAt: number; readonly ahead: number },
  ): void {
    if (this.#membership.draining.aborted) {
      for (const unit of units) this.#release(unit); // claimed while the stop began, and not started
      this.#slots.take(0);
      return;
    }
    const idle = Math.max(0, this.#settings.concurrency - this.running);
    const free = this.#slots.take(Math.min(idle, units.length));
    this.#ahead.saw(units.some((unit) => batchOf(unit) !== undefined && unit[0].bundle === null));
    this.#ahead.put(units.slice(free), { claimedAt, sought: ahead });
    for (const unit of units.slice(0, free)) this.#run(unit, { claimedAt });
  }

  #run(unit: Unit, leased: Leased): void {
    // The claim's reply may have come late: others may have taken the jobs since.
    const beganAt = performance.now();
    if (isLate(unit, leased, beganAt)) {
      this.#slots.unused();
      return this.#release(unit);
    }
    this.#running += 1;
    this.#idle = false;
    const ended = (): void => this.#ended();
    // Frees the slot even if the executor throws.
    this.#executor.run(unit, leased).then(ended, (error: unknown) => {
      this.#settings.observe({ type: 'database.error', during: 'run', error });
      ended();
    });
  }

  #ended(): void {
    const nowMs = performance.now();
    this.#running -= 1;
    this.#tellRuns(nowMs);
    const mayRun = this.#running < this.#settings.concurrency && this.#takes();
    const hasSlot = this.#slots.ended(mayRun && this.#ahead.holding.size > 0);
    const next = hasSlot ? this.#ahead.next(nowMs) : undefined;
    if (next !== undefined) this.#run(next.unit, next.leased);
    this.#claimer?.slotFreed(false); // the lease is held until its settlement was accepted
  }

  /** Reports changed run times; after a failure they are reported another time. */
  #tellRuns(nowMs: number): void {
    const runs = this.#runTimes.news(nowMs);
    const incarnation = this.#membership.incarnation();
    if (runs === undefined || incarnation === undefined) return;
    this.#runTimes.told(runs, nowMs);
    tellRuns(this.#membership.database, { node: this.#settings.node, incarnation }, runs).catch(
      (error: unknown) => {
        this.#runTimes.forget();
        this.#settings.observe({ type: 'database.error', during: 'runs', error });
      },
    );
  }

  *#leases(): Generator<Lease> {
    yield* this.#executor.leases();
    yield* this.#settler.pending();
  }

  #fail(error: unknown): void {
    this.#settings.observe({ type: 'database.error', during: 'register', error });
    this.#end.reject(error);
    void this.stop({ drainMs: 0 });
  }

  async #stopInTime(drainMs: number): Promise<void> {
    const ordered = this.#stop(drainMs);
    if (!(await within(drainMs + orderedMs, ordered))) {
      await Promise.all([this.#membership.close(), this.#handlerDatabase.close()]);
      await within(closeMs, ordered);
    }
    await this.#healthServer?.close(); // until then probes hear that the node is stopping
    this.#end.resolve();
  }

  async #stop(drainMs: number): Promise<void> {
    const { observe, node } = this.#settings;
    this.#membership.drain();
    this.#ahead.close();
    this.#slots.starved(false);
    this.#leaderless?.stop();
    const claimed = this.#claimer?.stop();
    await within(closeMs, this.#joined ?? Promise.resolve());
    if (this.#hasJoined) observe({ type: 'node.draining', node, running: this.running });
    const { database } = this.#membership;
    const parts = { executor: this.#executor, settler: this.#settler, database };
    await drain(parts, { drainMs, graceMs: this.#graceMs });
    await within(closeMs, Promise.resolve(claimed));
    await within(closeMs, this.#settler.idle()); // the last claim may have been given back
    await this.#isolation.close();
    await Promise.all([this.#hints.stop(), this.#queueHints.stop()]);
    this.#transactions.destroy();
    this.#blocked.stop();
    await Promise.all([this.#membership.leave(), this.#handlerDatabase.close()]);
  }
}
