import type { Spread } from './checker/recovery.ts';
import type { ChaosRun } from './run.ts';

/** The output of `--json`: the figures of docs/reliability.md. Times are milliseconds. */
export interface ChaosReport {
  readonly seed: number;
  readonly minutes: number;
  readonly jobs: number;
  readonly ended: Readonly<Record<string, number>>;
  readonly effects: number;
  readonly faultsMade: number;
  readonly kinds: number;
  readonly violations: Readonly<Record<string, number>>;
  readonly duplicatesExplained: Readonly<Record<string, number>>;
  readonly accepted: number;
  readonly staleRefused: number;
  readonly workItems: number;
  readonly snapshots: number;
  readonly faults: readonly FaultRow[];
}

/**
 * Figures of one kind of fault. `takenOver`: time until others leased the jobs of the hit process; null if it
 * held none, or the kind does not hit a single process.
 */
export interface FaultRow {
  readonly kind: string;
  readonly made: number;
  readonly recoveryP50: number | null;
  readonly recoveryP99: number | null;
  readonly recoveryMax: number | null;
  readonly takenOverP50: number | null;
  readonly takenOverMax: number | null;
}

export function reportOf({ verdict, elapsedMs }: ChaosRun): ChaosReport {
  const { seed, total, duplicates, settles, limits, recoveries, faults, snapshots, violations } = verdict;
  const value = ({ count }: Spread, ms: number): number | null => (count === 0 ? null : Math.round(ms));
  return {
    seed,
    minutes: Math.round(elapsedMs / 6_000) / 10,
    jobs: total.acknowledged,
    ended: total.ended,
    effects: total.witnessed,
    faultsMade: faults,
    kinds: recoveries.length,
    violations: Object.fromEntries(Object.entries(violations).map(([name, found]) => [name, found.length])),
    duplicatesExplained: duplicates.explained,
    accepted: settles.accepted,
    staleRefused: settles.staleRefused,
    workItems: limits.items,
    snapshots,
    faults: recoveries.map(({ kind, made, goesOn, takenOver }) => ({
      kind,
      made,
      recoveryP50: value(goesOn, goesOn.p50),
      recoveryP99: value(goesOn, goesOn.p99),
      recoveryMax: value(goesOn, goesOn.max),
      takenOverP50: value(takenOver, takenOver.p50),
      takenOverMax: value(takenOver, takenOver.max),
    })),
  };
}
