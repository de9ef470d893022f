import type { Codec } from '@pgqueue/core';
import { opened, openedError, placeOf } from '@pgqueue/core/internal';
import type { DeadJob } from '../reads/dead.ts';
import type { JobDetails, JobSummary } from '../reads/jobs.ts';
import type { JobEnd } from '../calls/results.ts';
import { decoded } from './encrypted.ts';

/**
 * Decodes the last error and the progress of a job in a list. A value that can't be decoded stays as it is stored, and names its
 * key.
 */
export function openedSummary<Job extends JobSummary>(codec: Codec | undefined, job: Job): Job {
  if (codec === undefined) return job;
  const progress = opened(codec, job.progress, placeOf(job, 'progress'));
  return { ...job, progress, lastError: openedError(codec, job.lastError, placeOf(job, 'error')) };
}

/** Decodes the values of a job, as {@link openedSummary} does. */
export function openedJob(codec: Codec | undefined, job: JobDetails): JobDetails {
  if (codec === undefined) return job;
  return {
    ...openedSummary(codec, job),
    payload: opened(codec, job.payload, placeOf(job, 'payload')),
    result: opened(codec, job.result, placeOf(job, 'result')),
    checkpoint: opened(codec, job.checkpoint, placeOf(job, 'checkpoint')),
    errors: job.errors.map((error) => openedError(codec, error, placeOf(job, 'error'))),
  };
}

/** Decodes the last error of a dead job, as {@link openedSummary} does. */
export function openedDead(codec: Codec | undefined, job: DeadJob): DeadJob {
  if (codec === undefined) return job;
  return { ...job, lastError: openedError(codec, job.lastError, placeOf(job, 'error')) };
}

/**
 * Decodes the end of a job, for whoever awaits it.
 * @throws {PgQueueError} `key_missing`, `undecodable`: the result
 */
export function openedEnd(codec: Codec | undefined, id: string, end: JobEnd): JobEnd {
  const { result, error, task } = end;
  return {
    ...end,
    result: result === null ? null : decoded(codec, result, placeOf({ id, task }, 'result')),
    error: openedError(codec, error, placeOf({ id, task }, 'error')),
  };
}
