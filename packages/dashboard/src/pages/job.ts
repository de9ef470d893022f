import { isUuid, unreachable } from '@pgqueue/core/internal';
import type { JobDetails, JobSummary } from '@pgqueue/postgres';
import type { AttemptError } from '@pgqueue/postgres/internal';
import {
  openedJob,
  readDispatched,
  readErrors,
  readFlowNames,
  readJob,
  readSummary,
} from '@pgqueue/postgres/internal/dashboard';
import type { DocumentName, JobDocuments, JobPage, JobRow } from '../contract.ts';
import type { Desk, Office } from '../desk.ts';
import { seesPayloads } from '../desk.ts';
import type { Settings } from '../options.ts';
import { Problem } from '../problem.ts';
import { differs, redacted } from './redacted.ts';
import { timelineOf } from './timeline.ts';
import { errorOf, jsonOf, timeOf } from './wire.ts';

export async function jobPage({ settings }: Office, desk: Desk, id: string): Promise<JobPage> {
  const { job, errors, documents } = await read(desk, id);
  const dispatched = job.position === null ? undefined : await readDispatched(desk.database, id);
  const flow = await flowOf(desk, job);
  const { task, queue, key } = job;
  const changed: DocumentName[] = [];
  const show = (document: unknown, kind: DocumentName): unknown => {
    const shown = redacted(settings, document, { kind, id, task, queue, key });
    if (differs(document, shown)) changed.push(kind);
    return shown;
  };
  const progress = jsonOf(show(job.progress, 'progress'));
  const shown = documents === undefined ? null : documentsOf(documents, show);
  const nowMs = nowOf(job);
  return {
    at: new Date(nowMs).toISOString(),
    job: {
      ...rowOf(job),
      maxCrashes: job.maxCrashes,
      expiresAt: timeOf(job.expiresAt),
      timeoutMs: job.timeoutMs,
      uniqueKey: job.uniqueKey,
      payloadVersion: job.payloadVersion,
      attributes: job.attributes,
      pool: job.pool,
      position: job.position === null ? null : String(job.position),
      progress,
      hasCheckpoint: job.hasCheckpoint,
      suspect: job.suspect,
      reason: job.reason,
      traceparent: job.trace?.traceparent ?? null,
      flow,
    },
    documents: shown,
    redacted: changed,
    timeline: timelineOf({ job, errors, dispatched, nowMs }),
    traceUrl: traceUrlOf(settings, job),
    actions: desk.role === 'viewer' ? [] : actionsOf(job),
  };
}

/** Returns the time by the database's clock, or by this process's if the job was created at an infinite time. */
function nowOf({ created, ageMs }: JobSummary): number {
  return Number.isFinite(ageMs) ? created.getTime() + ageMs : Date.now();
}

async function flowOf({ database }: Desk, { flow, step }: JobSummary): Promise<JobPage['job']['flow']> {
  if (flow === null) return null;
  return { id: flow, name: (await readFlowNames(database, flow))?.name ?? null, step };
}

interface Read {
  readonly job: JobSummary;
  readonly errors: readonly AttemptError[];
  readonly documents: JobDetails | undefined;
}

/** Reads a job. For a viewer it does not read documents, since the database's viewer role cannot. */
async function read({ database, role, codec }: Desk, id: string): Promise<Read> {
  if (!isUuid(id)) throw new Problem('bad_request', 'the id of a job is a UUID');
  if (seesPayloads({ role })) {
    const stored = await readJob(database, id);
    const job = stored && openedJob(codec, stored);
    if (job !== undefined) return { job, errors: job.errors, documents: job };
  } else {
    const [job, errors] = await Promise.all([readSummary(database, id), readErrors(database, id)]);
    if (job !== undefined) return { job, errors, documents: undefined };
  }
  throw new Problem(
    'not_found',
    'there is no such job: it never was, was deleted, its history has been dropped, or it belongs to a step of a flow that has not opened',
  );
}

function rowOf(job: JobSummary): JobRow {
  const { id, status, queue, task, key, priority, tries, maxTries, crashes, ageMs, node, lastError } = job;
  return {
    id,
    status,
    queue,
    task,
    key,
    priority,
    tries,
    maxTries,
    crashes,
    created: timeOf(job.created),
    ageMs,
    runAfter: timeOf(job.runAfter),
    node,
    started: timeOf(job.started),
    finished: timeOf(job.finished),
    lastError: lastError === null ? null : errorOf(lastError).message.slice(0, 200),
  };
}

function documentsOf(
  { payload, result, checkpoint }: JobDetails,
  show: (document: unknown, kind: DocumentName) => unknown,
): JobDocuments {
  return {
    payload: jsonOf(show(payload, 'payload')),
    result: jsonOf(show(result, 'result')),
    checkpoint: jsonOf(show(checkpoint, 'checkpoint')),
  };
}

/**
 * Builds the address of the trace. Producers can write any traceparent, so only the 32 hex digits of its
 * trace id are used.
 */
function traceUrlOf({ traceUrl }: Settings, { trace }: JobSummary): string | null {
  const traceId = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/.exec(
    String(trace?.traceparent),
  )?.[1];
  return traceUrl === undefined || traceId === undefined ? null : traceUrl.replaceAll('{traceId}', traceId);
}

function actionsOf({ status }: JobSummary): JobPage['actions'] {
  switch (status) {
    case 'delayed':
      return ['run_now', 'cancel', 'reprioritise', 'delete'];
    case 'pending':
    case 'ready':
      return ['cancel', 'reprioritise', 'delete'];
    case 'running':
      return ['cancel'];
    case 'dead':
      return ['retry', 'delete'];
    case 'done':
    case 'cancelled':
    case 'expired':
      return ['delete'];
    default:
      return unreachable(status);
  }
}
