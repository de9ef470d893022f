import { compareText } from '../snapshot.ts';
import type { AttemptEnd, JobFacts, Settlement } from '../snapshot.ts';

/** Mean runtimes in milliseconds, in columns, those that changed last at the end. Plain JSON. */
export type Runtimes = {
  readonly tasks: Means;
  /** By task and share, as far as there is room. */
  readonly shares: Means;
};

type Means = { readonly names: readonly string[]; readonly ms: readonly number[] };

export const noRuntimes: Runtimes = { tasks: { names: [], ms: [] }, shares: { names: [], ms: [] } };

/** Of a job when nothing at all has been measured yet. */
const unknownMs = 1_000;
/** What one runtime weighs against all those before it. */
const weight = 0.1;
const tasksMax = 1_000;
const sharesMax = 2_000;

/** Ends that tell how long a task takes: not a crash, which is told by a timeout. */
const telling: ReadonlySet<AttemptEnd> = new Set(['done', 'retry', 'dead', 'snooze', 'cancelled']);

/** Settlements in an order that does not depend on how they came. */
export function inOrder(settled: readonly Settlement[]): readonly Settlement[] {
  return settled.toSorted(
    (a, b) => a.endedMs - b.endedMs || a.job.seq - b.job.seq || compareText(a.job.id, b.job.id),
  );
}

/** Exponentially weighted means with the true runtimes taken in; `settled` as {@link inOrder} gives it. */
export function learn(
  before: Runtimes,
  settled: readonly Settlement[],
  shareOf?: (job: JobFacts) => string,
): Runtimes {
  const told = settled.filter(({ outcome, busyMs }) => busyMs > 0 && telling.has(outcome));
  if (told.length === 0) return before;
  const tasks = take(before.tasks, told, { nameOf: ({ task }) => task, most: tasksMax });
  if (shareOf === undefined) return { ...before, tasks };
  const nameOf = (job: JobFacts): string => nameIn(shareOf(job), job);
  return { tasks, shares: take(before.shares, told, { nameOf, most: sharesMax }) };
}

function nameIn(share: string, { task }: Pick<JobFacts, 'task'>): string {
  return `${task.length}:${task}${share}`;
}

function take(
  { names, ms }: Means,
  settled: readonly Settlement[],
  { nameOf, most }: { readonly nameOf: (job: JobFacts) => string; readonly most: number },
): Means {
  const means = new Map(names.map((name, index) => [name, ms[index] ?? 0]));
  for (const { job, busyMs } of settled) {
    const name = nameOf(job);
    const mean = means.get(name);
    means.delete(name);
    means.set(name, mean === undefined ? busyMs : mean + weight * (busyMs - mean));
  }
  const kept = [...means].slice(-most);
  return { names: kept.map(([name]) => name), ms: kept.map(([, mean]) => mean) };
}

/** How long a job will run, by what was measured: of its task in its share, else of its task, else of all tasks. */
export interface Estimates {
  readonly of: (job: Pick<JobFacts, 'task'>, share: string) => number;
  /** Of the task; undefined where nothing of it has ended yet. */
  readonly ofTask: (task: string) => number | undefined;
  /** Of a job of which nothing is known. */
  readonly typical: number;
}

export function estimates({ tasks, shares }: Runtimes): Estimates {
  const byTask = asMap(tasks);
  const byShare = asMap(shares);
  const otherwise =
    tasks.ms.length === 0 ? unknownMs : tasks.ms.reduce((sum, ms) => sum + ms, 0) / tasks.ms.length;
  return {
    of: (job, share) => byShare.get(nameIn(share, job)) ?? byTask.get(job.task) ?? otherwise,
    ofTask: (task) => byTask.get(task),
    typical: otherwise,
  };
}

function asMap({ names, ms }: Means): ReadonlyMap<string, number> {
  return new Map(names.map((name, index) => [name, ms[index] ?? 0]));
}

/** Of what was saved, what can be used: an older release, or a hand, may have written it. */
export function restoreRuntimes(saved: unknown): Runtimes {
  const { tasks, shares } = record(saved);
  return { tasks: restoreMeans(tasks), shares: restoreMeans(shares) };
}

function restoreMeans(saved: unknown): Means {
  const { names, ms } = record(saved);
  const whole =
    Array.isArray(names) &&
    Array.isArray(ms) &&
    names.length === ms.length &&
    names.every((name) => typeof name === 'string') &&
    ms.every((mean) => typeof mean === 'number' && mean >= 0);
  return whole ? { names, ms } : noRuntimes.tasks;
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
