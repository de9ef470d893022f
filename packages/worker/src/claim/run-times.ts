/** How long a node's jobs take, by task: what the scheduler makes batches by. */
export interface RunTimes {
  readonly add: (task: string, durationMs: number) => void;
  /** What is to be told now; undefined: nothing new. `told` must be called when it was. */
  readonly news: (nowMs: number) => Readonly<Record<string, number>> | undefined;
  readonly told: (runs: Readonly<Record<string, number>>, nowMs: number) => void;
  /** Nobody knows any more what was told. */
  readonly forget: () => void;
}

/** A task is known after so many runs. */
const runsMin = 20;
/** A mean is of about as many runs. */
const runsMax = 200;
/**
 * A task whose runs take longer than that more often than in one of a hundred gets no batches: who waits behind one of them waits for as long, which is as long as
 * a batch may take anyway. One that has batches keeps them up to three of a hundred: on a busy machine any run may take long now and then, and rows of one job
 * would make it busier.
 */
const slowMs = 50;
const slowShare = 0.01;
const slowKeptShare = 0.03;
/** That share is of about as many runs. */
const slowRuns = 1_000;
/** What has changed by less is not told. */
const factor = 1.5;
const everyMs = 250;
const tasksMax = 1_000;

interface Runs {
  count: number;
  meanMs: number;
  /** Part of them that took long. */
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
