// Plans the faults of a run: a pure function of the seed.
import { chances } from './workload.ts';

export interface PlannedFault {
  readonly n: number;
  readonly kind: string;
  /** Earliest start, in milliseconds from the beginning of the run. */
  readonly atMs: number;
  readonly lastsMs: number;
  /** True if no other fault may be under way. */
  readonly alone: boolean;
}

export interface PlanOptions {
  readonly seed: number;
  readonly ms: number;
  readonly kinds: readonly { readonly kind: string; readonly lastsMs: readonly [number, number] }[];
  /** Mean milliseconds between the beginnings of two faults. */
  readonly everyMs: number;
  /**
   * True to let all faults overlap: for short runs. Default: the faults of every other deck come one at a
   * time.
   */
  readonly mixed?: boolean;
}

/**
 * Plans faults by dealing their kinds from one shuffled deck after the other, so that each kind comes equally
 * often. The faults of every other deck come one at a time.
 */
export function planFaults({
  seed,
  ms,
  kinds,
  everyMs,
  mixed = false,
}: PlanOptions): readonly PlannedFault[] {
  const random = chances(seed, 'plan');
  const planned: PlannedFault[] = [];
  let atMs = 0;
  for (let deck = 0; kinds.length > 0; deck += 1) {
    for (const { kind, lastsMs } of shuffled(kinds, random)) {
      atMs += everyMs * (0.5 + random());
      if (atMs >= ms) return planned;
      const [from, to] = lastsMs;
      const n = planned.length + 1;
      planned.push({
        n,
        kind,
        atMs,
        lastsMs: from + random() * (to - from),
        alone: !mixed && deck % 2 === 0,
      });
    }
  }
  return planned;
}

function shuffled<Value>(values: readonly Value[], random: () => number): readonly Value[] {
  return values
    .map((value) => ({ value, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
