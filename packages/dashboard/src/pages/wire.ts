import type { ErrorData } from '@pgqueue/core';
import { errorLine, errorTexts } from '@pgqueue/core/internal';
import type { QueueInfo, Status } from '@pgqueue/postgres';
import type { AttemptError as StoredError } from '@pgqueue/postgres/internal';
import type { ListedJob } from '@pgqueue/postgres/internal/dashboard';
import type {
  AttemptError,
  Count,
  Depths,
  FlowCounts,
  JobRow,
  JsonValue,
  Time,
  Warning,
  WorkerUse,
} from '../contract.ts';

/** Converts a date for the wire; null for null, and for invalid and infinite ones, which the driver returns as numbers. */
export function timeOf(date: Date): Time;
export function timeOf(date: Date | null): Time | null;
export function timeOf(date: Date | number | null): Time | null {
  return date instanceof Date && Number.isFinite(date.getTime()) ? date.toISOString() : null;
}

export function exactly(count: number): Count {
  return { count, kind: 'exact' };
}

export function atLeast(count: number, more: boolean): Count {
  return { count, kind: more ? 'at_least' : 'exact' };
}

/** Types a value parsed from JSON; undefined becomes null. */
export function jsonOf(value: unknown): JsonValue {
  return (value ?? null) as JsonValue;
}

type Numbers = Pick<
  QueueInfo,
  'exact' | 'delayed' | 'pending' | 'ready' | 'running' | 'dead' | 'oldestMs' | 'claimAgeMs' | 'retryRate'
>;

/** Converts depths. If not every job was counted, numbers above 1,000 may be estimates. */
export function depthsOf(numbers: Numbers): Depths {
  const { exact, oldestMs, claimAgeMs, retryRate } = numbers;
  const count = (of: number): Count => ({ count: of, kind: exact || of <= 1_000 ? 'exact' : 'about' });
  return {
    delayed: count(numbers.delayed),
    pending: count(numbers.pending),
    // work items are always counted exactly
    ready: exactly(numbers.ready),
    running: exactly(numbers.running),
    dead: count(numbers.dead),
    oldestMs,
    claimAgeMs,
    retryRate,
  };
}

export function workersOf({ nodes }: Pick<Status, 'nodes'>): WorkerUse {
  const { alive, slots, slotsInUse, leases } = nodes;
  return { nodes: alive, slots, slotsInUse, leases, use: slots === 0 ? null : slotsInUse / slots };
}

/** Converts the numbers of flows. `failed`: counted up to `max` + 1. */
export function flowCountsOf(
  { flows: { open, more, oldestMs } }: Pick<Status, 'flows'>,
  { failed, max }: { readonly failed: number; readonly max: number },
): FlowCounts {
  return {
    open: atLeast(open, more),
    failed: atLeast(Math.min(failed, max), failed > max),
    oldestMs,
  };
}

export function warningsOf({ warnings }: Status): readonly Warning[] {
  return warnings.map(({ kind, message }) => ({ kind, message }));
}

export function jobRowOf(job: ListedJob): JobRow {
  const { created, runAfter, started, finished, crashes, ...row } = job;
  return {
    ...row,
    crashes,
    created: timeOf(created),
    runAfter: timeOf(runAfter),
    started: timeOf(started),
    finished: timeOf(finished),
  };
}

export function errorOf(error: StoredError | null): AttemptError {
  return {
    kind: error?.kind ?? 'error',
    name: errorTexts(error).name,
    message: errorLine(error),
    stack: stackOf(error),
  };
}

const causesMax = 5;

/** Joins the error's own stack with those of up to 5 causes. */
function stackOf(error: StoredError | null): string | null {
  const stacks: string[] = [];
  let cause: Partial<ErrorData> | null | undefined = error;
  for (let depth = 0; depth <= causesMax && typeof cause === 'object' && cause !== null; depth += 1) {
    if (cause.stack !== undefined) stacks.push(textOf(cause.stack));
    cause = cause.cause;
  }
  return stacks.length === 0 ? null : stacks.join('\n\ncaused by: ');
}

/** Converts a value to text: rows written by other programs may hold anything. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}
