import type { AbortReason } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import { Alarm } from '../lease/alarm.ts';
import { AbortedError, marginMs } from '../lease/timing.ts';
import type { Held } from '../lease/held-leases.ts';

/** A job that a puller holds. Its lease ends `leaseMs` after the claim was sent, unless it is extended. */
export interface PulledJob extends Omit<ClaimedJob, 'position'> {
  /**
   * Aborts with a reason. `lease_lost`: others have taken the job. `cancelled`. `timeout`: its lease is about
   * to end. `node_silent`: the node's heartbeats failed for so long that others may take the job. `shutdown`:
   * the puller is closed.
   */
  readonly signal: AbortSignal;
}

/**
 * Lease of one pulled job. While the job is being settled, the lease is neither renewed nor reported as lost.
 */
export class PulledLease implements Held {
  readonly job: PulledJob;
  /** True while the lease is to be renewed: the job is not being settled, and the lease is not lost. */
  live = true;
  lost = false;
  readonly #controller = new AbortController();
  readonly #alarm = new Alarm(() => this.abort('timeout'));

  /** @param claimedAt when the claim was sent, by the node's monotonic clock */
  constructor({ position: _position, ...job }: ClaimedJob, claimedAt: number) {
    this.job = { ...job, signal: this.#controller.signal };
    this.extended(claimedAt, job.leaseMs);
  }

  /** Records an extension by `ms`, requested at `sentAt`. */
  extended(sentAt: number, ms: number): void {
    this.#alarm.set(sentAt + ms - marginMs(ms) - performance.now());
  }

  /** Stops the timer: the puller does not hold the lease any more. */
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
