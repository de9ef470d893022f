import type { Observer } from '@pgqueue/core';
import type { PgQueueError } from '@pgqueue/core';
import { retryPauseMs, within } from '@pgqueue/core/internal';
import type { PulledJob, Puller } from '@pgqueue/worker';
import type { AskedJobs, AskedPuller } from '@pgqueue/worker/internal';
import { createPace, unitsOf } from '@pgqueue/worker/internal';
import type { Member } from '../installations/member.ts';
import { startIn } from '../installations/start.ts';

/**
 * Longest time for which a claim waits for one installation: a database that does not answer must not keep the jobs of the
 * others from the caller.
 */
export const answerMs = 1_000;
/** The same, after a claim that failed there. */
const retryAnswerMs = 50;
/** Time after which jobs are given back that came too late for their claim, and for which no other claim has come. */
const keptMs = 5_000;

const nothing: AskedJobs = { jobs: [], room: 0 };

/** Parts of a {@link Source}. */
export interface SourceParts {
  readonly member: Member;
  readonly puller: (onWork: () => void) => AskedPuller;
  /** True if the router has no other installation: nobody is kept waiting by it. */
  readonly alone: boolean;
  /** Called when a claim may find more than before. */
  readonly onNews: () => void;
  readonly observe: Observer;
  readonly closing: AbortSignal;
}

/** One installation that a puller pulls from, with what it knows of it: when to ask it next, and if it answers. */
export class Source {
  readonly member: Member;
  readonly puller: Puller;
  /** Number of the last claim there: the one that was not asked for longest comes first. */
  turn = 0;
  /** Time at which jobs may wait there, by the monotonic clock. */
  dueAt: number = Infinity;
  started = false;
  /** True once the first try to start has ended, in whatever way. */
  met = false;
  /** Error of the last start or claim; undefined: it had an answer. */
  error: PgQueueError | undefined;
  /** Error that repeating does not mend. */
  wrong: PgQueueError | undefined;
  readonly #parts: SourceParts;
  readonly #asked: AskedPuller;
  readonly #pace = createPace();
  /** False again after a start that must not be repeated by itself: the next claim does. */
  #begun = false;
  #failures = 0;
  /** Claims that were not answered in time. */
  #unanswered = 0;
  /** Counts the hints, to notice one that comes during a claim. */
  #hints = 0;
  #full = false;
  /** Jobs that came too late for their claim, by the slots that they use. */
  #late: (readonly PulledJob[])[] = [];

  constructor(parts: SourceParts) {
    this.#parts = parts;
    this.member = parts.member;
    this.#asked = parts.puller(() => {
      this.#pace.hurry();
      this.#mayHaveMore();
    });
    this.puller = this.#asked.puller;
  }

  /** True if a claim may be sent. */
  get asks(): boolean {
    return this.started && this.wrong === undefined && this.#unanswered === 0;
  }

  /** Returns why nothing can be had from there; undefined: it answers. */
  get problem(): string | undefined {
    if (this.error !== undefined) return this.error.message;
    if (this.started && this.#unanswered === 0) return undefined;
    const { name, number } = this.member.installation;
    return `installation ${name} (number ${number}): it does not answer`;
  }

  /** Registers its node, and repeats that while its database does not answer. Returns false if it has begun that before. */
  begin(): boolean {
    if (this.#begun) return false;
    [this.#begun, this.met, this.wrong] = [true, false, undefined];
    void this.#start();
    return true;
  }

  /**
   * Claims for up to `max` slots. Never rejects: a failure leaves `error` or `wrong`. An answer that takes too long is kept
   * for later claims.
   */
  async ask(max: number): Promise<readonly PulledJob[]> {
    const asking = this.#ask(max);
    const patienceMs = this.error === undefined ? answerMs : retryAnswerMs;
    if (this.#parts.alone || (await within(patienceMs, asking))) return (await asking).jobs;
    this.#unanswered += 1;
    void asking.then(({ jobs }) => {
      this.#unanswered -= 1;
      this.#keep(jobs);
      this.#parts.onNews();
    });
    return [];
  }

  /** Takes jobs that use up to `max` slots out of those that came too late. */
  takeLate(max: number): readonly PulledJob[] {
    return this.#late.splice(0, max).flat();
  }

  /** Call when jobs of it have ended: its slots may have been full. */
  freed(): void {
    if (!this.#full) return;
    this.#full = false;
    this.#mayHaveMore();
  }

  async #start(): Promise<void> {
    const { member, closing, observe, onNews } = this.#parts;
    const failed = (error: PgQueueError, retryMs: number): void => {
      [this.error, this.met] = [error, true];
      observe({ type: 'database.error', during: 'start', error, retryMs });
      onNews();
    };
    try {
      await startIn(member, () => member.run(() => this.#asked.start()), { signal: closing, failed });
      [this.started, this.error] = [true, undefined];
    } catch (error) {
      [this.#begun, this.wrong] = [false, error as PgQueueError];
    }
    this.met = true;
    this.#mayHaveMore();
  }

  async #ask(max: number): Promise<AskedJobs> {
    const hints = this.#hints;
    try {
      const asked = await this.member.run(() => this.#asked.ask(max));
      this.#full = asked.room === 0;
      if (!this.#full) [this.error, this.#failures] = [undefined, 0];
      const nowMs = performance.now();
      const waitMs = this.#pace.next({
        got: unitsOf(asked.jobs).length,
        asked: Math.max(1, asked.room),
        nowMs,
        hearing: this.#asked.hearing(),
      });
      this.dueAt = hints === this.#hints ? nowMs + waitMs : nowMs;
      return asked;
    } catch (error) {
      this.#failed(error as PgQueueError);
      return nothing;
    }
  }

  #failed(error: PgQueueError): void {
    if (this.#parts.closing.aborted) return;
    const unregistered = error.code === 'node_ended'; // its heartbeat registers it again
    if (!unregistered && error.code !== 'installation') {
      this.wrong = error;
      return;
    }
    this.#failures += 1;
    const retryMs = retryPauseMs(this.#failures);
    this.dueAt = performance.now() + retryMs;
    if (unregistered) return;
    this.error = error;
    this.#parts.observe({ type: 'database.error', during: 'claim', error, retryMs });
  }

  #mayHaveMore(): void {
    this.#hints += 1;
    this.dueAt = 0;
    this.#parts.onNews();
  }

  #keep(jobs: readonly PulledJob[]): void {
    if (jobs.length === 0) return;
    const units = unitsOf(jobs);
    this.#late.push(...units);
    setTimeout(() => void this.#giveBack(units), keptMs).unref();
  }

  async #giveBack(units: readonly (readonly PulledJob[])[]): Promise<void> {
    const jobs = this.#late.filter((unit) => units.includes(unit)).flat();
    this.#late = this.#late.filter((unit) => !units.includes(unit));
    if (jobs.length === 0 || this.#parts.closing.aborted) return;
    try {
      await this.member.run(() => this.puller.release(jobs));
    } catch {
      this.#keep(jobs);
    }
  }
}
