/** Run times of a node's jobs, by task; the scheduler makes batches by them. */
export interface RunTimes {
  readonly add: (task: string, durationMs: number) => void;
  /**
   * Returns the mean run times to report, in milliseconds by task; undefined: nothing new. Call `told` after
   * reporting them.
   */
  readonly news: (nowMs: number) => Readonly<Record<string, number>> | undefined;
  readonly told: (runs: Readonly<Record<string, number>>, nowMs: number) => void;
  /** Call when a report was lost: everything is reported again. */
  readonly forget: () => void;
}

/** Number of runs before a task is reported. */
const runsMin = 20;
/** Approximate number of runs in a mean. */
const runsMax = 200;
/**
 * A task gets no batches if more than 1 % of its runs take longer than 50 ms: jobs behind a slow one would
 * wait for as long as a whole batch may take. A task that has batches keeps them up to 3 %. On a busy machine
 * any run may be slow now and then, and rows of single jobs would make the machine busier.
 */
const slowMs = 50;
const slowShare = 0.01;
const slowKeptShare = 0.03;
/** Approximate number of runs in the share of slow runs. */
const slowRuns = 1_000;
/** Smallest change of a mean that is reported, as a factor. */
const factor = 1.5;
const everyMs = 250;
const tasksMax = 1_000;

interface Runs {
  count: number;
  meanMs: number;
  /** Share of the runs that were slow. */
  slow: number;
}

export function createRunTimes(): RunTimes {
  const tasks = new Map<string, Runs>();
  let last: Readonly<Record<string, number>> = {};
  let toldAt = -Infinity;

  const known = (): Readonly<Record<string, number>> =>
    Object.fromEntries(
      [...tasks].flatMap(([task, { count, meanMs, slow }]) =>
        count >= runsMin && slow <= (Object.hasOwn(last, task) ? slowKeptShare : slowShare)
          ? [[task, Math.max(0.001, meanMs)] as const]
          : [],
      ),
    );
  const differs = (runs: Readonly<Record<string, number>>): boolean =>
    Object.keys(last).some((task) => !Object.hasOwn(runs, task)) ||
    Object.entries(runs).some(([task, ms]) => {
      const before = Object.hasOwn(last, task) ? last[task] : undefined;
      return before === undefined || ms > before * factor || ms < before / factor;
    });

  return {
    add: (task, durationMs) => {
      let runs = tasks.get(task);
      if (runs === undefined) {
        if (tasks.size >= tasksMax) return;
        tasks.set(task, (runs = { count: 0, meanMs: 0, slow: 0 }));
      }
      runs.count += 1;
      runs.meanMs += (durationMs - runs.meanMs) / Math.min(runs.count, runsMax);
      runs.slow += ((durationMs > slowMs ? 1 : 0) - runs.slow) / Math.min(runs.count, slowRuns);
    },
    news: (nowMs) => {
      if (nowMs < toldAt + everyMs) return undefined;
      const runs = known();
      return differs(runs) ? runs : undefined;
    },
    told: (runs, nowMs) => {
      [last, toldAt] = [runs, nowMs];
    },
    forget: () => {
      last = {};
    },
  };
}
