import type { JobSummary } from '@pgqueue/postgres';
import type { AttemptError } from '@pgqueue/postgres/internal';
import type { TimelineEntry } from '../contract.ts';
import { errorOf, timeOf } from './wire.ts';

/** Returns the recorded events of a job's life, in order of time. */
export function timelineOf({
  job,
  errors,
  dispatched,
  nowMs,
}: {
  readonly job: JobSummary;
  readonly errors: readonly AttemptError[];
  readonly dispatched: Date | undefined;
  /** Time by the database's clock. */
  readonly nowMs: number;
}): readonly TimelineEntry[] {
  // only the newest 100 errors are kept; a redriven job counts its tries from 0 again but keeps its errors
  const before = Math.max(0, job.tries + job.crashes - errors.length);
  const failed = errors.map((error, index) => failedOf(error, before + index + 1));
  const attempt = before + errors.length + 1;
  return [
    { kind: 'created', at: timeOf(job.created) },
    ...failed,
    ...presentOf({ job, dispatched, nowMs, attempt }),
    ...endOf(job),
  ];
}

/** Converts a failed attempt; rows of other writers may hold anything. */
function failedOf(error: AttemptError | null, attempt: number): TimelineEntry {
  const { ms, node = null } = error ?? {};
  const at = new Date(error?.at ?? Number.NaN);
  const durationMs = typeof ms === 'number' && Number.isFinite(ms) && ms >= 0 ? ms : null;
  return {
    kind: 'failed',
    attempt,
    at: timeOf(at) ?? '',
    started: durationMs === null ? null : timeOf(new Date(at.getTime() - durationMs)),
    durationMs,
    node,
    error: errorOf(error),
  };
}

function presentOf({
  job,
  dispatched,
  nowMs,
  attempt,
}: {
  readonly job: JobSummary;
  readonly dispatched: Date | undefined;
  readonly nowMs: number;
  readonly attempt: number;
}): readonly TimelineEntry[] {
  if (job.finished !== null) return [];
  if (job.status === 'delayed')
    return job.runAfter === null ? [] : [{ kind: 'due', at: timeOf(job.runAfter) }];
  const position = job.position === null ? null : String(job.position);
  const scheduled: readonly TimelineEntry[] =
    dispatched === undefined ? [] : [{ kind: 'dispatched', at: timeOf(dispatched), position }];
  if (job.started === null || job.node === null) return scheduled;
  return [
    ...scheduled,
    {
      kind: 'running',
      attempt,
      at: timeOf(job.started),
      durationMs: Math.max(0, nowMs - job.started.getTime()),
      node: job.node,
      leaseEnds: timeOf(job.leaseEnds),
      cancelAsked: timeOf(job.cancelAsked),
    },
  ];
}

function endOf({ status, finished, started, node, reason }: JobSummary): readonly TimelineEntry[] {
  if (finished === null || !isEnd(status)) return [];
  const durationMs = started === null ? null : finished.getTime() - started.getTime();
  return [{ kind: status, at: timeOf(finished), started: timeOf(started), durationMs, node, reason }];
}

type End = 'done' | 'cancelled' | 'expired' | 'dead';

function isEnd(status: string): status is End {
  return status === 'done' || status === 'cancelled' || status === 'expired' || status === 'dead';
}
