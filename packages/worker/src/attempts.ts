import type { AbortReason, ClaimedJob, Observer } from '@pgqueue/core';
import type { Lease } from '@pgqueue/postgres';

/** One claimed job on its way: its lease, its signal, and whether it is settled already. */
export interface Attempt {
  readonly job: ClaimedJob;
  readonly signal: AbortSignal;
  readonly startedAt: number;
  /** Resolves when the attempt is over for the queue: settled, lost, or past its timeout. The handler may still run. */
  readonly over: Promise<AbortReason>;
  readonly abort: (reason: AbortReason) => void;
  /** Sets the end of the lease, by the node's monotonic clock. */
  readonly leaseUntil: (at: number) => void;
  /** True once: whoever gets it settles. */
  readonly takeSettlement: () => boolean;
  readonly end: () => void;
}

/** Every attempt of a node, by job. */
export interface Attempts {
  readonly begin: (job: ClaimedJob, claimedAt: number) => Attempt;
  /** A lease that is known to be lost: its signal aborts, and nothing of it is settled. */
  readonly lose: (id: string, during: 'settle' | 'extend' | 'heartbeat') => void;
  readonly cancel: (id: string) => void;
  readonly loseAll: () => void;
  readonly abortAll: (reason: AbortReason) => void;
  readonly leases: () => readonly Lease[];
  readonly size: () => number;
  /** Resolves when no attempt is left. */
  readonly drained: () => Promise<void>;
}

/** Aborted handlers see this as `signal.reason`. */
export class AbortedError extends Error {
  override readonly name: string = 'AbortedError';
  readonly code: AbortReason;

  constructor(code: AbortReason) {
    super(`the attempt was aborted: ${code}`);
    this.code = code;
  }
}

/** A handler is stopped this long before its lease ends, so that its settlement still lands in time. */
function marginMs(leaseMs: number): number {
  return Math.min(1_000, leaseMs / 10);
}

export function createAttempts(observe: Observer): Attempts {
  const attempts = new Map<string, Attempt>();
  let whenDrained: (() => void)[] = [];

  const begin: Attempts['begin'] = (job, claimedAt) => {
    const controller = new AbortController();
    const over = Promise.withResolvers<AbortReason>();
    let timer: NodeJS.Timeout | undefined;
    let settled = false;
    const attempt: Attempt = {
      job,
      signal: controller.signal,
      startedAt: performance.now(),
      over: over.promise,
      abort: (reason) => {
        if (controller.signal.aborted) return;
        controller.abort(new AbortedError(reason));
        over.resolve(reason);
      },
      leaseUntil: (at) => {
        clearTimeout(timer);
        const leftMs = at - performance.now();
        const waitMs = Math.max(0, leftMs - marginMs(leftMs));
        // a timer holds 24.8 days at most
        timer = setTimeout(
          () => (waitMs > longestTimerMs ? attempt.leaseUntil(at) : attempt.abort('timeout')),
          Math.min(waitMs, longestTimerMs),
        );
      },
      takeSettlement: () => {
        if (settled) return false;
        settled = true;
        return true;
      },
      end: () => {
        clearTimeout(timer);
        if (attempts.get(job.id) === attempt) attempts.delete(job.id);
        if (attempts.size > 0) return;
        for (const resolve of whenDrained) resolve();
        whenDrained = [];
      },
    };
    attempts.set(job.id, attempt);
    attempt.leaseUntil(claimedAt + job.leaseMs);
    return attempt;
  };

  const lose: Attempts['lose'] = (id, during) => {
    const attempt = attempts.get(id);
    if (attempt === undefined || !attempt.takeSettlement()) return;
    observe({ type: 'job.stale', job: id, task: attempt.job.task, during });
    attempt.abort('lease_lost');
  };

  return {
    begin,
    lose,
    cancel: (id) => attempts.get(id)?.abort('cancelled'),
    loseAll: () => {
      for (const id of attempts.keys()) lose(id, 'heartbeat');
    },
    abortAll: (reason) => {
      for (const attempt of attempts.values()) attempt.abort(reason);
    },
    leases: () => [...attempts.values()].map(({ job }) => ({ id: job.id, token: job.token })),
    size: () => attempts.size,
    drained: () =>
      attempts.size === 0 ? Promise.resolve() : new Promise((resolve) => void whenDrained.push(resolve)),
  };
}

const longestTimerMs = 2_147_000_000;
