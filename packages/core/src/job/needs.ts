import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Rule } from '../options/options.ts';
import { aText, valueProblems } from '../options/options.ts';
import type { NewJob } from './job.ts';

/** The part of a task that says what its jobs and their results are. */
export interface NeededTask {
  readonly name: string;
  readonly job: (...given: never) => NewJob;
}

/** Steps that a task reads: by name, the task of a step's jobs, or the schema of a signal. */
export type TaskNeeds = Readonly<Record<string, NeededTask | StandardSchemaV1>>;

/** Result of a job that is done, or value of a signal. */
export interface NeedResult<Result = unknown> {
  /** Id of the job; of the flow, for a signal. */
  readonly job: string;
  readonly outcome: 'done';
  readonly result: Result;
}

/** A job that ended without being done. */
export interface NeedFailure {
  readonly job: string;
  readonly outcome: 'dead' | 'cancelled' | 'expired' | 'erased';
}

/**
 * A step that a running job reads. Iterates over the results of its jobs in the order of their ids, a page at
 * a time. Jobs that are done without a result are counted only. Jobs of other tasks that the step's own jobs have added
 * are among them, and their results may be of another type. A result that could not be stored throws `result_lost`.
 */
export interface Need<Result = unknown> extends AsyncIterable<NeedResult<Result>> {
  /** Null: it has not ended, since the step wants `any` of its needs. */
  readonly outcome: 'done' | 'failed' | 'cancelled' | 'skipped' | null;
  /** Number of jobs that are done. */
  readonly done: number;
  /** Number of dead jobs. */
  readonly failed: number;
  /** Number of jobs that were cancelled, expired or erased. */
  readonly other: number;
  /** Jobs that are not done. One that was put back is listed and counted by its former end until it ends again. */
  readonly failures: AsyncIterable<NeedFailure>;
  /**
   * Resolves to the first result: that of the only job, or the value of a signal.
   * @throws {PgQueueError} `not_found`: there is none; `result_lost`: it could not be stored
   */
  one(): Promise<Result>;
}

/** Needs of a task as its handler reads them. */
export type Needed<Needs> = 0 extends 1 & Needs
  ? // handlers of different tasks fit into one list
    // oxlint-disable-next-line typescript/no-explicit-any
    any
  : { readonly [Name in keyof Needs]: Need<ResultOf<Needs[Name]>> };

type ResultOf<Needing> = Needing extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<Needing>
  : Needing extends { readonly job: (...given: never) => NewJob<infer Result> }
    ? Result
    : unknown;

/** Rule for the needs of a task. */
export function aNeedsRecord(aSchema: Rule): Rule {
  const expected = 'a task, or the schema of a signal';
  const aName = aText({ max: 200 });
  const judge = (need: unknown, path: string): boolean | readonly string[] =>
    isNeededTask(need) || aSchema.judge(need, path);
  return {
    expected: 'an object with a task or a schema for each step',
    judge: (value, path) =>
      typeof value === 'object' &&
      value !== null &&
      !Array.isArray(value) &&
      Object.entries(value).flatMap(([name, need]) => [
        ...(name === '__proto__'
          ? [`${path} must not have a name __proto__`]
          : valueProblems(aName, name, `a name in ${path}`)),
        ...valueProblems({ expected, judge }, need, `${path}.${name}`),
      ]),
  };
}

/** Reports whether a need is a task; otherwise it is the schema of a signal. */
export function isNeededTask(need: unknown): need is NeededTask {
  if (typeof need !== 'object' || need === null) return false;
  const { name, job } = need as Partial<NeededTask>;
  return typeof name === 'string' && typeof job === 'function';
}

/**
 * Returns the name among those of needed steps that a task means by `need`; undefined: none. In a nested flow
 * the names of all steps begin with its prefix, which the task does not know.
 */
export function stepOfNeed(need: string, steps: readonly string[]): string | undefined {
  return steps
    .filter((step) => step === need || step.endsWith(`.${need}`))
    .sort((one, other) => one.length - other.length)[0];
}
