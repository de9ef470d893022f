import { randomFillSync } from 'node:crypto';
import type { NewJob, TraceContext } from '@pgqueue/core';
import type { FlowRow, JobRow } from '@pgqueue/core/internal';
import type { Sending } from '@pgqueue/telemetry/internal';
import { PgQueueError, uuidV7 } from '@pgqueue/core';
import { isTraceparent, jobLimits, toJobRow } from '@pgqueue/core/internal';

/** Gives the trace context of what runs now; what it throws is dropped. */
export type TraceSource = () => Partial<TraceContext> | undefined;

/** Problems of this many jobs are told at most. */
const toldMax = 10;

/** One job as its row; a promise where its schema is asynchronous. @throws {PgQueueError} `invalid_job` */
export function toRow(job: NewJob, trace: TraceSource | undefined): JobRow | Promise<JobRow> {
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
export async function toRows(
  jobs: readonly NewJob[],
  trace: TraceSource | undefined,
): Promise<readonly JobRow[]> {
  const { batchMax, batchBytesMax } = jobLimits;
  if (jobs.length > batchMax) {
    throw new PgQueueError(
      'invalid_job',
      `${jobs.length} jobs in one batch, more than ${batchMax}: split it`,
    );
  }
  const rows: JobRow[] = [];
  const wrong: { readonly index: number; readonly task: string; readonly problems: unknown }[] = [];
  const messages: string[] = [];
  let bytes = 0;
  for (const [index, job] of jobs.entries()) {
    try {
      const made = toRow(job, trace);
      const row = 'payload' in made ? made : await made;
      bytes += Buffer.byteLength(row.payload);
      rows.push(row);
    } catch (error) {
      if (!(error instanceof PgQueueError) || error.code !== 'invalid_job') throw error;
      const { message, data } = error;
      wrong.push({ index, task: job.task, problems: data['problems'] });
      messages.push(`jobs[${index}]: ${message}`);
      if (wrong.length === toldMax) break;
    }
  }
  if (wrong.length > 0) {
    throw new PgQueueError('invalid_job', messages.join('\n'), {
      data: { index: wrong[0]?.index, jobs: wrong },
    });
  }
  if (bytes > batchBytesMax) {
    throw new PgQueueError(
      'invalid_job',
      `${bytes} bytes of payloads in one batch, more than ${batchBytesMax}: split it`,
    );
  }
  return rows;
}

/** Destination of the jobs, for their span. */
export function sendingOf(rows: readonly JobRow[]): Sending {
  const [first] = rows;
  const same = (of: (row: JobRow) => string): string | undefined =>
    first !== undefined && rows.every((row) => of(row) === of(first)) ? of(first) : undefined;
  return { queue: same(({ queue }) => queue), task: same(({ task }) => task), jobs: rows.length };
}

/** The rows with the trace context of their enqueue, but for those that have one of their own. */
export function carrying(rows: readonly JobRow[], trace: TraceContext): readonly JobRow[] {
  return rows.map((row) => (row.trace === null ? { ...row, trace } : row));
}

/** Random bytes are drawn for so many ids at once: a call for each takes five times as long as all else that an id does. */
const idsDrawn = 256;
const idBytes = 10;
const drawn = Buffer.alloc(idsDrawn * idBytes);
let used = drawn.length;

/** Makes a UUID v7. */
export function makeId(): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  used += idBytes;
  return uuidV7(Date.now(), drawn.subarray(used - idBytes, used));
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
  const steps = row.steps.map((step) => ({ ...step, jobs: carrying(step.jobs, carried) }));
  return { ...row, trace: carried, steps };
}
