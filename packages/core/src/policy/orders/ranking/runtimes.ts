import { compareText } from '../../snapshot.ts';
import { columnsOf } from './columns.ts';
import type { AttemptEnd, JobFacts, Settlement } from '../../snapshot.ts';

/**
 * Mean runtimes in milliseconds, in columns. Names are in the order in which they were first seen. When a
 * column is full, its oldest names go. Plain JSON.
 */
export type Runtimes = {
  readonly tasks: Means;
  /** Means by task and share, for the latest 2,000 names at most. */
  readonly shares: Means;
};

type Means = { readonly names: readonly string[]; readonly ms: readonly number[] };

export const noRuntimes: Runtimes = { tasks: { names: [], ms: [] }, shares: { names: [], ms: [] } };

/** Runtime of a job, in milliseconds, while nothing at all has been measured. */
const unknownMs = 1_000;
/** Weight of one runtime against the mean of all before it. */
const weight = 0.1;
const tasksMax = 1_000;
const sharesMax = 2_000;

/** Outcomes that tell how long a task takes. A crash does not: it is detected by a timeout. */
const telling: ReadonlySet<AttemptEnd> = new Set(['done', 'retry', 'dead', 'snooze', 'cancelled']);

/** Sorts settlements, so that the result does not depend on the order in which they arrived. */
export function inOrder(settled: readonly Settlement[]): readonly Settlement[] {
  return settled.toSorted(
    (a, b) => a.endedMs - b.endedMs || a.job.seq - b.job.seq || compareText(a.job.id, b.job.id),
  );
}

/**
 * Adds measured runtimes to the exponentially weighted means, by task and by `nameOf`. `settled` must be
 * sorted by {@link inOrder}.
 */
export function learn(
  before: Runtimes,
  settled: readonly Settlement[],
  nameOf?: (job: JobFacts) => string,
): Runtimes {
  const told = settled.filter(({ outcome, busyMs }) => busyMs > 0 && telling.has(outcome));
  if (told.length === 0) return before;
  const tasks = take(before.tasks, told, { nameOf: ({ task }) => task, most: tasksMax });
  if (nameOf === undefined) return { ...before, tasks };
  return { tasks, shares: take(before.shares, told, { nameOf, most: sharesMax }) };
}

/** Returns the name under which the mean of a task in a share is kept. */
export function nameIn(share: string, { task }: Pick<JobFacts, 'task'>): string {
  return `${task.length}:${task}${share}`;
}

function take(
  before: Means,
  settled: readonly Settlement[],
  { nameOf, most }: { readonly nameOf: (job: JobFacts) => string; readonly most: number },
): Means {
  const columns = columnsOf(before.names);
  const ms = [...before.ms];
  const added = new Map<string, number>();
  for (const { job, busyMs } of settled) {
    const name = nameOf(job);
    const column = columns.get(name) ?? added.get(name);
    if (column === undefined) added.set(name, ms.push(busyMs) - 1);
    else ms[column] = (ms[column] ?? 0) + weight * (busyMs - (ms[column] ?? 0));
  }
  // while there is no new name, the array stays the same object, so that its column index can be cached
  const names = added.size === 0 ? before.names : [...before.names, ...added.keys()];
  if (names.length <= most) return { names, ms };
  const gone = names.length - (most - (most >> 2));
  return { names: names.slice(gone), ms: ms.slice(gone) };
}

/**
 * Expected runtimes in milliseconds. `of` prefers the mean of the task in its share (see {@link nameIn}),
 * then the mean of the task, then the mean over all tasks.
 */
export interface Estimates {
  readonly of: (job: Pick<JobFacts, 'task'>, name: string) => number;
  /** Returns the mean of a task. Undefined: no attempt of the task has been measured yet. */
  readonly ofTask: (task: string) => number | undefined;
  /** Runtime of a job whose task has not been measured. */
  readonly typical: number;
}

export function estimates({ tasks, shares }: Runtimes): Estimates {
  const byTask = meanOf(tasks);
  const byShare = meanOf(shares);
  const otherwise =
    tasks.ms.length === 0 ? unknownMs : tasks.ms.reduce((sum, ms) => sum + ms, 0) / tasks.ms.length;
  return {
    of: (job, name) => byShare(name) ?? byTask(job.task) ?? otherwise,
    ofTask: byTask,
    typical: otherwise,
  };
}

function meanOf({ names, ms }: Means): (name: string) => number | undefined {
  const columns = columnsOf(names);
  return (name) => ms[columns.get(name) ?? -1];
}

/** Returns the valid parts of saved means, which an older release or a person may have written. */
export function restoreRuntimes(saved: unknown): Runtimes {
  const { tasks, shares } = asRecord(saved);
  return { tasks: restoreMeans(tasks), shares: restoreMeans(shares) };
}

function restoreMeans(saved: unknown): Means {
  const { names, ms } = asRecord(saved);
  const whole =
    Array.isArray(names) &&
    Array.isArray(ms) &&
    names.length === ms.length &&
    names.every((name) => typeof name === 'string') &&
    ms.every((mean) => typeof mean === 'number' && mean >= 0);
  return whole ? { names, ms } : noRuntimes.tasks;
}

/** Returns the members of a saved value; of anything else than an object: none. */
export function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
