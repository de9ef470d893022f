import { PgQueueError } from '@pgqueue/core';
import { createProblems } from '@pgqueue/core/internal';
import type { Arrival } from './arrival.ts';
import { arrivalProblem } from './arrival.ts';
import type { FlowArrival } from './flow-arrival.ts';
import { flowProblems, isFlowArrival, jobsOfFlow } from './flow-arrival.ts';

/**
 * Jobs and flows in the order in which they are enqueued. An array may be in any order. A workload that can be
 * iterated only once (a generator) can be simulated only once.
 */
export type Workload = Iterable<Arrival | FlowArrival>;

/**
 * Yields the arrivals in the order of their times, each checked: those of an array before the first is yielded.
 * @throws {PgQueueError} `configuration`, naming the arrivals; of an array with all problems at once
 */
export function* inOrder(workload: Workload): Generator<Arrival | FlowArrival> {
  if (Array.isArray(workload)) {
    const arrivals = workload as readonly (Arrival | FlowArrival)[];
    // checked before sorting, so that the number in an error is the index in the array
    check(arrivals);
    yield* sortByTime(arrivals);
    return;
  }
  let [index, lastMs] = [0, -Infinity];
  for (const arrival of workload) {
    check([arrival], { index, lastMs });
    index += 1;
    lastMs = arrival.atMs;
    yield arrival;
  }
}

/** Checks arrivals, the first of which has a number, and may not come before a time. */
function check(
  arrivals: readonly (Arrival | FlowArrival)[],
  { index: first, lastMs } = { index: 0, lastMs: -Infinity },
): void {
  let problems: ReturnType<typeof createProblems> | undefined;
  let index = first;
  for (const arrival of arrivals) {
    const found = problemsOf(arrival, lastMs);
    for (const problem of found) {
      const named = problems === undefined ? `arrival ${index} of the workload` : `arrival ${index}`;
      (problems ??= createProblems()).add(`${named}: ${problem}`);
    }
    index += 1;
  }
  if (problems === undefined) return;
  const told = problems.told();
  throw new PgQueueError('configuration', told.join('; '), { data: { problems: told } });
}

function problemsOf(arrival: Arrival | FlowArrival, lastMs: number): readonly string[] {
  if (typeof arrival !== 'object' || arrival === null) return ['it must be an object'];
  if (arrival.atMs < lastMs) {
    return [
      `it comes at ${arrival.atMs}, before the one in front of it (${lastMs}): sort them, or give an array`,
    ];
  }
  if (isFlowArrival(arrival)) return flowProblems(arrival);
  const problem = arrivalProblem(arrival);
  return problem === undefined ? none : [problem];
}

const none: readonly string[] = [];

/** Returns a workload that can be iterated again and again: the given one, or its arrivals in an array. */
export function repeatable(workload: Workload): Workload {
  const once: unknown = workload[Symbol.iterator]();
  return once === workload ? [...workload] : workload;
}

/** Counts the jobs of a workload, those of flows included. */
export function countJobs(workload: Workload): number {
  let count = 0;
  for (const arrival of workload) count += isFlowArrival(arrival) ? jobsOfFlow(arrival) : 1;
  return count;
}

function sortByTime(arrivals: readonly (Arrival | FlowArrival)[]): readonly (Arrival | FlowArrival)[] {
  const isSorted = arrivals.every(
    (arrival, index) => index === 0 || (arrivals[index - 1]?.atMs ?? 0) <= arrival.atMs,
  );
  return isSorted ? arrivals : arrivals.toSorted((a, b) => a.atMs - b.atMs);
}
