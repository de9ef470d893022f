import { AbortedError, marginMs } from '../lease/timing.ts';
import type { AbortReason, ClaimedJob } from '@pgqueue/core';
import type { AttemptSpan } from '@pgqueue/telemetry';
import type { Alarm } from '../lease/alarm.ts';
import { createAlarm } from '../lease/alarm.ts';
import type { Bagged } from '../lease/bag.ts';

import type { Unit } from '../lease/unit.ts';
import type { Held } from '../lease/held-leases.ts';
import type { Ended, Told } from '../lease/ended.ts';
import type { RowLease } from '@pgqueue/postgres';

export interface Leased {
  /** When the claim was sent, by the node's monotonic clock: the lease can't have begun before. Of a batch, when the job begins. */
  readonly claimedAt: number;
  /** How long it has waited for a slot since its claim came back. Default 0. */
  readonly waitedMs?: number;
  /** The batch that it is leased with; undefined: it has a row of its own. */
  readonly batch?: Batch | undefined;
}

/** Attempts of a batch with a shorter lease have a timer of their own from the start. */
const batchAlarmMs = 1_000;

export interface AttemptEvents {
  /** Its lease is about to end. */
  readonly timeout: (attempt: Attempt) => void;
  readonly over: () => void;
  /** Its signal aborts. */
  readonly aborted?: () => void;
  /** Its handler has let a rejection go that nobody handled; `counted`: the attempt is not over. */
  readonly floated?: (
    attempt: Attempt,
    rejection: { readonly error: unknown; readonly counted: boolean },
  ) => void;
  /** The database has said what became of it. */
  readonly settled?: (attempt: Attempt, end: { readonly settled: Told; readonly durationMs: number }) => void;
}

/**
 * One lease under which a handler runs. `running` until it is over, once: settled, lost, timed out or given back. While a
 * handler's own transaction settles it, it is `committing`, and nobody else ends it. The handler may run on after it is over.
 */
export class Attempt implements Held, Bagged {
  readonly job: ClaimedJob;
  place = -1;
  readonly startedAt: number;
  readonly waitedMs: number;
  readonly batch: Batch | undefined;
  /** Undefined: nobody traces, or it has not been opened. */
  span: AttemptSpan | undefined;
  /** A transaction of its handler has settled it as done: whatever the handler does later changes nothing of that. */
  committed = false;
  #alarm: Alarm | undefined;
  readonly #on: AttemptEvents;
  #phase: 'running' | 'committing' | 'over' = 'running';
  #aborted: AbortedError | undefined;
  #controller: AbortController | undefined;
  #endsAt: number;
  #timeoutMs: number;
  #floating: Map<Promise<unknown>, unknown> | undefined;

  constructor(job: ClaimedJob, { claimedAt, waitedMs = 0, batch }: Leased, on: AttemptEvents) {
    this.job = job;
    this.startedAt = batch === undefined ? performance.now() : claimedAt;
    this.batch = batch;
    this.waitedMs = waitedMs;
    this.#on = on;
    this.#timeoutMs = job.leaseMs;
    this.#endsAt = claimedAt + job.leaseMs;
    // a timer a job would cost a short one a tenth of its time: whoever runs its batch sees to those that take longer
    if (batch === undefined || job.leaseMs < batchAlarmMs) this.#arm(this.startedAt);
  }

  get lease(): ClaimedJob {
    return this.job;
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

  /** How long this attempt may take: what it was leased for, or last extended by. */
  get timeoutMs(): number {
    return this.#timeoutMs;
  }

  /** When its lease ends, by the node's monotonic clock. */
  get endsAt(): number {
    return this.#endsAt;
  }

  /** Why its signal aborted. */
  get aborted(): AbortReason | undefined {
    return this.#aborted?.code;
  }

  /** Rejections that its handler has let go, and nobody has handled, by their promises. */
  get floating(): Map<Promise<unknown>, unknown> {
    return (this.#floating ??= new Map());
  }

  /** Whether there are any. */
  get floats(): boolean {
    return this.#floating !== undefined && this.#floating.size > 0;
  }

  /** Made when it is asked for: most handlers never do. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted);
    }
    return this.#controller.signal;
  }

  /** Tells the handler. A lost lease ends the attempt, too: there is nothing left to settle. The first reason counts. */
  abort(reason: AbortReason): void {
    if (reason === 'lease_lost') this.finish();
    if (this.#aborted !== undefined) return;
    this.#aborted = new AbortedError(reason);
    this.#controller?.abort(this.#aborted);
    this.#on.aborted?.();
  }

  /** It takes longer than its batch should: its timeout counts from now on. */
  outlasts(): void {
    if (this.#phase === 'running') this.#arm();
  }

  /** The lease was extended by so much, asked for at `sentAt`. */
  extended(sentAt: number, ms: number): void {
    this.#timeoutMs = ms;
    this.#endsAt = sentAt + ms;
    if (this.#phase === 'running') this.#arm();
  }

  /** True once: whoever gets it says how the attempt ended. */
  finish(): boolean {
    if (this.#phase === 'over') return false;
    this.#phase = 'over';
    this.#alarm?.clear();
    // its settlement may wait for minutes, with many others: what it was about must not
    (this.job as { payload: unknown }).payload = null;
    this.#on.over();
    return true;
  }

  /** The handler's own transaction is about to settle it. False: it is over. */
  beginCommit(): boolean {
    if (this.#phase !== 'running') return false;
    this.#phase = 'committing';
    this.#alarm?.clear();
    return true;
  }

  /** That transaction was rolled back: the attempt goes on. */
  abandonCommit(): void {
    if (this.#phase !== 'committing') return;
    this.#phase = 'running';
    this.#arm();
  }

  /** Tells of a rejection that its handler has let go. */
  rejected(promise: Promise<unknown>, error: unknown): void {
    const counted = this.#phase !== 'over';
    if (counted) this.floating.set(promise, error);
    this.#on.floated?.(this, { error, counted });
  }

  /** That rejection was handled after all. */
  handled(promise: Promise<unknown>): void {
    this.#floating?.delete(promise);
  }

  /** Tells what became of it. */
  settled(settled: Told, durationMs: number): void {
    this.#on.settled?.(this, { settled, durationMs });
  }

  #arm(nowMs: number = performance.now()): void {
    this.#alarm ??= createAlarm(() => {
      if (this.#phase === 'running') this.#on.timeout(this);
    });
    this.#alarm.set(this.#endsAt - nowMs - marginMs(this.#timeoutMs));
  }
}

/**
 * The jobs of one work item, which one slot runs one after another, or as a bundle with one call. As long as all goes well they are leased and settled as one: nothing is said of
 * a single job. A job that needs a state of its own (it is extended, cancelled, given back, or takes long) has the batch taken apart:
 * from then on each of its jobs has a row of its own, under the same token.
 */
export interface Batch {
  readonly lease: RowLease;
  readonly jobs: Unit;
  /** One of its jobs is done, after so long. `data`: its result as JSON; null: none. */
  readonly done: (attempt: Attempt, end: Done) => void;
  /** One of its jobs has ended otherwise. */
  readonly ended: (ended: Ended) => void;
  /** Gives a job back that was not run to its end. */
  readonly release: (job: ClaimedJob) => void;
  /** Resolves when each job has a row of its own. */
  readonly apart: () => Promise<void>;
  /** The job that runs takes long: those that have not begun are given back, and won't. */
  readonly outlasted: () => void;
  /** What becomes of a job that has not begun: it runs, others have its lease, or it is to be cancelled. */
  readonly fate: (job: ClaimedJob) => Fate;
  /** Jobs that have not begun, as leases that this node holds. */
  readonly waiting: () => Iterable<Held>;
  readonly begun: (job: ClaimedJob) => void;
  /** No other of its jobs will begin. */
  readonly through: () => void;
}

export interface Done {
  readonly busyMs: number;
  readonly data: string | null;
}

/** `back`: this node is taken for lost, and gives it back. */
export type Fate = 'runs' | 'lost' | 'cancelled' | 'back';
