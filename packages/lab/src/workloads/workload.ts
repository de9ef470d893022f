import type { Attributes } from '@pgqueue/core';
import { PgQueueError, unknownNames } from '@pgqueue/core';

/** A job of a workload: what is known when it is enqueued, and what it then takes. */
export interface Arrival {
  /** When it is enqueued. Unix milliseconds, or counted from 0 where no rule looks at the time of day. */
  readonly atMs: number;
  /** How long each attempt at it takes. Policies don't see it. */
  readonly durationMs: number;
  /** Default `default`. */
  readonly queue?: string;
  /** Default: none, `''`. */
  readonly key?: string;
  /** Default `job`. */
  readonly task?: string;
  /** Of its payload. Default 1. */
  readonly version?: number;
  /** Smaller first, within its key. Default 0. */
  readonly priority?: number;
  readonly attributes?: Attributes;
  /** If it was not started by then, it ends as expired. */
  readonly expiresMs?: number;
  /** It should be done by then. Only counted: what a policy is to know of it belongs into the attributes. */
  readonly deadlineMs?: number;
  /** So many attempts fail before one can succeed. Default 0. */
  readonly failures?: number;
  /** Default: made up. */
  readonly id?: string;
}

/**
 * Jobs by the time at which they are enqueued; those of an array may be in any order. What can be iterated only once (a generator)
 * can be simulated only once.
 */
export type Workload = Iterable<Arrival>;

/** The arrivals in the order of their times, each checked. @throws {PgQueueError} `configuration`, naming the arrival */
export function* inOrder(workload: Workload): Generator<Arrival> {
  if (Array.isArray(workload)) {
    const arrivals = workload as readonly Arrival[];
    // before they are sorted, so that the number in an error is the one in the array
    arrivals.forEach((arrival, index) => check(arrival, index, -Infinity));
    yield* sortByTime(arrivals);
    return;
  }
  let [index, lastMs] = [0, -Infinity];
  for (const arrival of workload) {
    check(arrival, index, lastMs);
    index += 1;
    lastMs = arrival.atMs;
    yield arrival;
  }
}

function check(arrival: Arrival, index: number, lastMs: number): void {
  const problem = problemOf(arrival, lastMs);
  if (problem === undefined) return;
  throw new PgQueueError('configuration', `arrival ${index} of the workload: ${problem}`, {
    data: { index },
  });
}

/** A workload that can be iterated again and again: itself, or its arrivals in an array. */
export function repeatable(workload: Workload): Workload {
  const once: unknown = workload[Symbol.iterator]();
  return once === workload ? [...workload] : workload;
}

function sortByTime(arrivals: readonly Arrival[]): readonly Arrival[] {
  const isSorted = arrivals.every(
    (arrival, index) => index === 0 || (arrivals[index - 1]?.atMs ?? 0) <= arrival.atMs,
  );
  return isSorted ? arrivals : arrivals.toSorted((a, b) => a.atMs - b.atMs);
}

function problemOf(arrival: Arrival, lastMs: number): string | undefined {
  if (typeof arrival !== 'object' || arrival === null) return 'it must be an object';
  const {
    atMs,
    durationMs,
    queue,
    key,
    task,
    priority,
    version,
    expiresMs,
    deadlineMs,
    failures,
    attributes,
  } = arrival;
  if (!Number.isFinite(atMs)) return 'atMs must be a number of milliseconds';
  if (atMs < lastMs)
    return `it comes at ${atMs}, before the one in front of it (${lastMs}): sort them, or give an array`;
  if (!(durationMs >= 0 && durationMs < Infinity)) return 'durationMs must be 0 or more';
  if (!isText(queue) || !isText(key) || !isText(task)) return 'queue, key and task must be texts';
  if (queue === '' || task === '') return 'queue and task must not be empty';
  if (!isNumber(expiresMs) || !isNumber(deadlineMs))
    return 'expiresMs and deadlineMs must be numbers of milliseconds';
  if (!isWhole(priority, -Infinity)) return 'priority must be a whole number';
  if (!isWhole(version, 1)) return 'version must be a whole number from 1';
  if (!isWhole(failures, 0)) return 'failures must be a whole number from 0';
  if (attributes !== undefined && (typeof attributes !== 'object' || attributes === null))
    return 'attributes must be an object';
  if (arrival.id !== undefined && typeof arrival.id !== 'string') return 'id must be a text';
  return unknownNames(arrival, names)[0];
}

const names: Readonly<Record<keyof Arrival, true>> = {
  atMs: true,
  durationMs: true,
  queue: true,
  key: true,
  task: true,
  version: true,
  priority: true,
  attributes: true,
  expiresMs: true,
  deadlineMs: true,
  failures: true,
  id: true,
};

function isText(value: unknown): boolean {
  return value === undefined || typeof value === 'string';
}

function isNumber(value: unknown): boolean {
  return value === undefined || Number.isFinite(value);
}

function isWhole(value: number | undefined, min: number): boolean {
  return value === undefined || (Number.isInteger(value) && value >= min);
}
