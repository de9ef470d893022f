import type { JobOptions, RetryOptions, Task } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import {
  aDuration,
  aNumber,
  anything,
  aText,
  backoffOf,
  isTask,
  optional,
  optionProblems,
  parseDuration,
  throwProblems,
} from '@pgqueue/core/internal';
import type { EnqueuedJob } from './enqueued.ts';

/**
 * Part of a payload; members that are left out may be anything. Matchers of the runner may stand anywhere in
 * it.
 */
export type PartOf<Payload> = Payload extends readonly (infer Member)[]
  ? readonly PartOf<Member>[]
  : Payload extends object
    ? { readonly [Name in keyof Payload]?: PartOf<Payload[Name]> }
    : Payload;

/**
 * Further expectations of an enqueued job: as they were given at enqueue, or follow from the task. Members
 * that are left out may be anything.
 */
export interface EnqueuedOptions extends Pick<
  JobOptions,
  | 'id'
  | 'queue'
  | 'key'
  | 'priority'
  | 'attributes'
  | 'runAfter'
  | 'delay'
  | 'expiresAt'
  | 'timeout'
  | 'retry'
> {
  readonly uniqueKey?: string;
  /** Exact number of such jobs. Default: one or more. */
  readonly times?: number;
  /** Schema of pgqueue in that database. Default: as in `createTestDatabase`, or `pgqueue`. */
  readonly schema?: string;
}

/** An expectation that was checked. */
export interface Expectation {
  readonly task: string | undefined;
  readonly payload: unknown;
  readonly options: EnqueuedOptions;
}

/** Reports whether a value is as expected, by the runner's own rules for parts of objects. */
export type Fits = (actual: unknown, expected: unknown) => boolean;

const shape: Shape<EnqueuedOptions> = {
  id: optional(anything),
  queue: optional(anything),
  key: optional(anything),
  priority: optional(anything),
  attributes: optional(anything),
  runAfter: optional(anything),
  delay: optional(aDuration),
  expiresAt: optional(anything),
  timeout: optional(aDuration),
  retry: optional(anything),
  uniqueKey: optional(anything),
  times: optional(aNumber({ min: 0, whole: true })),
  schema: optional(aText()),
};

const aTaskOrName: Rule = {
  expected: 'a task, made by defineTask, or its name',
  optional: true,
  judge: (value) => isTask(value) || (typeof value === 'string' && value !== ''),
};

/**
 * Checks an expectation.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function expectationOf(
  task: Task<never> | string | undefined,
  payload: unknown,
  options: EnqueuedOptions = {},
): Expectation {
  throwProblems('configuration', 'toHaveEnqueued(task, payload, options)', [
    ...optionProblems({ task }, { task: aTaskOrName }),
    ...optionProblems(options, shape),
  ]);
  return { task: typeof task === 'object' ? task.name : task, payload: asStored(payload), options };
}

/**
 * Tolerance of an expected delay: a job's creation and its `runAfter` come from one statement, but not from
 * one moment.
 */
const delayToleranceMs = 1_000;

/** Describes how a job differs from an expectation; empty: it fits. */
export function differences(
  job: EnqueuedJob,
  { payload, options }: Expectation,
  fits: Fits,
): readonly string[] {
  const wrong: string[] = [];
  const compare = (name: string, actual: unknown, expected: unknown): void => {
    if (expected !== undefined && !fits(actual, expected)) {
      wrong.push(...pathsOf(name, { actual, expected }, fits));
    }
  };
  compare('payload', job.payload, payload);
  const { id, queue, key, priority, uniqueKey, runAfter, expiresAt } = options;
  for (const [name, expected] of Object.entries({
    id,
    queue,
    key,
    priority,
    uniqueKey,
    runAfter,
    expiresAt,
  })) {
    compare(name, job[name as keyof EnqueuedJob], expected);
  }
  compare('attributes', job.attributes, options.attributes);
  wrong.push(...timeDifferences(job, options));
  if (options.retry !== undefined) wrong.push(...retryDifferences(job, options.retry));
  return wrong;
}

function timeDifferences(job: EnqueuedJob, { delay, timeout }: EnqueuedOptions): readonly string[] {
  const wrong: string[] = [];
  const delayMs = delay === undefined ? undefined : parseDuration(delay);
  if (delayMs !== undefined && Math.abs((job.delayMs ?? 0) - delayMs) > delayToleranceMs) {
    const actual = job.delayMs === null ? 'none' : `${Math.round(job.delayMs)} ms`;
    wrong.push(`delay is ${actual}, not ${delayMs} ms`);
  }
  const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout);
  if (timeoutMs !== undefined && job.timeoutMs !== timeoutMs) {
    wrong.push(`timeout is ${job.timeoutMs === null ? 'none' : `${job.timeoutMs} ms`}, not ${timeoutMs} ms`);
  }
  return wrong;
}

function retryDifferences(job: EnqueuedJob, retry: RetryOptions): readonly string[] {
  const backoff = backoffOf({}, job.backoff ?? undefined);
  const wanted = backoffOf(retry, backoff);
  const actual = { maxTries: job.maxTries, maxCrashes: job.maxCrashes, ...backoff };
  const { maxTries = job.maxTries, maxCrashes = job.maxCrashes } = retry;
  return Object.entries({ maxTries, maxCrashes, ...wanted })
    .filter(([name, expected]) => actual[name as keyof typeof actual] !== expected)
    .map(
      ([name, expected]) =>
        `retry: ${name} is ${say(actual[name as keyof typeof actual])}, not ${say(expected)}`,
    );
}

/** Describes the innermost values that differ. */
function pathsOf(
  path: string,
  { actual, expected }: { readonly actual: unknown; readonly expected: unknown },
  fits: Fits,
): readonly string[] {
  if (isPlain(expected) && isPlain(actual)) {
    const inner = Object.entries(expected)
      .filter(([name, value]) => !fits(actual[name], value))
      .flatMap(([name, value]) =>
        pathsOf(`${path}.${name}`, { actual: actual[name], expected: value }, fits),
      );
    if (inner.length > 0) return inner;
  }
  const found = actual === undefined || actual === null ? 'not there' : say(actual);
  return [`${path} is ${found}, not ${say(expected)}`];
}

/** Formats values as JSON; matchers of the runner describe themselves. */
export function say(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'object' && value !== null && '$$typeof' in value) return sayMatcher(value);
  const text = JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'object' && inner !== null && '$$typeof' in inner ? sayMatcher(inner) : inner,
  );
  return text === undefined ? String(value) : short(text);
}

function sayMatcher(matcher: object): string {
  const { toAsymmetricMatcher } = matcher as { readonly toAsymmetricMatcher?: () => string };
  return typeof toAsymmetricMatcher === 'function' ? toAsymmetricMatcher.call(matcher) : 'a matcher';
}

const saidMax = 300;

function short(text: string): string {
  return text.length > saidMax ? `${text.slice(0, saidMax)}…` : text;
}

/** Converts an expected value as JSON would keep it, but leaves matchers as they are. */
function asStored(expected: unknown): unknown {
  if (expected instanceof Date) return expected.toJSON();
  if (Array.isArray(expected)) return expected.map(asStored);
  if (!isPlain(expected)) return expected;
  return Object.fromEntries(Object.entries(expected).map(([name, value]) => [name, asStored(value)]));
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || '$$typeof' in value) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
