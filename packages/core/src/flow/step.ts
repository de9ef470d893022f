import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { NewJob } from '../job/job.ts';
import type { Duration } from '../options/duration.ts';

/**
 * Outcome that a step waits for. `done`: all of the needed step's jobs are done, or its signal or time has
 * come. `ended`: the needed step has ended in any way. `failed`: a job of it is dead, or was cancelled.
 */
export type NeedCondition = 'done' | 'ended' | 'failed';

/** A step that waits for a value from outside. Made by {@link signal}. */
export interface Signal<Schema extends StandardSchemaV1 = StandardSchemaV1> {
  readonly kind: 'pgqueue.signal';
  readonly schema: Schema;
}

/** Value that a signal takes: `SignalInput<typeof approval>`. */
export type SignalInput<S extends Signal> =
  S extends Signal<infer Schema> ? StandardSchemaV1.InferInput<Schema> : never;

/** A step that waits for a time. Made by {@link timer}. */
export interface Timer {
  readonly kind: 'pgqueue.timer';
  readonly delay: Duration;
}

/** A flow, whatever its steps are. */
export interface AnyFlow {
  readonly kind: 'pgqueue.flow';
  readonly name: string;
  readonly steps: readonly FlowStep[];
}

/** Contents of a step: a job or jobs, a signal, a timer, or the steps of another flow. */
export type StepWork = NewJob | readonly NewJob[] | Signal | Timer | AnyFlow;

/** One step of a flow, as it was given: checked when the flow is started. */
export interface FlowStep {
  readonly name: string;
  readonly work: StepWork;
  readonly needs: readonly (readonly [step: string, condition: NeedCondition])[];
  readonly wants: 'all' | 'any';
  readonly stopAfter: number | null;
  /** Problems of its options, in words. */
  readonly problems: readonly string[];
}

/**
 * Makes a step that waits for a value: `producer.signal(flowId, step, value)`. The first value wins, also
 * when it comes before the step has begun.
 * @param schema schema of the value, any Standard Schema
 */
export function signal<Schema extends StandardSchemaV1>(schema: Schema): Signal<Schema> {
  return { kind: 'pgqueue.signal', schema };
}

/** Makes a step that is done some time after what it needs. */
export function timer(delay: Duration): Timer {
  return { kind: 'pgqueue.timer', delay };
}
