/** Checks of recorded runs. Pure: each check is tested with runs that break its rule. */

/**
 * A stretch of time, in milliseconds, during which one job counted towards its group's limit. `endMs` is null
 * if it had not ended.
 */
export interface Stretch {
  readonly group: string;
  readonly beginMs: number;
  readonly endMs: number | null;
}

/** The moment at which most jobs of one group counted at once. */
export interface Crowd {
  readonly group: string;
  readonly count: number;
  readonly atMs: number;
}

/**
 * Returns the largest crowd of each group, over all moments. If one stretch ends exactly when another begins,
 * both count: the strict reading.
 */
export function mostAtOnce(stretches: readonly Stretch[]): readonly Crowd[] {
  const groups = Map.groupBy(stretches, ({ group }) => group);
  return [...groups].map(([group, own]) => {
    const steps = own
      .flatMap(({ beginMs, endMs }) => [
        { atMs: beginMs, change: 1 },
        ...(endMs === null ? [] : [{ atMs: endMs, change: -1 }]),
      ])
      .toSorted((a, b) => a.atMs - b.atMs || b.change - a.change);
    let count = 0;
    let most: Crowd = { group, count: 0, atMs: 0 };
    for (const { atMs, change } of steps) {
      count += change;
      if (count > most.count) most = { group, count, atMs };
    }
    return most;
  });
}

/**
 * Returns jobs whose own stretches overlap: they were scheduled twice at one time. `group` is the job's id
 * here.
 */
export function overlapping(stretches: readonly Stretch[]): readonly string[] {
  // a stretch that begins exactly when another ends was scheduled from a snapshot that saw the end
  const open = stretches.map((stretch) => ({ ...stretch, endMs: (stretch.endMs ?? Infinity) - 1e-4 }));
  return mostAtOnce(open)
    .filter(({ count }) => count > 1)
    .map(({ group }) => group);
}

/** The window in which a rate was exceeded most. */
export interface Excess {
  /** Jobs above rate × window + burst; 0 or less: the rate held over every window. */
  readonly jobs: number;
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * Returns the worst of all windows from one dispatch to another, both included. With the times in order, the
 * window from i to j holds j − i + 1 jobs. The excess splits into a part of j and a part of i, so one pass
 * over the times is enough.
 */
export function worstWindow(
  timesMs: readonly number[],
  { perSecond, burst }: { readonly perSecond: number; readonly burst: number },
): Excess {
  const sorted = timesMs.toSorted((a, b) => a - b);
  const start = sorted[0] ?? 0;
  let lowest = { value: Infinity, atMs: start };
  let worst: Excess = { jobs: -Infinity, fromMs: start, toMs: start };
  sorted.forEach((atMs, index) => {
    // relative to the first: sums of Unix milliseconds would lose the fractions
    const earned = ((atMs - start) / 1_000) * perSecond;
    if (index - earned < lowest.value) lowest = { value: index - earned, atMs };
    const jobs = index + 1 - earned - lowest.value - burst;
    if (jobs > worst.jobs) worst = { jobs, fromMs: lowest.atMs, toMs: atMs };
  });
  return worst;
}

/** Returns each group's share of the time of all stretches within the window. */
export function timeShares(
  stretches: readonly Stretch[],
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  let all = 0;
  for (const { group, beginMs, endMs } of stretches) {
    const within = Math.min(endMs ?? toMs, toMs) - Math.max(beginMs, fromMs);
    if (within <= 0) continue;
    sums.set(group, (sums.get(group) ?? 0) + within);
    all += within;
  }
  return new Map([...sums].map(([group, sum]) => [group, sum / all]));
}

/** Returns the value below which a share `at` of the values lies, 0 to 1; NaN without values. */
export function percentile(values: readonly number[], at: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * at))] ?? NaN;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.floor(middle)] ?? NaN) + (sorted[Math.ceil(middle) - 1] ?? NaN)) / 2;
}

/**
 * A job with its dispatch and the time when its turn could have come: the input of the check of orders within
 * a key.
 */
export interface Turn {
  readonly lane: string;
  readonly priority: number;
  readonly seq: number;
  /** Time at which it could first be seen: committed and due. */
  readonly waitingMs: number;
  /** Its position in the order of dispatch. */
  readonly position: number;
  readonly dispatchedMs: number;
}

/**
 * Returns pairs of one lane dispatched in the wrong order although the job that should have gone first was
 * waiting all along.
 */
export function outOfOrder(turns: readonly Turn[], graceMs: number): readonly (readonly [Turn, Turn])[] {
  const wrong: (readonly [Turn, Turn])[] = [];
  for (const lane of Map.groupBy(turns, ({ lane: name }) => name).values()) {
    const byTurn = lane.toSorted((a, b) => a.priority - b.priority || a.seq - b.seq);
    byTurn.forEach((later, index) => {
      const earlier = byTurn
        .slice(0, index)
        .find(
          (one) =>
            one.position > later.position &&
            one.waitingMs + graceMs < later.dispatchedMs &&
            (one.priority !== later.priority || one.seq !== later.seq),
        );
      if (earlier !== undefined) wrong.push([earlier, later]);
    });
  }
  return wrong;
}

/**
 * Returns a seeded generator of numbers from 0 to 1 (a 32-bit linear congruential generator, good enough
 * here).
 */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
