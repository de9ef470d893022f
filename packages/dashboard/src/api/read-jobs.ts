import type { JobOptions, NewJob, Task, TraceContext } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { isInCalendar, isRecord, isTraceparent } from '@pgqueue/core/internal';
import { Problem } from '../problem.ts';
import { apiLimits } from './schemas.ts';

type Body = Readonly<Record<string, unknown>>;

/** Context in which a body is read. */
export interface Reading {
  /** Tasks by name; undefined: any, unchecked. */
  readonly tasks: ReadonlyMap<string, Task> | undefined;
  /** Trace context of jobs that bring none. */
  readonly trace: TraceContext | undefined;
  /** Ids of the jobs, by their index, that an idempotency key gives them. */
  readonly idOf: ((index: number) => string) | undefined;
}

/**
 * Reads one job, or the list `jobs`. Whatever is wrong with one of them is told by its check, with all else that the
 * producer finds.
 * @throws {PgQueueError} `invalid_job`: the body has no jobs
 * @throws {Problem} `bad_request`: too many jobs, or one with an id of its own beside an idempotency key
 */
export function jobsIn(body: unknown, reading: Reading): readonly NewJob[] {
  const list = listIn(body);
  if (list.length > apiLimits.jobsMax) {
    throw new Problem(
      'bad_request',
      `${list.length} jobs in one request, more than ${apiLimits.jobsMax}: split it`,
    );
  }
  const given = list.map(asJob);
  if (reading.idOf !== undefined && given.some((job) => Object.hasOwn(job, 'id')))
    throw new Problem('bad_request', 'give ids of jobs or the header Idempotency-Key, not both');
  return given.map((job, index) => jobOf(job, index, reading));
}

function listIn(body: unknown): readonly unknown[] {
  if (!isRecord(body)) throw noJobs('the body must be a job, or an object with the list "jobs"');
  if (!Object.hasOwn(body, 'jobs')) return [body];
  const { jobs, ...others } = body;
  if (!Array.isArray(jobs) || jobs.length === 0)
    throw noJobs(`jobs must be a list of 1 to ${apiLimits.jobsMax} jobs`);
  const [other] = Object.keys(others);
  if (other !== undefined)
    throw noJobs(
      `beside the list "jobs" there must be nothing, and there is ${JSON.stringify(other.slice(0, 40))}`,
    );
  return jobs;
}

function asJob(given: unknown, index: number): Body & { readonly task: string } {
  if (!isRecord(given)) throw noJobs(`jobs[${index}] must be an object with the name of a task`);
  if (typeof given['task'] !== 'string') throw noJobs(`jobs[${index}].task must be the name of a task`);
  return given as Body & { readonly task: string };
}

function jobOf(
  given: Body & { readonly task: string },
  index: number,
  { tasks, trace, idOf }: Reading,
): NewJob {
  const { task: name, payload, payloadVersion = 1, ...members } = given;
  const problems: string[] = [];
  const options = {
    ...(trace === undefined ? {} : { trace }),
    ...withTimes(members, problems),
    ...(idOf === undefined ? {} : { id: idOf(index) }),
  } as JobOptions;
  const task = tasks?.get(name);
  if (tasks !== undefined && task === undefined)
    problems.push(`there is no such task here, only ${[...tasks.keys()].join(', ')}`);
  if (task === undefined) {
    return { task: name, payload, payloadVersion: payloadVersion as number, options, check: () => problems };
  }
  if (Object.hasOwn(given, 'payloadVersion') && payloadVersion !== task.version)
    problems.push(`payloadVersion must be ${task.version}, or be left out`);
  // a payload that is left out is stored as {}
  const job = task.job(payload === undefined ? {} : payload, options);
  return { ...job, check: async (stored) => [...problems, ...(await job.check(stored))] };
}

const times = ['runAfter', 'expiresAt'] as const;

/** Returns the members of a job with their times as dates. A time that is none is left out, with a problem. */
function withTimes(members: Body, problems: string[]): Body {
  const options: Record<string, unknown> = { ...members };
  for (const name of times) {
    if (!Object.hasOwn(members, name)) continue;
    const value = members[name];
    const time =
      typeof value === 'string' && rfc3339.test(value) && isInCalendar(value) ? new Date(value) : undefined;
    if (time !== undefined && !Number.isNaN(time.getTime())) options[name] = time;
    else {
      delete options[name];
      problems.push(`${name} must be a time with its zone, such as 2026-01-31T12:00:00Z`);
    }
  }
  return options;
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/i;

/** Reads the trace context of a request; undefined: it has none that is valid. */
export function traceOf(headers: Headers): TraceContext | undefined {
  const traceparent = headers.get('traceparent');
  const tracestate = headers.get('tracestate');
  if (!isTraceparent(traceparent)) return undefined;
  return { traceparent, ...(tracestate === null || tracestate.length > 512 ? {} : { tracestate }) };
}

function noJobs(problem: string): PgQueueError {
  return new PgQueueError('invalid_job', problem, { data: { problems: [problem] } });
}
