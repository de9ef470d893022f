import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { NewJob } from '../job/job.ts';
import type { AnyFlow, NeedCondition, Signal } from './step.ts';

/** Names a member that no flow has: it carries the types of the flow's steps. */
declare const stepTypes: unique symbol;

/** The part of a flow's type that knows its steps. */
export interface WithSteps<Steps> {
  /** Exists in types only. */
  readonly [stepTypes]?: Steps;
}

/** Steps that are not known until the flow is built: by a loop, for example. */
export type AnySteps = Readonly<Record<string, unknown>>;

/** Names of the steps so far. */
export type StepName<Steps> = keyof Steps & string;

/** A name that no step has yet; otherwise a text that says so. */
export type FreshName<Name extends string, Steps> =
  IsOpen<Name> extends true
    ? Name
    : string extends keyof Steps
      ? Name
      : Name extends keyof Steps
        ? `there is a step "${Name}" already`
        : Name;

/** Options of a step. */
export interface StepOptions<Steps = AnySteps> {
  /**
   * Steps that this one waits for: names, which must be `done`, or a condition for each name. Those that the
   * step's tasks need are among them in any case; `done`, unless another condition is given here.
   */
  readonly needs?: readonly StepName<Steps>[] | { readonly [Name in StepName<Steps>]?: NeedCondition };
  /** `any`: one need whose condition is met is enough. Default `all`. */
  readonly wants?: 'all' | 'any';
  /**
   * Number of failed jobs, 1 to 100,000, after which the step's other waiting jobs are cancelled. Default:
   * they all run. For steps of jobs.
   */
  readonly stopAfter?: number;
}

/** Types of a flow's steps after one more step. */
export type WithStep<Steps, Name extends string, Work> = string extends keyof Steps
  ? Steps
  : Work extends AnyFlow & WithSteps<infer Inner>
    ? Steps & { readonly [Step in StepName<Inner> as `${Name}.${Step}`]: Inner[Step] }
    : Steps & Readonly<Record<Name, KindOf<Work>>>;

/**
 * Unknown when the flow has every step that the tasks of these jobs need, with jobs of the right task or a
 * signal of the right type; otherwise a text that says which one is missing.
 */
export type Fits<Work, Steps> = string extends keyof Steps
  ? unknown
  : [Missing<NeedsIn<Work>, Steps>] extends [never]
    ? unknown
    : Missing<NeedsIn<Work>, Steps>;

/** Types of the steps of a flow. Any, if they are not known until it is built. */
export type StepsOf<Of extends AnyFlow> =
  Of extends WithSteps<infer Steps> ? (unknown extends Steps ? AnySteps : Steps) : AnySteps;

/** Type of the results of a step's jobs, or of the value of a signal. Unknown, if the step is. */
export type StepValue<Steps, Name> = Name extends keyof Steps
  ? Steps[Name] extends { readonly result: infer Result }
    ? Result
    : Steps[Name] extends { readonly signal: infer Value }
      ? Value
      : unknown
  : unknown;

/** Contents of a step, as other steps see them. */
type KindOf<Work> =
  Work extends Signal<infer Schema>
    ? { readonly signal: StandardSchemaV1.InferInput<Schema> }
    : [JobIn<Work>] extends [never] // an empty list fits every task
      ? { readonly task: never }
      : JobIn<Work> extends NewJob<infer Result, infer Task>
        ? { readonly task: Task; readonly result: Result }
        : { readonly timer: true };

type JobIn<Work> = Work extends readonly (infer Job)[] ? Job : Work;
type NeedsIn<Work> =
  JobIn<Work> extends infer Job ? (Job extends NewJob<unknown, string, infer Needs> ? Needs : never) : never;

/** Distributes over the needs of several tasks. */
type Missing<Needs, Steps> = Needs extends unknown
  ? { readonly [Name in keyof Needs & string]: Lacking<Name, Needs[Name], Steps> }[keyof Needs & string]
  : never;

type Lacking<Name extends string, Need, Steps> = Name extends keyof Steps
  ? Need extends { readonly '~standard': unknown }
    ? Need extends StandardSchemaV1
      ? Steps[Name] extends { readonly signal: StandardSchemaV1.InferInput<Need> }
        ? never
        : `step "${Name}" must be a signal of the type that its task needs`
      : never
    : Need extends { readonly name: infer Task extends string }
      ? Steps[Name] extends { readonly task: Task }
        ? never
        : `step "${Name}" must have jobs of task "${Task}"`
      : never
  : `a task of this step needs a step "${Name}", which must stand before it`;

/** True for `string` and for templates with an open part, which stand for any number of names. */
type IsOpen<Name extends string> = {} extends Record<Name, 1> ? true : false;
