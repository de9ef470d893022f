import { retryPauseMs } from '@pgqueue/core/internal';
import { isTransient } from '../connection/pg-errors.ts';

/** End of one wait. */
export type Waited<State> =
  | { readonly kind: 'ended'; readonly state: State }
  /** The job is in no table. `before`: its last state; undefined: it was in none at the first look. */
  | { readonly kind: 'gone'; readonly before: State | undefined }
  /** `state`: the last one that was read; undefined: none was. `error`: the last look failed. */
  | { readonly kind: 'timeout'; readonly state: State | undefined; readonly error: unknown };

export interface WaitsParts<State> {
  /**
   * Reads the states of up to 1,000 jobs; jobs that are in no table are left out. `exact`: a wait ends with
   * this look, and tells the state; otherwise only the end of a job matters.
   */
  readonly look: (ids: readonly string[], exact: boolean) => Promise<ReadonlyMap<string, State>>;
  readonly hasEnded: (state: State) => boolean;
  /** Pauses between two looks at one job, in milliseconds: from `minMs` to `maxMs`. Default: 25 to 1,000. */
  readonly pause?: { readonly minMs: number; readonly maxMs: number };
  /** Called when a look failed and will be repeated. */
  readonly onError?: (error: unknown, retryMs: number) => void;
  /** Called with true when a look has left somebody waiting, and with false when nobody waits any more. */
  readonly onWaiting?: (waiting: boolean) => void;
}

const usualPause = { minMs: 25, maxMs: 1_000 } as const;
/** Length of a pause in terms of the one before it. */
const pauseFactor = 1.5;
/** Most jobs in one statement. */
const idsMax = 1_000;
/**
 * Pause after a look, in milliseconds, unless a hint names a job. Waits that come meanwhile share the next
 * look, so there are at most 100 in a second.
 */
const gapMs = 10;
/**
 * Pause after a look at all jobs until the next one that a hint without ids asks for, as a multiple of the
 * time that the look took. A busy system sends hundreds of such hints in a second.
 */
const restFactor = 9;
/** Time after its timeout until a wait ends without an answer of the database, in milliseconds. */
const graceMs = 1_000;
/** Longest delay of a timer of Node: 24.8 days. */
const timerMaxMs = 2_147_483_647;

interface Waiter<State> {
  readonly since: number;
  readonly deadlineAt: number;
  readonly resolve: (waited: Waited<State>) => void;
  readonly reject: (error: unknown) => void;
}

/** A job that somebody waits for. */
interface Awaited<State> {
  readonly id: string;
  readonly waiters: Set<Waiter<State>>;
  /** Time of the next look; Infinity while one is under way. */
  dueAt: number;
  pauseMs: number;
  state: State | undefined;
}

/**
 * Waits for jobs to end. A job is read at once, after 25 ms, and then ever less often, down to once a second. One
 * look reads many jobs, also those whose turn comes soon, so that 1,000 waits take a few statements a second. Hints
 * only make looks come early.
 */
export class Waits<State> {
  readonly #parts: WaitsParts<State>;
  readonly #pause: NonNullable<WaitsParts<State>['pause']>;
  readonly #jobs = new Map<string, Awaited<State>>();
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Infinity;
  #looking = false;
  #gapUntil = -Infinity;
  #restUntil = -Infinity;
  /** Time at which all jobs are due, since a hint named none. */
  #allDueAt = Infinity;
  #failures = 0;
  #error: unknown;
  #told = false;
  #stopped: Error | undefined;

  constructor(parts: WaitsParts<State>) {
    this.#parts = parts;
    this.#pause = parts.pause ?? usualPause;
  }

  /**
   * Resolves when a job has ended or is gone, or after the timeout. Rejects with the error of a look that is
   * not transient, with that of `stop`, or with the reason of the signal when that aborts.
   */
  async wait(id: string, timeoutMs: number, signal?: AbortSignal): Promise<Waited<State>> {
    if (this.#stopped !== undefined) throw this.#stopped;
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Waited<State>>();
    const since = performance.now();
    const job = this.#jobs.get(id) ?? this.#added(id);
    const waiter = { since, deadlineAt: since + timeoutMs, resolve, reject };
    job.waiters.add(waiter);
    [job.dueAt, job.pauseMs] = [since, this.#pause.minMs];
    this.#arm(Math.max(since, this.#gapUntil));
    if (signal === undefined) return promise;
    const leave = (): void => this.#leave(job, waiter, signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /** Looks early. `ids`: jobs that have ended; undefined: some have, and nothing tells which. */
  hint(ids?: readonly string[]): void {
    const nowMs = performance.now();
    if (ids === undefined) {
      if (this.#jobs.size === 0) return;
      this.#allDueAt = Math.min(this.#allDueAt, Math.max(nowMs, this.#restUntil));
      return this.#arm(Math.max(this.#allDueAt, this.#gapUntil));
    }
    for (const id of ids) {
      const job = this.#jobs.get(id);
      if (job === undefined) continue;
      [job.dueAt, this.#gapUntil] = [nowMs, nowMs];
      this.#arm(nowMs);
    }
  }

  /** Rejects all waits, and later ones. */
  stop(error: Error): void {
    this.#stopped ??= error;
    for (const job of this.#jobs.values()) this.#end(job, ({ reject }) => reject(error));
  }

  #added(id: string): Awaited<State> {
    const job = { id, waiters: new Set<Waiter<State>>(), dueAt: 0, pauseMs: 0, state: undefined };
    this.#jobs.set(id, job);
    return job;
  }

  /** Arms the timer, unless it rings earlier anyway. */
  #arm(at: number): void {
    if (at >= this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    const ms = Math.max(0, Math.ceil(at - performance.now()));
    this.#timer = setTimeout(() => this.#ring(), Math.min(timerMaxMs, ms));
  }

  /** Arms the timer for the next look, or for the end of a wait that the database does not answer. */
  #armNext(): void {
    let lookAt = this.#allDueAt;
    let endAt = Infinity;
    for (const { dueAt, waiters } of this.#jobs.values()) {
      lookAt = Math.min(lookAt, dueAt);
      for (const { deadlineAt } of waiters) endAt = Math.min(endAt, deadlineAt + graceMs);
    }
    this.#arm(this.#looking ? endAt : Math.min(endAt, Math.max(lookAt, this.#gapUntil)));
  }

  #ring(): void {
    this.#timerAt = Infinity;
    const nowMs = performance.now();
    for (const job of this.#jobs.values()) this.#giveUp(job, nowMs - graceMs);
    if (!this.#looking && nowMs >= this.#gapUntil) this.#begin(nowMs);
    this.#armNext();
  }

  #begin(nowMs: number): void {
    const jobs = [...this.#jobs.values()];
    const all = this.#allDueAt <= nowMs;
    if (all) {
      this.#allDueAt = Infinity;
      for (const job of jobs) job.dueAt = Math.min(job.dueAt, nowMs);
    }
    const due = jobs.filter(({ dueAt }) => dueAt <= nowMs);
    if (due.length === 0) return;
    const soon = jobs.filter(({ dueAt, pauseMs }) => dueAt > nowMs && dueAt <= nowMs + pauseMs / 2);
    void this.#look([...due, ...soon].slice(0, idsMax), { beganAt: nowMs, all });
  }

  async #look(
    jobs: readonly Awaited<State>[],
    { beganAt, all }: { readonly beganAt: number; readonly all: boolean },
  ): Promise<void> {
    this.#looking = true;
    for (const job of jobs) job.dueAt = Infinity;
    try {
      const exact = jobs.some(({ waiters }) => [...waiters].some(({ deadlineAt }) => deadlineAt <= beganAt));
      const ids = jobs.map(({ id }) => id);
      const states = await this.#parts.look(ids, exact);
      [this.#failures, this.#error] = [0, undefined];
      for (const job of jobs) this.#saw(job, states.get(job.id), beganAt);
    } catch (error) {
      this.#failed(jobs, error);
    }
    const nowMs = performance.now();
    // a hint that came meanwhile has named one of them: its job ended after it was read
    const named = this.#gapUntil > beganAt;
    this.#gapUntil = named ? nowMs : nowMs + gapMs;
    if (all) {
      this.#restUntil = nowMs + (nowMs - beganAt) * restFactor;
      if (this.#allDueAt < Infinity) this.#allDueAt = this.#restUntil;
    }
    this.#looking = false;
    this.#armNext();
  }

  #saw(job: Awaited<State>, state: State | undefined, beganAt: number): void {
    if (state === undefined) {
      // a wait that began meanwhile may be for a job whose enqueue has just committed
      const gone: Waited<State> = { kind: 'gone', before: job.state };
      this.#resolve(job, gone, ({ since }) => since <= beganAt);
    } else if (this.#parts.hasEnded(state)) {
      this.#resolve(job, { kind: 'ended', state });
    } else {
      job.state = state;
      this.#giveUp(job, beganAt);
    }
    if (job.waiters.size === 0) return;
    if (!this.#told) {
      this.#told = true;
      this.#parts.onWaiting?.(true);
    }
    const nowMs = performance.now();
    // due already: named by a hint, or waited for once more
    if (job.dueAt === Infinity) job.dueAt = nowMs + job.pauseMs;
    for (const { deadlineAt } of job.waiters) job.dueAt = Math.min(job.dueAt, Math.max(nowMs, deadlineAt));
    job.pauseMs = Math.min(this.#pause.maxMs, job.pauseMs * pauseFactor);
  }

  #failed(jobs: readonly Awaited<State>[], error: unknown): void {
    if (!isTransient(error)) {
      for (const job of jobs) this.#end(job, ({ reject }) => reject(error));
      return;
    }
    this.#failures += 1;
    this.#error = error;
    const retryMs = retryPauseMs(this.#failures, this.#pause.maxMs);
    this.#parts.onError?.(error, retryMs);
    for (const job of jobs) job.dueAt = performance.now() + retryMs;
  }

  /** Ends the waits whose deadline has passed by a time. */
  #giveUp(job: Awaited<State>, byMs: number): void {
    const waited: Waited<State> = { kind: 'timeout', state: job.state, error: this.#error };
    this.#resolve(job, waited, ({ deadlineAt }) => deadlineAt <= byMs);
  }

  #resolve(
    job: Awaited<State>,
    waited: Waited<State>,
    which: (waiter: Waiter<State>) => boolean = () => true,
  ): void {
    for (const waiter of job.waiters) {
      if (!which(waiter)) continue;
      job.waiters.delete(waiter);
      waiter.resolve(waited);
    }
    if (job.waiters.size === 0) this.#end(job, () => {});
  }

  #leave(job: Awaited<State>, waiter: Waiter<State>, reason: unknown): void {
    if (!job.waiters.delete(waiter)) return;
    waiter.reject(reason);
    if (job.waiters.size === 0) this.#end(job, () => {});
  }

  #end(job: Awaited<State>, tell: (waiter: Waiter<State>) => void): void {
    if (this.#jobs.get(job.id) === job) this.#jobs.delete(job.id);
    for (const waiter of job.waiters) tell(waiter);
    job.waiters.clear();
    if (this.#jobs.size > 0) return;
    clearTimeout(this.#timer);
    [this.#timerAt, this.#allDueAt] = [Infinity, Infinity];
    if (!this.#told) return;
    this.#told = false;
    this.#parts.onWaiting?.(false);
  }
}
