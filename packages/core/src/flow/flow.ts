import type { AnySteps, Fits, FreshName, StepOptions, WithStep, WithSteps } from './step-types.ts';
import type { FlowStep, AnyFlow, StepWork } from './step.ts';
import { readStep } from './read-step.ts';

/**
 * A graph of steps: what runs, and in which order. A value that never changes: each `step` returns another
 * flow. Made by {@link flow}, started by `producer.start`. `Flow` without a parameter is for steps that a
 * loop adds: their names and needs are checked when the flow is started.
 */
export interface Flow<Steps = AnySteps> extends AnyFlow, WithSteps<Steps> {
  /**
   * Returns a flow with one more step.
   * @param name 1 to 200 characters; no other step of the flow has it
   * @param work a job, a list of jobs, `signal(schema)`, `timer(duration)`, or another flow, whose steps are
   * put in as `name.step`; those of them that need no other step get the needs given here
   * @param options what it needs first
   */
  step<const Name extends string, const Work extends StepWork>(
    name: FreshName<Name, Steps>,
    work: Work & Fits<Work, Steps>,
    options?: StepOptions<Steps>,
  ): Flow<WithStep<Steps, Name, Work>>;
}

/**
 * Begins a flow. Nothing is checked until it is started: then all problems are told at once.
 * @param name 1 to 200 characters, by which operators find its runs
 */
export function flow(name: string): Flow<{}> {
  return flowOf(name, undefined);
}

/** Last step of a flow, with all before it. Steps added in a loop would be copied with each other step. */
interface Chain {
  readonly before: Chain | undefined;
  readonly step: FlowStep;
}

function flowOf<Steps>(name: string, chain: Chain | undefined): Flow<Steps> {
  let steps: readonly FlowStep[] | undefined;
  return {
    kind: 'pgqueue.flow',
    name,
    get steps() {
      return (steps ??= listOf(chain));
    },
    step: (added: unknown, work: unknown, options: unknown) =>
      flowOf(name, { before: chain, step: readStep(added, work, options) }),
  };
}

function listOf(chain: Chain | undefined): readonly FlowStep[] {
  const steps: FlowStep[] = [];
  for (let at = chain; at !== undefined; at = at.before) steps.push(at.step);
  return steps.reverse();
}
