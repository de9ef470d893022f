import type { MovingHeads } from './heads.ts';
import type { HeldCounts } from './plan.ts';
import type { Candidate, Lane, Snapshot } from './snapshot.ts';
import { compareText, laneName } from './snapshot.ts';

/** Counts what a plan holds, by queue and reason. */
export interface Held {
  readonly job: (job: Candidate, reason: string) => void;
  readonly lane: (lane: Lane, reason: string, jobs: number) => void;
  /** All that was neither counted nor gone; undefined: not of this lane. */
  readonly rest: (heads: MovingHeads, reasonOf: (lane: Lane) => string | undefined) => void;
  readonly counts: () => HeldCounts;
  readonly reasons: ReadonlyMap<string, string>;
  /** By {@link laneName}. */
  readonly lanes: ReadonlyMap<string, string>;
}

export function countHeld(snapshot: Snapshot): Held {
  const counts = new Map<string, Map<string, number>>();
  const reasons = new Map<string, string>();
  const lanes = new Map<string, string>();
  const add = (queue: string, reason: string, jobs: number): void => {
    if (jobs === 0) return;
    const own = counts.get(queue) ?? new Map<string, number>();
    counts.set(queue, own.set(reason, (own.get(reason) ?? 0) + jobs));
  };
  return {
    job: ({ id, queue }, reason) => {
      reasons.set(id, reason);
      add(queue, reason, 1);
    },
    lane: (lane, reason, jobs) => {
      // with no free slot every lane is held, and none of them says anything about itself
      if (reason !== 'no_free_slot') lanes.set(laneName(lane), reason);
      add(lane.queue, reason, jobs);
    },
    rest: (heads, reasonOf) => {
      for (const lane of snapshot.lanes) {
        const reason = reasonOf(lane);
        if (reason !== undefined) add(lane.queue, reason, heads.left(lane));
      }
    },
    counts: () => byName(counts, (own) => byName(own, (count) => count)),
    reasons,
    lanes,
  };
}

function byName<Value, Result>(
  values: ReadonlyMap<string, Value>,
  of: (value: Value) => Result,
): Readonly<Record<string, Result>> {
  return Object.fromEntries(
    [...values].toSorted(([a], [b]) => compareText(a, b)).map(([name, value]) => [name, of(value)] as const),
  );
}
