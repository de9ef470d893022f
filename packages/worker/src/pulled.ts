import type { AbortReason, ClaimedJob } from '@pgqueue/core';
import { AbortedError } from './attempt.ts';
import type { Held } from './held.ts';

/** A job that a puller holds. Its lease ends `leaseMs` after the claim was sent, unless it is extended. */
export interface PulledJob extends Omit<ClaimedJob, 'position'> {
  /** Aborts with `lease_lost` when others have taken it, `cancelled`, or `shutdown` when the puller is closed. */
  readonly signal: AbortSignal;
}

/** The lease of one pulled job. While it is being settled it is neither renewed nor missed. */
export class PulledLease implements Held {
  readonly job: PulledJob;
  /** Whether it is to be renewed: not while it is being settled, nor when it is lost. */
  live = true;
  lost = false;
  readonly #controller = new AbortController();

  constructor({ position: _position, ...job }: ClaimedJob) {
    this.job = { ...job, signal: this.#controller.signal };
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
    if (!this.#controller.signal.aborted) this.#controller.abort(new AbortedError(reason));
  }
}
