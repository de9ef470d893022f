// The verdict on a history. Pure: lines in, verdict out. The checks follow Jepsen's total-queue checker,
// extended by leases.
import type { Duplicates } from './duplicates.ts';
import { duplicatesOf } from './duplicates.ts';
import type { HistoryEvent } from './history.ts';
import type { Limits } from './limits.ts';
import { limitsOf } from './limits.ts';
import type { Recovery } from './recovery.ts';
import { recoveriesOf } from './recovery.ts';
import type { Settles } from './settles.ts';
import { settlesOf } from './settles.ts';
import type { Total } from './total.ts';
import { totalOf } from './total.ts';
import { trace } from './traces.ts';

export interface Verdict {
  readonly seed: number;
  readonly total: Total;
  readonly duplicates: Duplicates;
  readonly settles: Settles;
  readonly limits: Limits;
  readonly recoveries: readonly Recovery[];
  readonly faults: number;
  /** Number of snapshots of the database that were checked. */
  readonly snapshots: number;
  readonly broken: readonly string[];
  /** Violations by name; a run is good if all lists are empty. */
  readonly violations: Readonly<Record<ViolationName, readonly string[]>>;
}

export type ViolationName =
  | 'lost'
  | 'open'
  | 'unexpected'
  | 'twice'
  | 'contradicted'
  | 'effects'
  | 'unexplained_duplicates'
  | 'crash_limit'
  | 'accepted_twice'
  | 'accepted_not_newest'
  | 'limit_exceeded'
  | 'items_overlap'
  | 'out_of_order'
  | 'invariant_broken'
  | 'process_died';

export interface CheckOptions {
  /**
   * Number of stale settlements that a run must have tried (and seen refused) to prove anything. Default 0.
   */
  readonly staleMin?: number;
}

/** @throws when the history has no line of type run */
export function check(history: readonly HistoryEvent[]): Verdict {
  const traces = trace(history);
  const total = totalOf(traces);
  const duplicates = duplicatesOf(traces);
  const settles = settlesOf(traces);
  const limits = limitsOf(traces);
  const snapshots = traces.events.filter((event) => event.type === 'snapshot');
  const broken = snapshots.flatMap((snapshot) => snapshot.broken);
  return {
    seed: traces.facts.seed,
    total,
    duplicates,
    settles,
    limits,
    recoveries: recoveriesOf(traces),
    faults: traces.events.filter((event) => event.type === 'fault' && event.phase === 'made').length,
    snapshots: snapshots.length,
    broken,
    violations: {
      lost: total.lost,
      open: total.open,
      unexpected: total.unexpected,
      twice: total.twice,
      contradicted: total.contradicted,
      effects: total.effects,
      unexplained_duplicates: duplicates.unexplained,
      crash_limit: duplicates.beyondCrashLimit,
      accepted_twice: settles.acceptedTwice,
      accepted_not_newest: settles.notNewest,
      limit_exceeded: limits.exceeded,
      items_overlap: limits.overlapping,
      out_of_order: limits.outOfOrder,
      invariant_broken: broken,
      process_died: traces.events.flatMap((event) =>
        event.type === 'down' && !event.expected ? [`${event.node}: ${event.why}`] : [],
      ),
    },
  };
}

/** Problems of a run, in words; empty for a good one. */
export function problemsOf(verdict: Verdict, { staleMin = 0 }: CheckOptions = {}): readonly string[] {
  const { violations, settles } = verdict;
  const found = Object.entries(violations)
    .filter(([, list]) => list.length > 0)
    .map(([name, list]) => `${name}: ${list.length}, such as ${list.slice(0, 3).join(' | ')}`);
  if (settles.staleRefused >= staleMin) return found;
  return [
    ...found,
    `stale settlements: ${settles.staleRefused} tried, too few to prove that they are refused`,
  ];
}

/** Returns the summary of a run, one line. */
export function lineOf(verdict: Verdict): string {
  const { seed, total, duplicates, settles, limits, recoveries, faults } = verdict;
  const explained = Object.values(duplicates.explained).reduce((sum, count) => sum + count, 0);
  const kinds = recoveries.map(({ kind, made }) => `${kind} ${made}`).join(', ');
  const slowest = Math.max(0, ...recoveries.map(({ goesOn }) => goesOn.max).filter(Number.isFinite));
  const p99 = Math.max(0, ...recoveries.map(({ goesOn }) => goesOn.p99).filter(Number.isFinite));
  return [
    `seed ${seed}`,
    `${faults} faults (${kinds})`,
    `${total.acknowledged} jobs`,
    `lost ${total.lost.length}`,
    `open ${total.open.length}`,
    `unexpected ${total.unexpected.length}`,
    `duplicates ${explained} explained, ${duplicates.unexplained.length} not`,
    `stale refused ${settles.staleRefused}`,
    `accepted twice ${settles.acceptedTwice.length + settles.notNewest.length}`,
    `limit excess ${limits.exceeded.length}`,
    `recovery p99 ${Math.round(p99)} ms, max ${Math.round(slowest)} ms`,
  ].join(' · ');
}
