import type { Duration } from '../options/duration.ts';
import type { Attributes } from './job.ts';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { parseDuration } from '../options/duration.ts';
import { throwProblems } from '../errors.ts';
import type { Rule, Shape } from '../options/options.ts';
import {
  aFunction,
  aNumber,
  anything,
  aRecordOf,
  aText,
  either,
  optional,
  optionProblems,
} from '../options/options.ts';
import type { TaskNeeds } from './needs.ts';
import { aNeedsRecord } from './needs.ts';
import type { RetryOptions } from './retry-policy.ts';
import { retryProblems } from './retry-policy.ts';

export function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A schema of any library that follows Standard Schema. */
export const aSchema: Rule = {
  expected: 'a Standard Schema (zod, valibot, arktype, …)',
  judge: (value) => {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
    const { '~standard': standard } = value as Partial<StandardSchemaV1>;
    return typeof standard?.validate === 'function';
  },
};

const aPositiveDuration: Rule = {
  expected: 'a positive duration: milliseconds, or a text such as "30s"',
  judge: (value) => (parseDuration(value) ?? 0) > 0,
};

const aRetry: Rule = {
  expected: 'an object',
  judge: (value) => retryProblems(value as RetryOptions),
};

const shape: Shape<TaskDefinition<StandardSchemaV1>> = {
  name: aText({ max: 200 }),
  payload: aSchema,
  version: optional(aNumber({ min: 1, whole: true })),
  upcasters: optional(aRecordOf(aFunction, 'an object with a function for each version')),
  queue: optional(aText({ max: 100 })),
  key: optional(either(aText({ min: 0, max: 200 }), aFunction)),
  attributes: optional(either(aRecordOf(anything), aFunction)),
  priority: optional(aNumber({ min: -2_147_483_648, max: 2_147_483_647, whole: true })),
  timeout: optional(aPositiveDuration),
  retry: optional(aRetry),
  checkpoint: optional(aSchema),
  result: optional(aSchema),
  needs: optional(aNeedsRecord(aSchema)),
};

/**
 * Checks the definition of a task.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function checkDefinition(definition: unknown): void {
  const problems = optionProblems(definition, shape);
  const {
    name,
    version = 1,
    upcasters = {},
  } = isPlain(definition) ? (definition as Partial<TaskDefinition<StandardSchemaV1>>) : {};
  throwProblems('configuration', typeof name === 'string' ? `task ${JSON.stringify(name)}` : 'defineTask', [
    ...problems,
    ...(isPlain(upcasters) ? gapProblems(version, Object.keys(upcasters).map(Number)) : []),
  ]);
}

function gapProblems(version: number, given: readonly number[]): readonly string[] {
  const versions = given.toSorted((a, b) => a - b);
  const first = version - versions.length;
  if (versions.length === 0 || (first >= 1 && versions.every((from, index) => from === first + index)))
    return [];
  return [
    `upcasters must reach from some version of 1 or more to ${version - 1} without a gap; found ${versions.join(', ')}`,
  ];
}

/**
 * Defaults of a task for its jobs, used when an enqueue does not set the option. `key` and `attributes` may
 * be derived from the payload.
 */
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

/** Definition for {@link defineTask}: name, payload schema, and defaults for its jobs. */
export interface TaskDefinition<
  Schema extends StandardSchemaV1,
  Saved extends StandardSchemaV1 = StandardSchemaV1,
  Result extends StandardSchemaV1 = StandardSchemaV1,
  Name extends string = string,
  Needs extends TaskNeeds = TaskNeeds,
> extends TaskDefaults<StandardSchemaV1.InferInput<Schema>> {
  /** 1 to 200 characters. Stored with every job, so don't rename it while jobs wait. */
  readonly name: Name;
  /**
   * Any Standard Schema: zod, valibot, arktype and others. Payloads are checked at enqueue, and again before
   * the handler.
   */
  readonly payload: Schema;
  /**
   * Version of the payload's shape, from 1. Raise it when jobs in flight would not fit the new shape.
   * Default 1.
   */
  readonly version?: number;
  /**
   * Upcasters by version. Each makes a payload of the next version. Nodes run the versions from the oldest
   * upcaster on.
   */
  readonly upcasters?: Readonly<Record<number, Upcaster>>;
  /** Schema of the data that `ctx.checkpoint` saves. It must not transform them. Default: any JSON. */
  readonly checkpoint?: Saved;
  /**
   * Schema of the job's result. An attempt whose result does not fit fails, and is retried by the policy. It
   * must not transform the result: the JSON of what the handler returned is stored. Default: any JSON,
   * unchecked.
   */
  readonly result?: Result;
  /**
   * Steps whose results the handler reads as `ctx.needs`: by name, the task of a step's jobs, or the schema of
   * a signal. Its jobs can only be enqueued as steps of a flow that has those steps, and wait for them.
   */
  readonly needs?: Needs;
}
