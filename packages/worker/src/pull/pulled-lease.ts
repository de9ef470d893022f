import type { AbortReason, ClaimedJob } from '@pgqueue/core';
import type { Alarm } from '../lease/alarm.ts';
import { createAlarm } from '../lease/alarm.ts';
import { AbortedError, marginMs } from '../lease/timing.ts';
import type { Held } from '../lease/held-leases.ts';

/** A job that a puller holds. Its lease ends `leaseMs` after the claim was sent, unless it is extended. */
export interface PulledJob extends Omit<ClaimedJob, 'position'> {
  /**
   * Aborts with `lease_lost` when others have taken it, `cancelled`, `timeout` shortly before its lease ends, `node_lost` when the node
   * could not say that it lives for so long that others may take it, or `shutdown` when the puller is closed.
   */
  readonly signal: AbortSignal;
}

/** The lease of one pulled job. While it is being settled it is neither renewed nor missed. */
export class PulledLease implements Held {
  readonly job: PulledJob;
  /** Whether it is to be renewed: not while it is being settled, nor when it is lost. */
  live = true;
  lost = false;
  readonly #controller = new AbortController();
  readonly #alarm: Alarm = createAlarm(() => this.abort('timeout'));

  /** @param claimedAt when the claim was sent, by the node's monotonic clock */
  constructor({ position: _position, ...job }: ClaimedJob, claimedAt: number) {
    this.job = { ...job, signal: this.#controller.signal };
    this.extended(claimedAt, job.leaseMs);
  }

  /** Its lease ends so long after the extension was asked for. */
  extended(sentAt: number, ms: number): void {
    this.#alarm.set(sentAt + ms - marginMs(ms) - performance.now());
  }

  /** Its puller holds it no more. */
  forget(): void {
    this.#alarm.clear();
  }

  get lease(): PulledJob {
    return this.job;
  }

  get task(): string {
    return this.job.task;
  }

  abort(reason: AbortReason): void {
    if (reason === 'lease_lost') {
      this.live = false;
      this.lost = true;
    }
    this.#alarm.clear();
    if (!this.#controller.signal.aborted) this.#controller.abort(new AbortedError(reason));
  }
}
