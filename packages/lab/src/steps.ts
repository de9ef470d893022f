import type { NeedCondition } from '@pgqueue/core';
import type { FlowArrival, StepArrival } from './workloads/flow-arrival.ts';

/** Outcome of a step. `failed`: a job of it is dead. `skipped`: it can't have what it waits for. */
export type StepOutcome = 'done' | 'failed' | 'skipped';

/** Counts of the flows of one name. */
export interface FlowTally {
  arrived: number;
  done: number;
  failed: number;
  /** Times from start to end, in milliseconds, of flows that are done. */
  readonly makespans: number[];
}

/** A flow during a simulation. */
export interface SimFlow {
  readonly id: string;
  readonly given: FlowArrival;
  readonly tally: FlowTally;
  /** Number of steps that have not ended. */
  left: number;
  steps: readonly SimStep[];
}

/** A step during a simulation. */
export interface SimStep {
  readonly flow: SimFlow;
  readonly given: StepArrival;
  /** Number of its first job among all jobs of the workload, by which random numbers are drawn. */
  readonly firstDraw: number;
  /** Steps that it waits for. */
  readonly needed: SimStep[];
  readonly dependents: { readonly step: SimStep; readonly condition: NeedCondition }[];
  state: 'blocked' | 'open' | 'ended';
  /** Undefined: it has not ended. */
  outcome: StepOutcome | undefined;
  /** Number of steps that it waits for and that have not ended. */
  needs: number;
  /** Number of its jobs that have not ended. */
  jobs: number;
  dead: boolean;
}
