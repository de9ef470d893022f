/**
 * Integrals over time, in up to 240 equal steps. When time runs beyond the last step, steps of twice the
 * length replace them.
 */
export interface Series {
  readonly add: (
    row: number,
    span: { readonly fromMs: number; readonly toMs: number },
    level: number,
  ) => void;
  /** Returns the mean levels in each step, by row. */
  readonly means: () => { readonly stepMs: number; readonly rows: readonly (readonly number[])[] };
}

const stepsMax = 240;

export function createSeries(startMs: number): Series {
  let stepMs = 1;
  let endMs = startMs;
  const rows: Float64Array[] = [];
  const rowAt = (index: number): Float64Array => {
    while (rows.length <= index) rows.push(new Float64Array(stepsMax));
    return rows[index] ?? new Float64Array(0);
  };
  /** Merges pairs of steps until a time lies within them. */
  const reach = (ms: number): void => {
    for (let reachMs = stepMs * stepsMax; ms > reachMs; reachMs *= 2) fold();
  };
  const fold = (): void => {
    stepMs *= 2;
    for (const row of rows) {
      for (let at = 0; at < stepsMax; at += 1) {
        row[at] = 2 * at < stepsMax ? (row[2 * at] ?? 0) + (row[2 * at + 1] ?? 0) : 0;
      }
    }
  };
  return {
    add: (index, { fromMs, toMs }, level) => {
      if (toMs > endMs) endMs = toMs;
      reach(toMs - startMs);
      const row = rowAt(index);
      if (level === 0) return;
      let from = fromMs - startMs;
      const to = toMs - startMs;
      let step = Math.floor(from / stepMs);
      while (from < to) {
        const end = Math.min(to, (step + 1) * stepMs);
        row[step] = (row[step] ?? 0) + level * (end - from);
        from = end;
        step += 1;
      }
    },
    means: () => {
      const steps = Math.max(1, Math.ceil((endMs - startMs) / stepMs));
      const lastMs = endMs - startMs - (steps - 1) * stepMs || stepMs;
      return {
        stepMs,
        rows: rows.map((row) =>
          [...row.subarray(0, steps)].map((area, step) => area / (step === steps - 1 ? lastMs : stepMs)),
        ),
      };
    },
  };
}
