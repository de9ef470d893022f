import type { NewJob, TraceContext } from '@pgqueue/core';
import type { FlowRow, JobRow } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { isTraceparent, toJobRow, toJobRows } from '@pgqueue/core/internal';
import { carrying } from '@pgqueue/telemetry/internal';

/** Gives the trace context of what runs now; what it throws is dropped. */
export type TraceSource = () => Partial<TraceContext> | undefined;

/** One job as its row; a promise where its schema is asynchronous. @throws {PgQueueError} `invalid_job` */
export function toRow(
  job: NewJob,
  { trace, makeId }: { readonly trace: TraceSource | undefined; readonly makeId: () => string },
): JobRow | Promise<JobRow> {
  const needs = Object.keys(job.needs ?? {});
  if (needs.length > 0) {
    throw new PgQueueError(
      'invalid_job',
      `job of task ${JSON.stringify(job.task)} can't be enqueued: it reads results of the steps ${needs.join(', ')}; make it a step of a flow`,
      { data: { problems: ['it must be a step of a flow'] } },
    );
  }
  return toJobRow(traced(job, trace), makeId);
}

/**
 * A batch as its rows: all of them, or none.
 * @throws {PgQueueError} `invalid_job`; names the jobs by their index, with everything that is wrong with each
 */
export function toRows(
  jobs: readonly NewJob[],
  parts: Parameters<typeof toRow>[1],
): Promise<readonly JobRow[]> {
  return toJobRows(jobs, (job) => toRow(job, parts));
}

function traced(job: NewJob, trace: TraceSource | undefined): NewJob {
  if (trace === undefined || job.options?.trace !== undefined) return job;
  const context = sourceTrace(trace);
  return context === undefined ? job : { ...job, options: { ...job.options, trace: context } };
}

/** The trace context that a source gives; undefined: none that is valid. */
export function sourceTrace(trace: TraceSource | undefined): TraceContext | undefined {
  try {
    const { traceparent, tracestate } = trace?.() ?? {};
    if (!isTraceparent(traceparent)) return undefined;
    return { traceparent, ...(typeof tracestate === 'string' ? { tracestate } : {}) };
  } catch {
    return undefined; // telemetry that fails must not stop work
  }
}

/** A flow with a trace context, for itself and for those of its jobs that have none of their own. */
export function carriedBy(row: FlowRow, trace: TraceContext | undefined): FlowRow {
  const carried = row.trace ?? trace;
  if (carried === undefined) return row;
  const steps = row.steps.map((step) => ({
    ...step,
    jobs: carrying(step.jobs, { ...carried, flow: row.id, step: step.name }),
  }));
  return { ...row, trace: carried, steps };
}
