import type { HeldCounts, Observer } from '@pgqueue/core';
import type { Database, ReportedFault, ReportedUnreadable, SchedulerReport } from '@pgqueue/postgres';
import type { Leader } from '@pgqueue/postgres/internal';
import type { WantedSlots } from './wanted.ts';
import { leadershipLostState, sqlState, writeReport } from '@pgqueue/postgres/internal';

/** One tick's contribution to the report. */
export interface TickFacts {
  readonly leader: Leader;
  readonly held: HeldCounts;
  readonly forecast: Readonly<Record<string, number>> | null;
  readonly durationMs: number;
  /** Jobs dispatched by this tick. */
  readonly dispatched: number;
  /** Number of known lanes. */
  readonly lanes: number;
  /** Jobs in flight, including those just dispatched. */
  readonly inFlight: number;
  /** Counts the slots that each pool could use: see {@link wantedSlots}. */
  readonly wanted: () => Promise<WantedSlots | null>;
  readonly faults: readonly ReportedFault[];
  readonly unreadable?: readonly ReportedUnreadable[];
  /** Differences of the shadow policy, as plain JSON; null: there is none. */
  readonly shadow: SchedulerReport['shadow'];
}

/**
 * Writes the leader's state to the database for `status`: at most once a second, and only when it changed.
 */
export interface Reporter {
  /** Call after each tick. Never throws, never waits. */
  readonly tick: (facts: TickFacts) => void;
  /** Resolves once nothing more will be written. */
  readonly stop: () => Promise<void>;
}

export interface ReporterOptions {
  readonly database: Database;
  /** Name of the policy. */
  readonly policy: string;
  readonly observe: Observer;
  /** Shortest time between two reports, in milliseconds. Default 1000. */
  readonly everyMs?: number;
  /**
   * Longest time between two reports even if nothing changed, in milliseconds, so that a ticking leader stays
   * visible. Default 30,000.
   */
  readonly unchangedEveryMs?: number;
}

/** Largest share of the time that looks may take. */
const lookShare = 0.02;
/** Number of most recent ticks whose durations are kept for the percentiles. */
const durationsMax = 512;

/** Counters of the current term. */
interface Term {
  readonly epoch: number;
  readonly durations: number[];
  ticks: number;
  dispatched: number;
  lastBatch: number;
}

export function createReporter(options: ReporterOptions): Reporter {
  const { everyMs = 1_000, unchangedEveryMs = 30_000 } = options;
  let term: Term | undefined;
  /** The last tick that was not looked at. */
  let latest: TickFacts | undefined;
  let written = '';
  let writtenAt = -Infinity;
  let lookedAt = -Infinity;
  let pauseMs = everyMs;
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;
  let stopped = false;

  /** Looks at the latest tick now, or once the pause since the last look has passed. One look at a time. */
  const arrange = (): void => {
    if (stopped || writing !== undefined || timer !== undefined || latest === undefined) return;
    const sinceMs = performance.now() - lookedAt;
    if (sinceMs < pauseMs) {
      timer = setTimeout(() => {
        timer = undefined;
        arrange();
      }, pauseMs - sinceMs).unref();
    } else {
      const facts = latest;
      latest = undefined;
      writing = look(facts).finally(() => {
        writing = undefined;
        arrange();
      });
    }
  };

  /** Writes a report if it differs from the last one, or that one is old. */
  const look = async (facts: TickFacts): Promise<void> => {
    const own = term;
    if (own === undefined) return;
    lookedAt = performance.now();
    try {
      const wanted = await facts.wanted();
      pauseMs = Math.max(everyMs, (performance.now() - lookedAt) / lookShare);
      const report = toReport(options.policy, facts, { ...own, wanted });
      // an idle tick alone is not worth a report
      const change = JSON.stringify({ ...report, ticks: own.dispatched, epoch: own.epoch });
      if (change === written && lookedAt - writtenAt < unchangedEveryMs) return;
      [written, writtenAt] = [change, lookedAt];
      await writeReport(options.database, facts.leader, report);
    } catch (error) {
      // the next leader writes its own report
      if (sqlState(error) === leadershipLostState) return;
      written = '';
      options.observe({ type: 'database.error', during: 'report', error });
    }
  };

  return {
    tick: (facts) => {
      const { epoch } = facts.leader;
      if (term?.epoch !== epoch) {
        term = { epoch, durations: [], ticks: 0, dispatched: 0, lastBatch: 0 };
        written = '';
      }
      note(term, facts);
      latest = facts;
      arrange();
    },
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await writing;
    },
  };
}

function note(term: Term, { durationMs, dispatched }: TickFacts): void {
  term.durations[term.ticks % durationsMax] = durationMs;
  term.ticks += 1;
  term.dispatched += dispatched;
  if (dispatched > 0) term.lastBatch = dispatched;
}

function toReport(
  policy: string,
  facts: TickFacts,
  { durations, wanted, ...term }: Term & { readonly wanted: WantedSlots | null },
): SchedulerReport {
  const { held, forecast, lanes, inFlight, faults, unreadable, shadow } = facts;
  const sorted = durations.toSorted((a, b) => a - b);
  return {
    policy,
    held,
    ticks: {
      count: term.ticks,
      p50Ms: quantile(sorted, 0.5),
      p99Ms: quantile(sorted, 0.99),
      lastBatch: term.lastBatch,
      dispatched: term.dispatched,
    },
    lanes,
    inFlight,
    wanted,
    faults,
    ...(unreadable === undefined ? {} : { unreadable }),
    forecast,
    shadow,
  };
}

/** Returns a quantile; null for an empty list. */
function quantile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
}
