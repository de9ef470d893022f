import type { Duration } from '../options/duration.ts';
import { parseDuration } from '../options/duration.ts';
import { errorData } from '../error-data.ts';
import { PgQueueError, throwProblems } from '../errors.ts';
import { isUuid } from '../ids.ts';
import { say, unknownNames } from '../options/options.ts';
import type { MaybePromise } from '../runtime/when-done.ts';
import { caught, whenDone } from '../runtime/when-done.ts';
import type { JobOptions, JobRow, NewJob, TraceContext, Unique } from './job.ts';
import { defaultMaxCrashes, defaultMaxTries, ownBackoff, retryProblems } from './retry-policy.ts';
import { nestingMax, shapeProblem } from './shape.ts';

const int32Max = 2_147_483_647;

/**
 * Bounds on one job and one call of `enqueueMany`. The database repeats those on one job as CHECK
 * constraints.
 */
export const jobLimits = {
  payloadBytesMax: 262_144,
  /** Levels of arrays and objects in a payload. */
  payloadDepthMax: 500,
  attributesBytesMax: 4_096,
  queueLengthMax: 100,
  taskLengthMax: 200,
  keyLengthMax: 200,
  uniqueKeyLengthMax: 500,
  traceStateLengthMax: 512,
  /** Name of a step or a wait of a handler. */
  waitNameLengthMax: 100,
  /** Jobs in one call of enqueueMany. */
  batchMax: 50_000,
  /** JSON of all payloads in one call of `enqueueMany`, in bytes. */
  batchBytesMax: 67_108_864,
} as const;

/**
 * Returns a job in the form of its QUEUE row; a promise only when the schema of its payload is asynchronous.
 * Pure except for that schema: no I/O. The schema sees the payload as the handler's node will, after a round
 * trip through JSON: where it wants a Date, a Map or NaN, it fails here rather than there.
 * @param makeId makes the id when the caller gave none
 * @throws {PgQueueError} `invalid_job`, with all problems of the job at once
 */
export function toJobRow(job: NewJob, makeId: () => string): JobRow | Promise<JobRow> {
  return readable(() => {
    const problems = isObject(job.options)
      ? [...optionProblems(job.task, job.options)]
      : ['options must be an object'];
    if (
      !(Number.isInteger(job.payloadVersion) && job.payloadVersion >= 1 && job.payloadVersion <= int32Max)
    ) {
      problems.push(`payloadVersion must be a whole number from 1, not ${say(job.payloadVersion)}`);
    }
    const given = job.payload === undefined ? {} : job.payload;
    const payload = jsonText(given, 'payload', jobLimits.payloadBytesMax, problems);
    // a schema may find a problem in each of a million elements
    const found = (payload ?? '').length > jobLimits.payloadBytesMax ? [] : payloadProblems(job, payload);
    return whenDone(found, (ofPayload) =>
      readable(() => checkedRow(job, { makeId, payload, problems: [...ofPayload, ...problems] })),
    );
  });
}

function readable<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (error instanceof PgQueueError) throw error;
    const why = errorData(error).message;
    throw new PgQueueError('invalid_job', `a job can't be enqueued: it can't be read (${why})`, {
      cause: error,
    });
  }
}

function checkedRow(
  job: NewJob,
  {
    makeId,
    payload,
    problems,
  }: {
    readonly makeId: () => string;
    readonly payload: string | undefined;
    readonly problems: string[];
  },
): JobRow {
  const { options } = job;
  if (options?.attributes !== undefined)
    jsonText(options.attributes, 'attributes', jobLimits.attributesBytesMax, problems);
  if (problems.length > 0)
    throwProblems('invalid_job', `job of task ${named(job.task)} can't be enqueued`, problems);
  const unique = typeof options.uniqueKey === 'string' ? { key: options.uniqueKey } : options.uniqueKey;
  return {
    id: options.id?.toLowerCase() ?? makeId(),
    queue: options.queue ?? 'default',
    task: job.task,
    key: options.key ?? '',
    priority: options.priority ?? 0,
    attributes: options.attributes ?? {},
    runAfter: options.runAfter ?? null,
    delayMs: wholeMs(options.delay),
    expiresAt: options.expiresAt ?? null,
    timeoutMs: wholeMs(options.timeout),
    maxTries: options.retry?.maxTries ?? defaultMaxTries,
    maxCrashes: options.retry?.maxCrashes ?? defaultMaxCrashes,
    retry: ownBackoff(options.retry),
    unique:
      unique === undefined
        ? null
        : { key: unique.key, onConflict: unique.onConflict ?? 'keep', maxWaitMs: wholeMs(unique.maxWait) },
    payload: payload ?? '{}',
    payloadVersion: job.payloadVersion,
    trace: options.trace ?? null,
  };
}

function payloadProblems(job: NewJob, payload: string | undefined): MaybePromise<readonly string[]> {
  const threw = (error: unknown): readonly string[] => [
    `the payload's schema threw: ${errorData(error).message}`,
  ];
  const check = (value: unknown): MaybePromise<readonly string[]> => {
    try {
      return caught(job.check(value), threw);
    } catch (error) {
      return threw(error);
    }
  };
  if (payload === undefined) return check(job.payload);
  const stored: unknown = JSON.parse(payload);
  const problem = shapeProblem(stored);
  if (problem !== undefined) return [`payload ${problem}`];
  return whenDone(check(stored), (found) => {
    if (found.length === 0) return found;
    return whenDone(check(job.payload), ({ length }) => (length === 0 ? [...found, changedByJson] : found));
  });
}

const changedByJson =
  'the payload fits as it was given, and not as it is stored: in JSON a Date is a string, NaN is null, a Map and a Set are {}';

/** Rounds a duration up to whole milliseconds: columns of the database hold no fractions. */
function wholeMs(duration: Duration | undefined): number | null {
  const ms = parseDuration(duration);
  return ms === undefined ? null : Math.ceil(ms);
}

const names: Readonly<Record<keyof JobOptions, true>> = {
  id: true,
  queue: true,
  key: true,
  priority: true,
  attributes: true,
  runAfter: true,
  delay: true,
  expiresAt: true,
  timeout: true,
  retry: true,
  uniqueKey: true,
  trace: true,
};

const namesOfUnique: Readonly<Record<keyof Unique, true>> = { key: true, onConflict: true, maxWait: true };
const conflictModes: Readonly<Record<NonNullable<Unique['onConflict']>, true>> = {
  keep: true,
  replace: true,
  debounce: true,
  supersede: true,
};

/** Quotes a text of up to the length of a task's name; says of any other value what it is. */
function named(value: unknown): string {
  return typeof value === 'string' && value.length <= jobLimits.taskLengthMax
    ? JSON.stringify(value)
    : say(value);
}

function optionProblems(task: string, options: JobOptions): readonly string[] {
  const problems = [...unknownNames(options, names)];
  const text = (name: string, value: unknown, min: number, max: number): void => {
    if (value === undefined) return;
    if (typeof value !== 'string' || value.length < min || value.length > max) {
      const got = typeof value === 'number' ? `the number ${value}` : say(value);
      problems.push(`${name} must be a text of ${min} to ${max} characters, not ${got}`);
    } else if (value.includes('\u0000') || !value.isWellFormed()) {
      problems.push(`${name} must not contain NUL or lone surrogates, which PostgreSQL can't store`);
    }
  };
  text('task', task, 1, jobLimits.taskLengthMax);
  text('queue', options.queue, 1, jobLimits.queueLengthMax);
  text('key', options.key, 0, jobLimits.keyLengthMax);
  const unique = options.uniqueKey;
  if (unique !== undefined)
    text('uniqueKey', isObject(unique) ? (unique.key ?? null) : unique, 1, jobLimits.uniqueKeyLengthMax);
  if (isObject(unique)) problems.push(...uniqueProblems(unique));
  if (options.id !== undefined && !isUuid(options.id))
    problems.push(`id must be a UUID, not ${named(options.id)}`);
  const priority = options.priority ?? 0;
  if (!Number.isInteger(priority) || Math.abs(priority) > int32Max) {
    problems.push(`priority must be a whole number of 32 bits, not ${say(priority)}`);
  }
  for (const name of ['runAfter', 'expiresAt'] as const) {
    const value = options[name];
    if (value !== undefined && !(value instanceof Date && isStorable(value)))
      problems.push(`${name} must be a valid Date of the years 1 to 9999`);
  }
  if (options.runAfter !== undefined && options.delay !== undefined)
    problems.push('give runAfter or delay, not both');
  if (options.delay !== undefined && parseDuration(options.delay) === undefined)
    problems.push(`delay must be a duration of up to 3650d, such as "30s", not ${named(options.delay)}`);
  if (options.timeout !== undefined && !((parseDuration(options.timeout) ?? 0) > 0)) {
    problems.push(`timeout must be a positive duration, such as "30s", not ${named(options.timeout)}`);
  }
  problems.push(...attributeProblems(options.attributes));
  if (options.trace !== undefined) {
    const trace: Partial<TraceContext> = isObject(options.trace) ? options.trace : {};
    text('trace.tracestate', trace.tracestate, 0, jobLimits.traceStateLengthMax);
    if (!isTraceparent(trace.traceparent)) problems.push('trace.traceparent must be a W3C traceparent');
  }
  if (options.retry !== undefined) {
    problems.push(...retryProblems(options.retry));
  }
  return problems;
}

function uniqueProblems(unique: Unique): readonly string[] {
  const problems = [...unknownNames(unique, namesOfUnique, { path: 'uniqueKey' })];
  const { onConflict = 'keep', maxWait } = unique;
  if (typeof onConflict !== 'string' || !Object.hasOwn(conflictModes, onConflict)) {
    problems.push(
      `uniqueKey.onConflict must be keep, replace, debounce or supersede, not ${say(onConflict)}`,
    );
  }
  if (maxWait === undefined) return problems;
  if (!((parseDuration(maxWait) ?? 0) > 0))
    problems.push(`uniqueKey.maxWait must be a positive duration, such as "30s", not ${say(maxWait)}`);
  if (onConflict !== 'debounce') problems.push('uniqueKey.maxWait goes with onConflict debounce only');
  return problems;
}

/** Reports whether a text is a `traceparent` of W3C Trace Context. */
export function isTraceparent(text: unknown): text is string {
  return typeof text === 'string' && /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(text);
}

/** Reports whether a value is a job as {@link Task.job} returns it; its options are checked later. */
export function isNewJob(job: unknown): job is NewJob {
  if (typeof job !== 'object' || job === null) return false;
  const { task, options, check } = job as Partial<NewJob>;
  return (
    typeof task === 'string' && typeof check === 'function' && typeof options === 'object' && options !== null
  );
}

/** Checks at run time what the types promise, for callers without types. */
function isObject<Value>(value: Value): value is Value & object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isStorable(date: Date): boolean {
  const year = date.getUTCFullYear(); // NaN when the date is invalid
  return year >= 1 && year <= 9_999;
}

function attributeProblems(attributes: unknown): readonly string[] {
  if (attributes === undefined) return [];
  if (typeof attributes !== 'object' || attributes === null || Array.isArray(attributes))
    return ['attributes must be an object'];
  const flat = Object.values(attributes).every(
    (value) => value === null || ['string', 'boolean'].includes(typeof value) || Number.isFinite(value),
  );
  if (!flat) return ['attributes must be flat: texts, finite numbers, booleans and null only'];
  const problem = shapeProblem(attributes);
  return problem === undefined ? [] : [`attributes ${problem}`];
}

/**
 * Returns the value as JSON text, and adds a problem when PostgreSQL's jsonb can't take it or it is too long.
 */
export function jsonText(
  value: unknown,
  name: string,
  bytesMax: number,
  problems: string[],
): string | undefined {
  let refused: string | undefined;
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
    // JSON.stringify escapes all characters that PostgreSQL refuses, and most texts have no escapes at all
    if ((text ?? '').includes(String.raw`\u`))
      text = JSON.stringify(value, (key, inner: unknown) => {
        if (typeof inner === 'string' && (inner.includes('\u0000') || !inner.isWellFormed())) {
          refused = `${name} must not contain NUL or lone surrogates, which PostgreSQL's jsonb can't store`;
        }
        if (key.includes('\u0000') || !key.isWellFormed())
          refused = `${name} must not have a key with NUL or lone surrogates`;
        return inner;
      });
  } catch (error) {
    const overflow = error instanceof RangeError && /stack/i.test(error.message);
    refused = overflow
      ? `${name} must not be nested deeper than ${nestingMax} levels`
      : `${name} can't be written as JSON: ${errorData(error).message}`;
  }
  if (text === undefined && refused === undefined) refused = `${name} can't be written as JSON`;
  const bytes = text === undefined ? undefined : bytesOver(bytesMax, [text]);
  if (bytes !== undefined)
    refused = `${name} has ${bytes} bytes of JSON, more than ${bytesMax}; store it elsewhere and enqueue a reference`;
  if (refused !== undefined) problems.push(refused);
  return text;
}

/** Most UTF-8 bytes of one UTF-16 unit. */
const utf8Most = 3;

/** Returns the number of UTF-8 bytes of some texts if it is more than `max`. Most are so short that none is counted. */
export function bytesOver(max: number, texts: readonly string[]): number | undefined {
  const most = utf8Most * texts.reduce((sum, { length }) => sum + length, 0);
  if (most <= max) return undefined;
  const encoder = new TextEncoder();
  const bytes = texts.reduce((sum, text) => sum + encoder.encode(text).length, 0);
  return bytes > max ? bytes : undefined;
}
