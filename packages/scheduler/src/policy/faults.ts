import type { Observer } from '@pgqueue/core';
import { errorData, errorLine } from '@pgqueue/core/internal';
import type { ReportedFault } from '@pgqueue/postgres';

/**
 * The faults of a scheduler's policies. Each is reported at most once a second and remembered for a minute.
 */
export interface Faults {
  readonly report: (fault: {
    readonly policy: string;
    readonly part: string;
    readonly error: Error;
    /** Milliseconds for which the part is left out. */
    readonly suspendedMs?: number;
    /** Set for a failed fetch: milliseconds until the retry. */
    readonly retryMs?: number;
  }) => void;
  readonly current: () => readonly ReportedFault[];
  /** Sets the database's clock, from the last snapshot. */
  readonly now: (nowMs: number) => void;
}

const reportEveryMs = 1_000;
const rememberMs = 60_000;
const faultsMax = 100;
const messageMax = 500;

interface KnownFault extends ReportedFault {
  readonly at: number;
  readonly reportedAt: number;
  readonly forgetAt: number;
}

export function createFaults(observe: Observer, clock: () => number): Faults {
  const known = new Map<string, KnownFault>();
  /** Monotonic clock until the first snapshot brings the database's time. */
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

function later(fault: KnownFault, byMs: number): KnownFault {
  const { firstMs, atMs, suspendedUntilMs } = fault;
  return {
    ...fault,
    firstMs: firstMs + byMs,
    atMs: atMs + byMs,
    suspendedUntilMs: suspendedUntilMs === null ? null : suspendedUntilMs + byMs,
  };
}
