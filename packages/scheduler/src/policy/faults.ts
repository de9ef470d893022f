import type { Observer } from '@pgqueue/core';
import { errorData, errorLine } from '@pgqueue/core';

/** Something of a policy that failed lately, and what was done about it. */
export interface Fault {
  readonly policy: string;
  /** The gate or order; or the function of a policy that is written as a whole: `plan`, `written`, `restore`, `explain`. */
  readonly part: string;
  readonly message: string;
  /** The first and the last time, by the database's clock; and how often between them. */
  readonly firstMs: number;
  readonly atMs: number;
  readonly count: number;
  /** It took longer than it may, and is left out until then. */
  readonly suspendedUntilMs: number | null;
}

/** The faults of a scheduler's policies: each is reported once a second at most, and remembered for a minute. */
export interface Faults {
  readonly report: (fault: {
    readonly policy: string;
    readonly part: string;
    readonly error: Error;
    /** How long it is left out. */
    readonly suspendedMs?: number;
    /** A failed fetch: it is tried again in so long. */
    readonly retryMs?: number;
  }) => void;
  readonly current: () => readonly Fault[];
  /** The database's clock, as the last snapshot had it. */
  readonly now: (nowMs: number) => void;
}

const reportEveryMs = 1_000;
const rememberMs = 60_000;
const faultsMax = 100;
const messageMax = 500;

interface Known extends Fault {
  readonly at: number;
  readonly reportedAt: number;
  readonly forgetAt: number;
}

export function createFaults(observe: Observer, clock: () => number): Faults {
  const known = new Map<string, Known>();
  /** By the monotonic clock until the first snapshot says what the database's is. */
  let nowMs = clock();
  let nowAt = nowMs;
  let dated = false;

  const report: Faults['report'] = ({ policy, part, error, suspendedMs, retryMs }) => {
    const name = JSON.stringify([policy, part]);
    const at = clock();
    const before = known.get(name);
    const atMs = nowMs + (at - nowAt);
    const again = before !== undefined && at < before.forgetAt ? before : undefined;
    const due = suspendedMs !== undefined || again === undefined || at - again.reportedAt >= reportEveryMs;
    known.delete(name);
    known.set(name, {
      policy,
      part,
      message: errorLine(errorData(error)).slice(0, messageMax),
      firstMs: again?.firstMs ?? atMs,
      atMs,
      count: (again?.count ?? 0) + 1,
      suspendedUntilMs: suspendedMs === undefined ? (again?.suspendedUntilMs ?? null) : atMs + suspendedMs,
      at,
      reportedAt: due ? at : (again?.reportedAt ?? at),
      forgetAt: Math.max(again?.forgetAt ?? 0, at + Math.max(rememberMs, (suspendedMs ?? retryMs ?? 0) * 2)),
    });
    const [oldest] = known.keys();
    if (known.size > faultsMax && oldest !== undefined) known.delete(oldest);
    if (!due) return;
    if (retryMs !== undefined) observe({ type: 'policy.prepare_failed', policy, part, error, retryMs });
    else
      observe({
        type: 'policy.failed',
        policy,
        part,
        error,
        ...(suspendedMs === undefined ? {} : { suspendedMs }),
      });
  };

  return {
    report,
    current: () => {
      const at = clock();
      for (const [name, { forgetAt }] of known) if (forgetAt <= at) known.delete(name);
      return [...known.values()].map(
        ({ at: _at, reportedAt: _reportedAt, forgetAt: _forgetAt, ...fault }) => ({
          ...fault,
          suspendedUntilMs:
            fault.suspendedUntilMs !== null && fault.suspendedUntilMs > nowMs + (at - nowAt)
              ? fault.suspendedUntilMs
              : null,
        }),
      );
    },
    now: (ms) => {
      if (!dated) for (const [name, fault] of known) known.set(name, later(fault, ms - clock()));
      dated = true;
      [nowMs, nowAt] = [ms, clock()];
    },
  };
}

function later(fault: Known, byMs: number): Known {
  const { firstMs, atMs, suspendedUntilMs } = fault;
  return {
    ...fault,
    firstMs: firstMs + byMs,
    atMs: atMs + byMs,
    suspendedUntilMs: suspendedUntilMs === null ? null : suspendedUntilMs + byMs,
  };
}
