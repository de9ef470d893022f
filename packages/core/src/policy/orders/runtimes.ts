import { compareText } from '../snapshot.ts';
import { columnsOf } from './shares.ts';
import type { AttemptEnd, JobFacts, Settlement } from '../snapshot.ts';

/** Mean runtimes in milliseconds, in columns, those that were met first at the front: where there is no more room, they go. Plain JSON. */
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

/** Exponentially weighted means with the true runtimes taken in, by task and by `nameOf`; `settled` as {@link inOrder} gives it. */
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

/** What the mean of a task in a share is called. */
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
  // as long as none is new, the names stay the same object: what is made of them can be kept
  const names = added.size === 0 ? before.names : [...before.names, ...added.keys()];
  if (names.length <= most) return { names, ms };
  const gone = names.length - (most - (most >> 2));
  return { names: names.slice(gone), ms: ms.slice(gone) };
}

/** How long a job will run, by what was measured: of its task in its share (see {@link nameIn}), else of its task, else of all tasks. */
export interface Estimates {
  readonly of: (job: Pick<JobFacts, 'task'>, name: string) => number;
  /** Of the task; undefined where nothing of it has ended yet. */
  readonly ofTask: (task: string) => number | undefined;
  /** Of a job of which nothing is known. */
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
