import type { HeldCounts, Observer } from '@pgqueue/core';
import type { Database, Leader, ReportedFault, ReportedUnreadable, SchedulerReport } from '@pgqueue/postgres';
import { leadershipLostState, sqlState, writeReport } from '@pgqueue/postgres';

/** What one tick adds to the report. */
export interface TickFacts {
  readonly leader: Leader;
  readonly held: HeldCounts;
  readonly forecast: Readonly<Record<string, number>> | null;
  readonly durationMs: number;
  /** Jobs written. */
  readonly dispatched: number;
  /** Lanes known. */
  readonly lanes: number;
  /** Work items, those just written among them. */
  readonly inFlight: number;
  readonly faults: readonly ReportedFault[];
  readonly unreadable?: readonly ReportedUnreadable[];
  /** How a second policy differs, as plain JSON; null: none runs beside. */
  readonly shadow: SchedulerReport['shadow'];
}

/** Tells the database what only the leader knows: at most once a second, and only while it changes. */
export interface Reporter {
  /** After each tick. Never throws, never waits. */
  readonly tick: (facts: TickFacts) => void;
  /** Nothing is written any more when this resolves. */
  readonly stop: () => Promise<void>;
}

export interface ReporterOptions {
  readonly database: Database;
  /** Its name. */
  readonly policy: string;
  readonly observe: Observer;
  /** Default 1000. */
  readonly everyMs?: number;
  /** So often even if nothing changed, so that a leader that ticks is known to. Default 30,000. */
  readonly unchangedEveryMs?: number;
}

/** Durations of so many ticks are remembered. */
const durationsMax = 512;

/** What a reporter remembers of the present reign. */
interface Reign {
  readonly epoch: number;
  readonly durations: number[];
  ticks: number;
  dispatched: number;
  lastBatch: number;
}

export function createReporter(options: ReporterOptions): Reporter {
  const { everyMs = 1_000, unchangedEveryMs = 30_000 } = options;
  let reign: Reign | undefined;
  let latest: TickFacts | undefined;
  let written = '';
  let writtenAt = -Infinity;
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;
  let stopped = false;

  /** Writes now, or when a second has passed since the last; one at a time. */
  const arrange = (): void => {
    if (stopped || writing !== undefined || timer !== undefined || latest === undefined) return;
    const sinceMs = performance.now() - writtenAt;
    if (sinceMs < everyMs) {
      timer = setTimeout(() => {
        timer = undefined;
        arrange();
      }, everyMs - sinceMs).unref();
    } else if (changeOf(latest, reign?.dispatched) !== written || sinceMs >= unchangedEveryMs) {
      const facts = latest;
      writing = write(facts).finally(() => {
        writing = undefined;
        arrange();
      });
    }
  };

  const write = async (facts: TickFacts): Promise<void> => {
    const own = reign;
    if (own === undefined) return;
    written = changeOf(facts, own.dispatched);
    writtenAt = performance.now();
    try {
      await writeReport(options.database, facts.leader, toReport(options.policy, facts, own));
    } catch (error) {
      // the next leader has its own
      if (sqlState(error) === leadershipLostState) return;
      written = '';
      options.observe({ type: 'database.error', during: 'report', error });
    }
  };

  return {
    tick: (facts) => {
      const { epoch } = facts.leader;
      if (reign?.epoch !== epoch) {
        reign = { epoch, durations: [], ticks: 0, dispatched: 0, lastBatch: 0 };
        written = '';
      }
      note(reign, facts);
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

function note(reign: Reign, { durationMs, dispatched }: TickFacts): void {
  reign.durations[reign.ticks % durationsMax] = durationMs;
  reign.ticks += 1;
  reign.dispatched += dispatched;
  if (dispatched > 0) reign.lastBatch = dispatched;
}

/** What makes a report worth writing: not that one more tick found nothing. */
function changeOf(facts: TickFacts, dispatched: number | undefined): string {
  const { leader, held, forecast, lanes, inFlight, faults, unreadable, shadow } = facts;
  const { epoch } = leader;
  return JSON.stringify([epoch, dispatched, held, forecast, lanes, inFlight, faults, unreadable, shadow]);
}

function toReport(policy: string, facts: TickFacts, { durations, ...reign }: Reign): SchedulerReport {
  const { held, forecast, lanes, inFlight, faults, unreadable, shadow } = facts;
  const sorted = durations.toSorted((a, b) => a - b);
  return {
    policy,
    held,
    ticks: {
      count: reign.ticks,
      p50Ms: quantile(sorted, 0.5),
      p99Ms: quantile(sorted, 0.99),
      lastBatch: reign.lastBatch,
      dispatched: reign.dispatched,
    },
    lanes,
    inFlight,
    faults,
    ...(unreadable === undefined ? {} : { unreadable }),
    forecast,
    shadow,
  };
}

/** Null: of nothing. */
function quantile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
}
