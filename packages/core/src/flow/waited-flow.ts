import type { JobRow } from '../job/job.ts';
import type { FlowRow, FlowStepRow } from './to-flow-row.ts';

/** A job that waits for a flow of its own, under a name that its handler gives the wait. */
export interface FlowWaiter {
  readonly task: string;
  readonly key: string;
  readonly name: string;
}

/** Most characters of each of the names that a flow's name is made of; `signal_job` does the same. */
const partMax = 99;

/** Returns the flow of one step with the jobs that a handler waits for. */
export function waitedFlowRow(id: string, waiting: FlowWaiter, jobs: readonly JobRow[]): FlowRow {
  return flowOf(id, waiting, [stepOf(waiting.name, { jobs })]);
}

/**
 * Returns the flow of the signal that a handler waits for. With a timeout, a step without jobs needs either the
 * signal or the time: so the flow ends with the first of them.
 */
export function signalFlowRow(id: string, waiting: FlowWaiter, timeoutMs: number | null): FlowRow {
  const { name } = waiting;
  const signal = stepOf(name, { kind: 'signal' });
  if (timeoutMs === null) return flowOf(id, waiting, [signal]);
  const time = stepOf(`${name}: timeout`, { kind: 'timer', delayMs: timeoutMs });
  const needs = [
    [0, 'done'],
    [1, 'done'],
  ] as const;
  return flowOf(id, waiting, [signal, time, stepOf(`${name}: end`, { wants: 'any', needs })]);
}

function flowOf(id: string, { task, key, name }: FlowWaiter, steps: readonly FlowStepRow[]): FlowRow {
  return {
    id,
    name: `${task.slice(0, partMax)}: ${name.slice(0, partMax)}`.toWellFormed(),
    key,
    uniqueKey: null,
    deadlineMs: null,
    trace: null,
    steps,
  };
}

function stepOf(name: string, step: Partial<FlowStepRow>): FlowStepRow {
  return {
    name,
    kind: 'jobs',
    wants: 'all',
    needs: [],
    delayMs: null,
    stopAfter: null,
    jobs: [],
    ...step,
  };
}
