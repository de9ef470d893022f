import { parseDuration } from '../duration.ts';
import { throwProblems } from '../errors.ts';
import { isUuid } from '../ids.ts';
import type { JobOptions, JobRow, NewJob } from './job.ts';
import { backoffOf, defaultMaxCrashes, defaultMaxTries, retryProblems } from './retry-policy.ts';

/** Bounds on one job. The database repeats them as CHECK constraints. */
export const jobLimits = {
  payloadBytesMax: 262_144,
  attributesBytesMax: 4_096,
  queueLengthMax: 100,
  taskLengthMax: 200,
  keyLengthMax: 200,
  uniqueKeyLengthMax: 500,
  /** Jobs in one call of enqueueMany. */
  batchMax: 50_000,
} as const;

/**
 * A job as its QUEUE row wants it. Pure but for the payload's schema: no I/O.
 * @param makeId gives the id where the caller gave none
 * @throws {PgQueueError} `invalid_job`, with everything that is wrong with the job at once
 */
export async function toJobRow(job: NewJob, makeId: () => string): Promise<JobRow> {
  const { options } = job;
  const problems = [...(await job.check(job.payload)), ...optionProblems(job.task, options)];
  const payload = jsonText(
    job.payload === undefined ? {} : job.payload,
    'payload',
    jobLimits.payloadBytesMax,
    problems,
  );
  jsonText(options.attributes ?? {}, 'attributes', jobLimits.attributesBytesMax, problems);
  throwProblems(
    'invalid_job',
    `job of task ${JSON.stringify(job.task)} can't be enqueued`,
    problems,
  );
  const unique =
    typeof options.uniqueKey === 'string' ? { key: options.uniqueKey } : options.uniqueKey;
  return {
    id: options.id ?? makeId(),
    queue: options.queue ?? 'default',
    task: job.task,
    key: options.key ?? '',
    priority: options.priority ?? 0,
    attributes: options.attributes ?? {},
    runAfter: options.runAfter ?? null,
    delayMs: parseDuration(options.delay) ?? null,
    expiresAt: options.expiresAt ?? null,
    timeoutMs: parseDuration(options.timeout) ?? null,
    maxTries: options.retry?.maxTries ?? defaultMaxTries,
    maxCrashes: options.retry?.maxCrashes ?? defaultMaxCrashes,
    retry: options.retry === undefined ? null : backoffOf(options.retry),
    unique:
      unique === undefined ? null : { key: unique.key, onConflict: unique.onConflict ?? 'keep' },
    payload: payload ?? '{}',
    payloadVersion: job.payloadVersion,
    trace: options.trace ?? null,
  };
}

function optionProblems(task: string, options: JobOptions): readonly string[] {
  const problems: string[] = [];
  const text = (name: string, value: unknown, min: number, max: number): void => {
    if (value === undefined) return;
    if (typeof value !== 'string' || value.length < min || value.length > max) {
      problems.push(`${name} must be a text of ${min} to ${max} characters`);
    } else if (value.includes('\u0000') || !value.isWellFormed()) {
      problems.push(
        `${name} must not contain NUL or lone surrogates, which PostgreSQL can't store`,
      );
    }
  };
  text('task', task, 1, jobLimits.taskLengthMax);
  text('queue', options.queue, 1, jobLimits.queueLengthMax);
  text('key', options.key, 0, jobLimits.keyLengthMax);
  const unique = options.uniqueKey;
  text(
    'uniqueKey',
    typeof unique === 'object' ? unique.key : unique,
    1,
    jobLimits.uniqueKeyLengthMax,
  );
  if (
    typeof unique === 'object' &&
    !['keep', 'replace', 'debounce'].includes(unique.onConflict ?? 'keep')
  ) {
    problems.push(
      `uniqueKey.onConflict must be keep, replace or debounce, not ${String(unique.onConflict)}`,
    );
  }
  if (options.id !== undefined && !isUuid(options.id))
    problems.push(`id must be a UUID, not ${JSON.stringify(options.id)}`);
  const priority = options.priority ?? 0;
  if (!Number.isInteger(priority) || Math.abs(priority) > 2_147_483_647) {
    problems.push(`priority must be a whole number of 32 bits, not ${String(priority)}`);
  }
  for (const name of ['runAfter', 'expiresAt'] as const) {
    const value = options[name];
    if (value !== undefined && !(value instanceof Date && Number.isFinite(value.getTime())))
      problems.push(`${name} must be a valid Date`);
  }
  if (options.runAfter !== undefined && options.delay !== undefined)
    problems.push('give runAfter or delay, not both');
  if (options.delay !== undefined && parseDuration(options.delay) === undefined)
    problems.push(`delay must be a duration, not ${String(options.delay)}`);
  if (options.timeout !== undefined && !((parseDuration(options.timeout) ?? 0) > 0)) {
    problems.push(`timeout must be a positive duration, not ${String(options.timeout)}`);
  }
  const flat = Object.entries(options.attributes ?? {}).every(
    ([, value]) => value === null || ['string', 'number', 'boolean'].includes(typeof value),
  );
  if (!flat) problems.push('attributes must be flat: texts, numbers, booleans and null only');
  const trace = options.trace?.traceparent;
  if (trace !== undefined && !/^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(trace)) {
    problems.push('trace.traceparent must be a W3C traceparent');
  }
  return [...problems, ...retryProblems(options.retry ?? {})];
}

/** JSON text that PostgreSQL's jsonb takes; says what is wrong with it otherwise. */
function jsonText(
  value: unknown,
  name: string,
  bytesMax: number,
  problems: string[],
): string | undefined {
  let refused: string | undefined;
  let text: string | undefined;
  try {
    text = JSON.stringify(value, (key, inner: unknown) => {
      if (key === '__proto__' || key === 'constructor')
        refused = `${name} must not have a key ${key}`;
      if (typeof inner === 'string' && (inner.includes('\u0000') || !inner.isWellFormed())) {
        refused = `${name} must not contain NUL or lone surrogates, which PostgreSQL's jsonb can't store`;
      }
      if (key.includes('\u0000') || !key.isWellFormed())
        refused = `${name} must not have a key with NUL or lone surrogates`;
      return inner;
    });
  } catch (error) {
    refused = `${name} can't be written as JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (text === undefined && refused === undefined) refused = `${name} can't be written as JSON`;
  if (text !== undefined && utf8Bytes(text) > bytesMax) {
    refused = `${name} has ${utf8Bytes(text)} bytes of JSON, more than ${bytesMax}; store it elsewhere and enqueue a reference`;
  }
  if (refused !== undefined) problems.push(refused);
  return text;
}

function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}
