import type { Attributes } from '@pgqueue/core';
import { unknownNames } from '@pgqueue/core/internal';

/** A job of a workload: its facts when it is enqueued, and its course after that. */
export interface Arrival {
  /**
   * Time at which the job is enqueued. Unix milliseconds, or counted from 0 if no rule looks at the time of
   * day.
   */
  readonly atMs: number;
  /** Duration of each attempt, in milliseconds. Policies don't see it. */
  readonly durationMs: number;
  /** Default `default`. */
  readonly queue?: string;
  /** Default: none, `''`. */
  readonly key?: string;
  /** Default `job`. */
  readonly task?: string;
  /** Version of its payload. Default 1. */
  readonly version?: number;
  /** Priority within its key, the smallest first. Default 0. */
  readonly priority?: number;
  readonly attributes?: Attributes;
  /** Time by which the job must have started. Otherwise it ends as expired. */
  readonly expiresMs?: number;
  /**
   * Time by which the job should be done. Only counted: data that a policy needs belongs into the attributes.
   */
  readonly deadlineMs?: number;
  /** Number of attempts that fail before one can succeed. Default 0. */
  readonly failures?: number;
  /** Id of the job. Default: generated. */
  readonly id?: string;
}

/** Returns the problem of a job of a workload. Undefined: there is none. */
export function arrivalProblem(arrival: Arrival): string | undefined {
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
