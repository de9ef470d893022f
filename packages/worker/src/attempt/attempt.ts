import { AbortedError, marginMs } from '../lease/timing.ts';
import type { AbortReason } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import type { AttemptSpan } from '@pgqueue/telemetry/internal';
import { Alarm } from '../lease/alarm.ts';
import { Memo } from '../durable/memo.ts';
import type { Suspended } from '../durable/suspended.ts';
import type { Bagged } from '../lease/bag.ts';

import type { Rejections } from './unhandled-rejections.ts';
import type { Unit } from '../lease/unit.ts';
import type { Held } from '../lease/held-leases.ts';
import type { Ended, Told } from '../lease/ended.ts';
import type { RowLease } from '@pgqueue/postgres/internal';

export interface Leased {
  /**
   * When the claim was sent, by the node's monotonic clock; the lease cannot have begun earlier. For the jobs
   * of a batch that run one after another: when the job begins.
   */
  readonly claimedAt: number;
  /** Milliseconds that the job waited for a slot after the claim's reply. Default 0. */
  readonly waitedMs?: number;
  /** Batch under whose lease the job runs; undefined: the job has a row of its own. */
  readonly batch?: Batch | undefined;
}

/** Attempts of a batch arm their own timer from the start if their lease is shorter than this. */
const batchAlarmMs = 1_000;

/** A transaction of a handler, or a wait that suspends its job. `ended`: resolves when it has. */
export interface OpenTransaction {
  readonly by: 'ctx.transaction' | 'ctx.settleIn' | 'ctx.sleep' | 'ctx.all' | 'ctx.waitForSignal';
  readonly ended: Promise<void>;
}

export interface AttemptEvents {
  /** Called shortly before the lease ends. */
  readonly timeout: (attempt: Attempt) => void;
  readonly over: () => void;
  /** Called when the attempt's signal aborts. */
  readonly aborted?: () => void;
  /** Called when a rejection of the handler went unhandled. `counted`: the attempt was not over yet. */
  readonly floated?: (
    attempt: Attempt,
    rejection: { readonly error: unknown; readonly counted: boolean },
  ) => void;
  /** Called when the outcome of the settlement is known. */
  readonly settled?: (attempt: Attempt, end: { readonly settled: Told; readonly durationMs: number }) => void;
}

/**
 * One lease under which a handler runs. The attempt is `running` until it is over, which happens once:
 * settled, lost, timed out or given back. While a handler's own transaction settles it, the attempt is
 * `committing`: neither its timeout nor a shutdown ends it then. The handler may keep running after the
 * attempt is over.
 */
export class Attempt implements Held, Bagged, Rejections {
  readonly job: ClaimedJob;
  place = -1;
  readonly startedAt: number;
  readonly waitedMs: number;
  readonly batch: Batch | undefined;
  /** Tracing span; undefined: tracing is off, or the span has not been opened. */
  span: AttemptSpan | undefined;
  /**
   * True once a transaction of the handler has settled the job as done. Nothing that the handler does later
   * changes that.
   */
  committed = false;
  /** Set once the job waits without a slot; the attempt is over. */
  suspended: Suspended | undefined;
  /** Error of a handler that ended before a transaction of its own, which then can't settle the job. */
  leftOpen: Error | undefined;
  #memo: Memo | undefined;
  #alarm: Alarm | undefined;
  readonly #on: AttemptEvents;
  #phase: 'running' | 'committing' | 'over' = 'running';
  #aborted: AbortedError | undefined;
  #controller: AbortController | undefined;
  #endsAt: number;
  #timeoutMs: number;
  #floating: Map<unknown, unknown> | undefined;
  #open: Set<OpenTransaction> | undefined;

  constructor(job: ClaimedJob, { claimedAt, waitedMs = 0, batch }: Leased, on: AttemptEvents) {
    this.job = job;
    this.startedAt = batch === undefined ? performance.now() : claimedAt;
    this.batch = batch;
    this.waitedMs = waitedMs;
    this.#on = on;
    this.#timeoutMs = job.leaseMs;
    this.#endsAt = claimedAt + job.leaseMs;
    // A timer for each job would cost a short job a tenth of its time. The runner of the batch arms one for
    // jobs that take long (`outlasts`).
    if (batch === undefined || job.leaseMs < batchAlarmMs) this.#arm(this.startedAt);
  }

  get lease(): ClaimedJob {
    return this.job;
  }

  /** Steps that the job keeps, and its checkpoint. */
  get memo(): Memo {
    return (this.#memo ??= new Memo(this.job.checkpoint ?? null));
  }

  get task(): string {
    return this.job.task;
  }

  get live(): boolean {
    return this.#phase === 'running';
  }

  get over(): boolean {
    return this.#phase === 'over';
  }

  /** True while the handler's own transaction has settled the job and not yet ended. */
  get committing(): boolean {
    return this.#phase === 'committing';
  }

  /** Milliseconds that this attempt may take: the length of its lease, or of the last extension. */
  get timeoutMs(): number {
    return this.#timeoutMs;
  }

  /** When the lease ends, by the node's monotonic clock. */
  get endsAt(): number {
    return this.#endsAt;
  }

  /** Reason of the abort; undefined: the signal has not aborted. */
  get aborted(): AbortReason | undefined {
    return this.#aborted?.code;
  }

  /** A transaction of the handler that has not ended; undefined: there is none. */
  get open(): OpenTransaction | undefined {
    return this.#open?.values().next().value;
  }

  /** Errors of the handler's unhandled rejections, by promise, or by its number in another process. */
  get floating(): Map<unknown, unknown> {
    return (this.#floating ??= new Map());
  }

  /** True while the handler has unhandled rejections. */
  get floats(): boolean {
    return this.#floating !== undefined && this.#floating.size > 0;
  }

  /** Abort signal, created on first access: most handlers never read it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted);
    }
    return this.#controller.signal;
  }

  /**
   * Aborts the handler's signal. The first reason counts. `lease_lost` also ends the attempt: there is
   * nothing left to settle.
   */
  abort(reason: AbortReason): void {
    if (reason === 'lease_lost') this.finish();
    if (this.#aborted !== undefined) return;
    this.#aborted = new AbortedError(reason);
    this.#controller?.abort(this.#aborted);
    this.#on.aborted?.();
  }

  /** Arms the attempt's own timeout, when its batch takes longer than it should. */
  outlasts(): void {
    if (this.#phase === 'running') this.#arm();
  }

  /** Records an extension of the lease by `ms`, requested at `sentAt`. */
  extended(sentAt: number, ms: number): void {
    this.#timeoutMs = ms;
    this.#endsAt = sentAt + ms;
    if (this.#phase === 'running') this.#arm();
  }

  /** Ends the attempt. True once: that caller reports how the attempt ended. */
  finish(): boolean {
    if (this.#phase === 'over') return false;
    this.#phase = 'over';
    this.#alarm?.clear();
    // Frees the payload: a settlement may wait for minutes, with many others, and must not keep it in memory.
    (this.job as { payload: unknown }).payload = null;
    this.#on.over();
    return true;
  }

  /**
   * Marks the attempt as being settled by the handler's own transaction. False: the attempt is not running.
   */
  beginCommit(): boolean {
    if (this.#phase !== 'running') return false;
    this.#phase = 'committing';
    this.#alarm?.clear();
    return true;
  }

  /** Resumes the attempt after that transaction was rolled back. */
  abandonCommit(): void {
    if (this.#phase !== 'committing') return;
    this.#phase = 'running';
    this.#arm();
  }

  /** Records a transaction of the handler, until it has ended. */
  opened(transaction: OpenTransaction): void {
    (this.#open ??= new Set()).add(transaction);
  }

  closed(transaction: OpenTransaction): void {
    this.#open?.delete(transaction);
  }

  /** Records a rejection that the handler left unhandled. */
  rejected(promise: unknown, error: unknown): void {
    if (error === this.leftOpen) return; // the attempt ends with it
    const counted = this.#phase !== 'over';
    if (counted) this.floating.set(promise, error);
    this.#on.floated?.(this, { error, counted });
  }

  /** Removes a rejection that was handled after all. */
  handled(promise: unknown): void {
    this.#floating?.delete(promise);
  }

  /** Passes on the outcome of the settlement. */
  settled(settled: Told, durationMs: number): void {
    this.#on.settled?.(this, { settled, durationMs });
  }

  #arm(nowMs: number = performance.now()): void {
    this.#alarm ??= new Alarm(() => {
      if (this.#phase === 'running') this.#on.timeout(this);
    });
    this.#alarm.set(this.#endsAt - nowMs - marginMs(this.#timeoutMs));
  }
}

/**
 * Jobs of one work item. One slot runs them one after another, or one handler call runs them as a bundle.
 * While every job ends as done they are leased and settled as one, and the database hears nothing of a single
 * job. A job that needs a state of its own (it is extended, cancelled, given back, or takes long) has the
 * batch taken apart: from then on each of its jobs has a row of its own, under the same token.
 */
export interface Batch {
  readonly lease: RowLease;
  readonly jobs: Unit;
  /**
   * Records that a job is done. `end`: its run time in milliseconds, and its result as JSON; null: no result.
   */
  readonly done: (attempt: Attempt, end: Done) => void;
  /** Records that a job has ended in any other way. */
  readonly ended: (ended: Ended) => void;
  /** Gives back a job that did not run to its end. */
  readonly release: (job: ClaimedJob) => void;
  /** Takes the batch apart. Resolves when each job has a row of its own. */
  readonly apart: () => Promise<void>;
  /** Gives back the jobs that have not begun, since the running job takes long; they will not begin here. */
  readonly outlasted: () => void;
  /** Decides about a job that has not begun: run it, leave it to others, cancel it, or give it back. */
  readonly fate: (job: ClaimedJob) => Fate;
  /** Jobs that have not begun, as leases that this node holds. */
  readonly waiting: () => Iterable<Held>;
  readonly begun: (job: ClaimedJob) => void;
  /** Call when no other job of the batch will begin. */
  readonly through: () => void;
}

export interface Done {
  readonly busyMs: number;
  readonly data: string | null;
}

/** `back`: the node has fenced itself, and gives the job back. */
export type Fate = 'runs' | 'lost' | 'cancelled' | 'back';
