import type { NodeSettings } from '../node-options.ts';
import type { RunningUnit, SharedMarks } from './thread-protocol.ts';
import { tickMsOf } from './thread-protocol.ts';

/**
 * Notices a handler that blocks the event loop, and reports which one. While it blocks, the heartbeat's
 * thread reports it, by the marks that are kept here.
 */
export interface BlockedWatch {
  readonly start: () => void;
  /**
   * Runs the part of a handler that comes before its first `await`; a handler that blocks in that part is
   * known for certain.
   */
  readonly call: <Arguments extends readonly unknown[], Returned>(
    job: Called,
    run: (...given: Arguments) => Returned,
    ...given: Arguments
  ) => Returned;
  readonly stop: () => void;
}

/** A job whose handler is called. */
export interface Called {
  readonly id: string;
  readonly task: string;
}

export interface BlockedParts {
  readonly settings: NodeSettings;
  readonly marks: SharedMarks;
  /** Attempts whose handlers run. */
  readonly attempts: Iterable<{ readonly job: Called }>;
}

const namedMax = 10;
/**
 * Ticks without a running handler, after which ticking stops until the next call, so that an idle process is
 * not woken.
 */
const idleTicksMax = 4;

export function createBlockedWatch({ settings, marks, attempts }: BlockedParts): BlockedWatch {
  const { node, blockedMs, heartbeatThread, observe } = settings;
  let timer: NodeJS.Timeout | undefined;
  let suspects: readonly RunningUnit[] = [];
  let culprit: RunningUnit | undefined;
  let tickedAt = 0;
  let idleTicks = 0;
  let on = false;

  const begin = (): void => {
    idleTicks = 0;
    tickedAt = performance.now();
    marks.stamp('main');
    timer = setInterval(tick, tickMsOf(blockedMs)).unref();
  };
  const rest = (): void => {
    clearInterval(timer);
    timer = undefined;
    marks.unstamp('main');
  };
  const tick = (): void => {
    const nowMs = performance.now();
    const gapMs = nowMs - tickedAt;
    tickedAt = nowMs;
    marks.stamp('main');
    // If the other thread stood still as well, the whole process was frozen.
    const frozen = heartbeatThread !== false && marks.ageMs('thread') > blockedMs / 2 && gapMs > blockedMs;
    const now = first(attempts);
    if (gapMs > blockedMs && !frozen) {
      const jobs = culprit === undefined ? distinct([...suspects, ...now]) : [culprit];
      observe({ type: 'node.blocked', node, blockedMs: Math.round(gapMs), jobs });
    }
    culprit = undefined;
    suspects = now;
    marks.running = now;
    idleTicks = now.length === 0 ? idleTicks + 1 : 0;
    if (idleTicks >= idleTicksMax) rest();
  };

  return {
    start: () => {
      on = blockedMs > 0;
    },
    call: (job, run, ...given) => {
      if (!on) return run(...given);
      if (timer === undefined) begin();
      const began = performance.now();
      marks.calling(job.id, job.task);
      try {
        return run(...given);
      } finally {
        marks.called();
        if (performance.now() - began > blockedMs / 2) culprit = { job: job.id, task: job.task };
      }
    },
    stop: () => {
      on = false;
      rest();
    },
  };
}

function first(attempts: BlockedParts['attempts']): readonly RunningUnit[] {
  const named: RunningUnit[] = [];
  for (const { job } of attempts) {
    if (named.length >= namedMax) break;
    named.push({ job: job.id, task: job.task });
  }
  return named;
}

function distinct(jobs: readonly RunningUnit[]): readonly RunningUnit[] {
  return [...new Map(jobs.map((one) => [one.job, one])).values()].slice(0, namedMax);
}
