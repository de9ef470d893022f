import type { NeedCondition } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import {
  aListOf,
  aNumber,
  anObject,
  anything,
  aRecordOf,
  aText,
  checkGraph,
  createProblems,
  either,
  oneOf,
  optional,
  optionProblems,
} from '@pgqueue/core/internal';
import type { Arrival } from './arrival.ts';

/** A flow of a workload: steps, some of which wait for others. */
export interface FlowArrival {
  /** Time at which the flow is started, as that of a job. */
  readonly atMs: number;
  /** Name of the flow. Results are those of all flows of one name. */
  readonly flow: string;
  /** Id of the flow, as policies see it. Default: generated. */
  readonly id?: string;
  /** Queue of its jobs. Default `default`. */
  readonly queue?: string;
  /** Key of its jobs. Default: none, `''`. */
  readonly key?: string;
  readonly steps: readonly StepArrival[];
}

/** A step of a {@link FlowArrival}. Its jobs are enqueued when the steps that it waits for have ended. */
export interface StepArrival extends Pick<
  Arrival,
  'queue' | 'key' | 'task' | 'version' | 'priority' | 'attributes' | 'failures'
> {
  /** No other step of the flow has it. */
  readonly name: string;
  /**
   * Steps that it waits for: names, which must be `done`, or a condition for each name. A step that can't have
   * what it waits for is skipped. Default: it begins with the flow.
   */
  readonly after?: readonly string[] | Readonly<Record<string, NeedCondition>>;
  /**
   * Duration of each attempt, in milliseconds: of all its jobs, or a list with that of each job. Missing: the
   * step has no jobs, and waits for `delayMs`, as a timer or for somebody.
   */
  readonly durationMs?: number | readonly number[];
  /** Number of jobs, when `durationMs` is a number. Default 1. */
  readonly count?: number;
  /** Time from the end of what the step waits for until its jobs are enqueued, or without jobs, until its end. */
  readonly delayMs?: number;
}

/** Most jobs of one flow in a simulation, which holds them in memory. */
const jobsMax = 10_000_000;

const aTime = aNumber({ min: 0 });
const conditions = ['done', 'ended', 'failed'] as const satisfies readonly NeedCondition[];

const stepShape: Shape<StepArrival> = {
  name: aText(),
  after: optional(
    either(
      aListOf(aText(), 'a list of steps'),
      aRecordOf(oneOf(...conditions), 'an object with a condition for each step'),
    ),
  ),
  durationMs: optional(either(aTime, aListOf(aTime, 'a list with the milliseconds of each job'))),
  count: optional(aNumber({ min: 1, max: jobsMax, whole: true })),
  delayMs: optional(aTime),
  queue: optional(aText()),
  key: optional(aText({ min: 0 })),
  task: optional(aText()),
  version: optional(aNumber({ min: 1, whole: true })),
  priority: optional(aNumber({ whole: true })),
  attributes: optional(aRecordOf(anything)),
  failures: optional(aNumber({ min: 0, whole: true })),
};

const flowShape: Shape<FlowArrival> = {
  atMs: aNumber(),
  flow: aText(),
  id: optional(aText()),
  queue: optional(aText()),
  key: optional(aText({ min: 0 })),
  steps: aListOf(anObject(stepShape), 'a list of steps'),
};

/** The members of a step that say nothing about what it waits for. */
const plainStep = {
  kind: 'jobs',
  wants: 'all',
  jobs: [],
  tasks: new Set<string>(),
  delayMs: null,
  stopAfter: null,
  reads: [],
} as const;

/** Reports whether an arrival is a flow, or was meant to be one. */
export function isFlowArrival(arrival: Arrival | FlowArrival): arrival is FlowArrival {
  return 'steps' in arrival || 'flow' in arrival;
}

/** Returns all problems of a flow of a workload. */
export function flowProblems(arrival: FlowArrival): readonly string[] {
  const problems = createProblems();
  for (const problem of optionProblems(arrival, flowShape)) problems.add(problem);
  const { steps } = arrival as { readonly steps: unknown };
  const readable = (Array.isArray(steps) ? (steps as readonly unknown[]) : []).filter(isReadable);
  if (Array.isArray(steps) && steps.length === 0) problems.add('it has no steps');
  for (const step of readable) for (const problem of jobProblems(step)) problems.add(problem);
  checkGraph(
    readable.map((step) => ({ ...plainStep, name: step.name, needs: new Map(needsOf(step)) })),
    problems,
  );
  if (readable.reduce((sum, step) => sum + jobsOf(step), 0) > jobsMax)
    problems.add(`it has more than ${jobsMax} jobs`);
  return problems.told();
}

function isReadable(step: unknown): step is StepArrival {
  return typeof step === 'object' && step !== null && 'name' in step && typeof step.name === 'string';
}

function jobProblems({ name, durationMs, count, delayMs }: StepArrival): readonly string[] {
  const step = `step ${JSON.stringify(name)}`;
  if (durationMs === undefined && count !== undefined)
    return [`${step}: count is for jobs: give durationMs, too`];
  if (durationMs === undefined && delayMs === undefined)
    return [`${step}: give durationMs, or delayMs for a step without jobs`];
  if (Array.isArray(durationMs) && count !== undefined)
    return [`${step}: durationMs lists each job, so leave count out`];
  return [];
}

/** Returns the steps that a step waits for, with their conditions. */
export function needsOf({ after = [] }: StepArrival): readonly (readonly [string, NeedCondition])[] {
  if (Array.isArray(after)) {
    const names = (after as readonly unknown[]).filter((name) => typeof name === 'string');
    return names.map((name) => [name, 'done'] as const);
  }
  if (typeof after !== 'object' || after === null) return [];
  // a condition that is none is a problem by itself
  return Object.entries(after).map(([name, given]) => [
    name,
    conditions.find((condition) => condition === given) ?? 'done',
  ]);
}

/** Returns the number of jobs of a step. */
export function jobsOf({ durationMs, count = 1 }: StepArrival): number {
  if (typeof durationMs === 'number') return count;
  return Array.isArray(durationMs) ? durationMs.length : 0;
}

/** Returns the number of jobs of a flow. */
export function jobsOfFlow({ steps }: FlowArrival): number {
  return steps.reduce((sum, step) => sum + jobsOf(step), 0);
}
