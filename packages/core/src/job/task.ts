import type { TaskDefaults, TaskDefinition, Upcaster } from './task-definition.ts';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Duration } from '../options/duration.ts';
import { parseDuration } from '../options/duration.ts';
import { PgQueueError } from '../errors.ts';
import type { DurableContext } from './durable.ts';
import type { ClaimedJob, JobOptions, NewJob } from './job.ts';
import type { Outcome } from './outcome.ts';
import type { Needed, TaskNeeds } from './needs.ts';
import type { MaybePromise } from '../runtime/when-done.ts';
import { whenDone } from '../runtime/when-done.ts';
import type { RetryOptions } from './retry-policy.ts';
import { schemasMember } from './schemas.ts';
import { checkDefinition, isPlain } from './task-definition.ts';

/** A typed definition that producers and workers share. Made by {@link defineTask}. */
export interface Task<
  Input = unknown,
  Output = unknown,
  Saved = unknown,
  Result = unknown,
  Name extends string = string,
  Needs = unknown,
> {
  readonly name: Name;
  readonly version: number;
  /** Oldest payload version that upcasters reach. */
  readonly minVersion: number;
  readonly timeoutMs: number | null;
  readonly defaults: TaskDefaults<Input>;
  /** Steps that its handler reads: see {@link TaskDefinition}. */
  readonly needs: Needs;
  /** Builds a job of this task, for `enqueueMany` and for the steps of a flow. */
  readonly job: (payload: Input, options?: JobOptions) => NewJob<Result, Name, Needs>;
  /**
   * Checks a payload of the current version. Returns the payload for the handler, or the problems. A promise
   * only when its schema returns one.
   */
  readonly parse: (payload: unknown) => Parsed<Output> | Promise<Parsed<Output>>;
  /**
   * Brings a stored payload to the current version. Throws `invalid_job` for a version that it can't convert,
   * and the errors of upcasters.
   */
  readonly upcast: (payload: unknown, version: number) => unknown;
  /** Checks a checkpoint, when it is saved and when it is read. */
  readonly parseCheckpoint: (checkpoint: unknown) => Promise<Parsed<Saved>>;
  /**
   * Returns the problems of a result; empty when there are none. A promise only when its schema returns one.
   * Undefined: the task has no schema for results.
   */
  readonly checkResult: ((result: unknown) => readonly string[] | Promise<readonly string[]>) | undefined;
}

/** A valid payload, or the problems of an invalid one. */
export type Parsed<Output> =
  | { readonly ok: true; readonly payload: Output }
  | { readonly ok: false; readonly problems: readonly string[] };

/** Payload type that a task's enqueue takes: `TaskInput<typeof sendEmail>`. */
export type TaskInput<T> = T extends Task<infer Input> ? Input : never;

/** Type of a task's results: `TaskResult<typeof sendEmail>`. */
// oxlint-disable-next-line typescript/no-explicit-any
export type TaskResult<T> = T extends Task<any, any, any, infer Result> ? Result : never;

/** Context of a running handler. */
export interface JobContext<Saved = unknown, Needs = unknown> extends DurableContext {
  readonly job: Omit<ClaimedJob, 'payload' | 'token' | 'position' | 'checkpoint'> & {
    /** Data that an earlier attempt saved. Null: none, or they do not fit the task's schema. */
    readonly checkpoint: Saved | null;
  };
  /** Steps that the task needs, by name: their results, streamed. */
  readonly needs: Needed<Needs>;
  /**
   * Aborts with a reason (see {@link AbortReason}): lease lost, cancelled, timed out, shutting down, or
   * node lost. A handler that returns is done, even if it was cancelled: one that stops early throws the reason
   * (`signal.throwIfAborted()`).
   */
  readonly signal: AbortSignal;
  /**
   * Moves the end of this attempt's lease to `by` from now. Resolves to false when the lease was lost; the
   * signal then aborts.
   */
  readonly extend: (by: Duration) => Promise<boolean>;
  /**
   * Replaces the progress that is shown of this job while it runs: up to 8 KiB of JSON. Resolves to false
   * when the lease was lost. Written up to four times a second; of values that come faster, only the newest
   * is written.
   * @throws {PgQueueError} `invalid_job`: the value is longer, or would be refused as a payload: for its depth or a key
   */
  readonly progress: (value: unknown) => Promise<boolean>;
  /**
   * Saves the data that the next attempt needs to resume: up to 256 KiB of JSON, in place of data saved
   * before. Null deletes them. The data are stored when this resolves, survive retries, crashes and snoozes,
   * and the death of the job, which a redrive goes on from. They go when the job ends otherwise. Resolves to false when the lease was lost.
   */
  readonly checkpoint: (data: Saved | null) => Promise<boolean>;
  /**
   * Adds jobs to the step of this job, which goes on until they have ended. They are enqueued when this resolves.
   * A job in no flow just enqueues them. Up to 50,000 jobs and 64 MiB of payloads; all of them are checked
   * before any I/O. A job without a key gets the key of this one. A call is repeated after transient errors and
   * adds nothing twice, but a later attempt that calls this again adds its jobs again, but for those whose ids have
   * not ended yet: the outcome `fanOut` adds them with the end of the job. Resolves to false when the lease was lost; then
   * nothing was added.
   * @throws {PgQueueError} `invalid_job`: a job can't be enqueued, has a unique key, or reads steps that this
   * job does not read; `too_many_pending`
   */
  readonly addJobs: (jobs: readonly NewJob[]) => Promise<boolean>;
  readonly log: JobLogger;
  /**
   * Runs `work` in one transaction with the settlement of this job: its writes and *done* commit together,
   * exactly once. Throws, and rolls back, when the lease was lost. After the commit the attempt is over, and
   * the handler's return value is ignored. An attempt whose handler returns before this has ended fails.
   *
   * If the task has a schema for results, the value of `work` is the job's result, and one that does not fit
   * rolls back: return the promise of `transaction`, and the compiler checks the value. Without a schema the
   * result is null.
   */
  readonly transaction: <Value>(work: (client: TransactionClient) => Promise<Value>) => Promise<Value>;
  /**
   * Same as `transaction`, in a transaction of your own library, on your own connection. `run` begins the
   * transaction and calls `settle(fromKysely(trx))` before it commits, or passes another library's adapter; a
   * `pg` client is passed as it is. `settle` rejects when the lease was lost: let that roll back.
   *
   * Resolves when the transaction has committed, even if the reply to its COMMIT was lost; then the attempt
   * is over. If it has not committed, rejects with the error of `run`, and the attempt goes on.
   *
   * If the task has a schema for results, give the result to `settle`: `settle(trx, result)`.
   */
  readonly settleIn: (run: (settle: Settle) => Promise<unknown>) => Promise<void>;
}

/**
 * Settles the job as done within the handler's own transaction, before it commits. `result`: the job's
 * result, if its task has a schema for results.
 */
export type Settle = (transaction: StatementRunner, result?: unknown) => Promise<void>;

/** A `pg` client, or an adapter for another library's transaction. */
export interface StatementRunner {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** The part of a `pg` client that a handler's transaction needs. Rows are as loosely typed as `pg`'s own. */
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

/**
 * Reason for which `ctx.signal` aborted: `signal.reason.code`. `lease_lost`: another node may have the job,
 * because its timeout ended, or because this node was declared lost or reset. `node_silent`: this node's
 * heartbeats have failed for so long that others may declare it lost at any moment.
 */
export type AbortReason = 'lease_lost' | 'cancelled' | 'timeout' | 'shutdown' | 'node_silent';

/**
 * The code of a task. It gets the checked payload; its return value is the result of the job, or an
 * {@link Outcome}. It may run more than once for a job.
 */
export type Handler<Output, Result, Saved = unknown, Needs = unknown> = (
  payload: Output,
  context: JobContext<Saved, Needs>,
) => Promise<Result | Outcome<Result>> | Result | Outcome<Result>;

/**
 * Defines a task, which producers enqueue and workers implement. Types flow from the schema to both.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function defineTask<
  Schema extends StandardSchemaV1,
  Saved extends StandardSchemaV1 = StandardSchemaV1,
  Result extends StandardSchemaV1 = StandardSchemaV1,
  Name extends string = string,
  Needs extends TaskNeeds = {},
>(
  definition: TaskDefinition<Schema, Saved, Result, Name, Needs>,
): Task<
  StandardSchemaV1.InferInput<Schema>,
  StandardSchemaV1.InferOutput<Schema>,
  StandardSchemaV1.InferOutput<Saved>,
  StandardSchemaV1.InferInput<Result>,
  Name,
  Needs
> {
  type Input = StandardSchemaV1.InferInput<Schema>;
  type Output = StandardSchemaV1.InferOutput<Schema>;
  checkDefinition(definition);
  const { version = 1, upcasters = {} } = definition;
  const { name, payload: schema, queue, key, attributes, priority, timeout, retry, result } = definition;
  const given = { queue, key, attributes, priority, timeout, retry };
  const needs = { ...definition.needs } as Needs;
  const reads = Object.keys(needs).length === 0 ? {} : { needs };
  const defaults = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as TaskDefaults<Input>;
  const check: NewJob['check'] = (payload) => whenDone(parseBy(schema, payload), problemsOf);
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
  return {
    name,
    version,
    minVersion: Math.min(version, ...Object.keys(upcasters).map(Number)),
    timeoutMs: timeout === undefined ? null : (parseDuration(timeout) ?? null),
    defaults,
    needs,
    parse: (payload): MaybePromise<Parsed<Output>> => parseBy(schema, payload),
    parseCheckpoint: async (checkpoint) => parseBy(definition.checkpoint, checkpoint),
    checkResult: result && ((given) => whenDone(parseBy(result, given), problemsOf)),
    job: (payload, given = {}) => {
      const { base, problems } = derived(ofPayload, payload);
      // options that are no object are refused later, with all other problems of the job
      const options = isPlain(given) ? { ...base, ...given, ...merged(base.retry, given.retry) } : given;
      return {
        task: name,
        ...reads,
        payloadVersion: version,
        payload,
        options,
        check:
          problems.length === 0
            ? check
            : (stored) => whenDone(check(stored), (found) => [...found, ...problems]),
      };
    },
    upcast: upcastBy({ name, version, upcasters }),
    ...schemasMember({ payload: schema, result }),
  };
}

/** Returns the function that brings payloads of older versions to the current one. */
function upcastBy({
  name,
  version,
  upcasters,
}: {
  readonly name: string;
  readonly version: number;
  readonly upcasters: Readonly<Record<number, Upcaster>>;
}): Task['upcast'] {
  const unknownVersion = (from: number): PgQueueError =>
    new PgQueueError('invalid_job', `task "${name}" knows no payload of version ${from}`, {
      data: { task: name, payloadVersion: from },
    });
  return (payload, from) => {
    let current = payload;
    for (let step = from; step < version; step += 1) {
      const upcaster = upcasters[step];
      if (upcaster === undefined) throw unknownVersion(from);
      current = upcaster(current);
    }
    if (from > version) throw unknownVersion(from);
    return current;
  };
}

/** Validates a value by a schema, synchronously when the schema is synchronous: a batch checks thousands. */
function parseBy<Schema extends StandardSchemaV1>(
  schema: Schema | undefined,
  value: unknown,
): MaybePromise<Parsed<StandardSchemaV1.InferOutput<Schema>>> {
  return whenDone(schema?.['~standard'].validate(value) ?? { value }, (result) =>
    result.issues === undefined
      ? { ok: true, payload: result.value as StandardSchemaV1.InferOutput<Schema> }
      : { ok: false, problems: issueTexts(result.issues) },
  );
}

function problemsOf(parsed: Parsed<unknown>): readonly string[] {
  return parsed.ok ? [] : parsed.problems;
}

/**
 * Derives options from the payload. An error of `key` or `attributes`, as a payload of the wrong shape may
 * cause, becomes a problem of the job and is reported with the others.
 */
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

function merged(
  base: RetryOptions | undefined,
  given: RetryOptions | undefined,
): { readonly retry?: RetryOptions } {
  if (given === undefined) return {};
  return { retry: isPlain(given) ? { ...base, ...given } : given };
}

/** Bounds on what is told of the problems that a schema has found: one may find a problem in each element of a long list. */
const issuesTold = { count: 20, characters: 1_000 } as const;

/** Describes the first problems that a schema has found, and says how many more there are. */
export function issueTexts(issues: readonly StandardSchemaV1.Issue[]): readonly string[] {
  const told = issues.slice(0, issuesTold.count).map(issueText);
  const more = issues.length - told.length;
  return more === 0 ? told : [...told, `and ${more} more`];
}

function issueText(issue: StandardSchemaV1.Issue): string {
  const path = (issue.path ?? []).map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
  const text = path === '' ? issue.message : `${path}: ${issue.message}`;
  return text.length > issuesTold.characters ? `${text.slice(0, issuesTold.characters)}…` : text;
}
