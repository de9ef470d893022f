import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Duration } from '../duration.ts';
import { parseDuration } from '../duration.ts';
import { PgQueueError, throwProblems } from '../errors.ts';
import type { Attributes, ClaimedJob, JobOptions, NewJob } from './job.ts';
import type { RetryOptions } from './retry-policy.ts';
import { retryProblems } from './retry-policy.ts';

/** What a task says of its jobs, where an enqueue says nothing. `key` and `attributes` may be derived from the payload. */
export interface TaskDefaults<Input> {
  readonly queue?: string;
  readonly key?: string | ((payload: Input) => string);
  readonly attributes?: Attributes | ((payload: Input) => Attributes);
  readonly priority?: number;
  readonly timeout?: Duration;
  readonly retry?: RetryOptions;
}

/** Turns a payload of one version into one of the next. Must be pure: it may run at any time, on any node. */
export type Upcaster = (payload: unknown) => unknown;

/** What {@link defineTask} takes: name, payload schema, and defaults for its jobs. */
export interface TaskDefinition<Schema extends StandardSchemaV1> extends TaskDefaults<
  StandardSchemaV1.InferInput<Schema>
> {
  /** 1 to 200 characters; it is stored with every job, so don't rename it while jobs wait. */
  readonly name: string;
  /** Any Standard Schema: zod, valibot, arktype and others. Checked at enqueue, and again before the handler. */
  readonly payload: Schema;
  /** The version of the payload's shape, from 1. Raise it when jobs in flight would no longer fit. Default 1. */
  readonly version?: number;
  /** By version: how to make a payload of the next one. Nodes run the versions from the oldest upcaster on. */
  readonly upcasters?: Readonly<Record<number, Upcaster>>;
}

/** A typed definition that producers and workers share. Made by {@link defineTask}. */
export interface Task<Input = unknown, Output = unknown> {
  readonly name: string;
  readonly version: number;
  /** The oldest payload version that upcasters reach. */
  readonly minVersion: number;
  readonly timeoutMs: number | null;
  readonly defaults: TaskDefaults<Input>;
  /** A job of this task, for `enqueueMany`. */
  readonly job: (payload: Input, options?: JobOptions) => NewJob;
  /** Checks a payload of the current version; resolves to the handler's payload, or to what is wrong. */
  readonly parse: (payload: unknown) => Promise<Parsed<Output>>;
  /** Brings a stored payload to the current version. Throws what an upcaster throws, and `invalid_job` for a version that it can't. */
  readonly upcast: (payload: unknown, version: number) => unknown;
}

/** A payload that fits its schema, or what is wrong with it. */
export type Parsed<Output> =
  | { readonly ok: true; readonly payload: Output }
  | { readonly ok: false; readonly problems: readonly string[] };

/** The payload that a task's enqueue takes: `TaskInput<typeof sendEmail>`. */
export type TaskInput<T> = T extends Task<infer Input> ? Input : never;

/** What a running handler can do and know. */
export interface JobContext {
  readonly job: Omit<ClaimedJob, 'payload' | 'token' | 'position'>;
  /** Aborts with a reason (see {@link AbortReason}): lease lost, cancelled, timed out, shutting down. */
  readonly signal: AbortSignal;
  /** Moves the end of this attempt's lease to this long from now. False: the lease was lost, and the signal aborts. */
  readonly extend: (by: Duration) => Promise<boolean>;
  /** Replaces what is shown of this job while it runs: up to 8 KiB of JSON. False: the lease was lost. */
  readonly progress: (value: unknown) => Promise<boolean>;
  readonly log: JobLogger;
  /**
   * Runs `work` in one transaction with the settlement of this job: its writes and *done* commit together, exactly once.
   * Throws, and rolls back, when the lease was lost. Afterwards the attempt is over: the handler's return value is ignored.
   */
  readonly transaction: <Result>(work: (client: TransactionClient) => Promise<Result>) => Promise<Result>;
}

/** The part of a `pg` client that a handler's transaction needs; rows are as loosely typed as `pg`'s own. */
export interface TransactionClient {
  query(
    text: string,
    values?: readonly unknown[],
    // oxlint-disable-next-line typescript/no-explicit-any
  ): Promise<{ readonly rows: readonly any[]; readonly rowCount: number | null }>;
}

/** The part of a pino logger that handlers see. */
export interface JobLogger {
  debug(data: object, message?: string): void;
  info(data: object, message?: string): void;
  warn(data: object, message?: string): void;
  error(data: object, message?: string): void;
}

/** Why `ctx.signal` aborted: `signal.reason.code`. */
export type AbortReason = 'lease_lost' | 'cancelled' | 'timeout' | 'shutdown';

/** The code of a task: gets the checked payload; what it returns is the result of the job, or an {@link Outcome}. It may run more than once. */
export type Handler<Output, Result> = (payload: Output, context: JobContext) => Promise<Result> | Result;

/**
 * Defines a task: what producers enqueue and workers implement. Types flow from the schema to both.
 * @throws {PgQueueError} `configuration`, with everything that is wrong at once
 */
export function defineTask<Schema extends StandardSchemaV1>(
  definition: TaskDefinition<Schema>,
): Task<StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>> {
  type Input = StandardSchemaV1.InferInput<Schema>;
  type Output = StandardSchemaV1.InferOutput<Schema>;
  const version = definition.version ?? 1;
  const upcasters = definition.upcasters ?? {};
  throwProblems(
    'configuration',
    `task ${JSON.stringify(definition.name)}`,
    definitionProblems(definition, version),
  );
  const { name, payload: schema, queue, key, attributes, priority, timeout, retry } = definition;
  const given = { queue, key, attributes, priority, timeout, retry };
  const defaults = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as TaskDefaults<Input>;
  const parse = async (payload: unknown): Promise<Parsed<Output>> => {
    const result = await schema['~standard'].validate(payload);
    if (result.issues === undefined) return { ok: true, payload: result.value as Output };
    return { ok: false, problems: result.issues.map(issueText) };
  };
  const check = async (payload: unknown): Promise<readonly string[]> => {
    const parsed = await parse(payload);
    return parsed.ok ? [] : parsed.problems;
  };
  const ofPayload = (payload: Input): JobOptions => ({
    ...(queue === undefined ? {} : { queue }),
    ...(key === undefined ? {} : { key: typeof key === 'function' ? key(payload) : key }),
    ...(attributes === undefined
      ? {}
      : { attributes: typeof attributes === 'function' ? attributes(payload) : attributes }),
    ...(priority === undefined ? {} : { priority }),
    ...(timeout === undefined ? {} : { timeout }),
    ...(retry === undefined ? {} : { retry }),
  });
  const unknownVersion = (from: number): PgQueueError =>
    new PgQueueError('invalid_job', `task "${name}" knows no payload of version ${from}`, {
      data: { task: name, payloadVersion: from },
    });
  return {
    name,
    version,
    minVersion: Math.min(version, ...Object.keys(upcasters).map(Number)),
    timeoutMs: timeout === undefined ? null : (parseDuration(timeout) ?? null),
    defaults,
    parse,
    job: (payload, options = {}) => {
      const { base, problems } = derived(ofPayload, payload);
      const merged = options.retry === undefined ? {} : { retry: { ...base.retry, ...options.retry } };
      return {
        task: name,
        payloadVersion: version,
        payload,
        options: { ...base, ...options, ...merged },
        check: problems.length === 0 ? check : async (stored) => [...(await check(stored)), ...problems],
      };
    },
    upcast: (payload, from) => {
      let current = payload;
      for (let step = from; step < version; step += 1) {
        const upcaster = upcasters[step];
        if (upcaster === undefined) throw unknownVersion(from);
        current = upcaster(current);
      }
      if (from > version) throw unknownVersion(from);
      return current;
    },
  };
}

/** A payload of the wrong shape can make `key` or `attributes` throw: that is a problem of the job, told with the others. */
function derived<Input>(
  ofPayload: (payload: Input) => JobOptions,
  payload: Input,
): { readonly base: JobOptions; readonly problems: readonly string[] } {
  try {
    return { base: ofPayload(payload), problems: [] };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { base: {}, problems: [`key or attributes can't be derived from the payload: ${why}`] };
  }
}

function definitionProblems<Schema extends StandardSchemaV1>(
  definition: TaskDefinition<Schema>,
  version: number,
): readonly string[] {
  const problems: string[] = [];
  const { name, timeout, upcasters = {} } = definition;
  if (typeof name !== 'string' || name.length < 1 || name.length > 200)
    problems.push('name must have 1 to 200 characters');
  if (typeof definition.payload?.['~standard']?.validate !== 'function') {
    problems.push('payload must be a Standard Schema (zod, valibot, arktype, …)');
  }
  if (!Number.isInteger(version) || version < 1) {
    problems.push(`version must be a whole number from 1, not ${version}`);
  }
  const versions = Object.keys(upcasters)
    .map(Number)
    .sort((a, b) => a - b);
  const first = version - versions.length;
  if (versions.length > 0 && (first < 1 || versions.some((from, index) => from !== first + index))) {
    problems.push(
      `upcasters must reach from some version of 1 or more to ${version - 1} without a gap; found ${versions.join(', ')}`,
    );
  }
  if (timeout !== undefined && !((parseDuration(timeout) ?? 0) > 0))
    problems.push(`timeout must be a positive duration, not ${timeout}`);
  return [...problems, ...retryProblems(definition.retry ?? {})];
}

function issueText(issue: StandardSchemaV1.Issue): string {
  const path = (issue.path ?? []).map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
  return path === '' ? issue.message : `${path}: ${issue.message}`;
}
