import { PgQueueError } from '../errors.ts';
import type { JobRow, NewJob } from './job.ts';
import { bytesOver, isNewJob, jobLimits } from './validate.ts';

/** Number of invalid jobs that are told. */
const toldMax = 10;

/**
 * Checks that a value is a list of jobs, as a caller without types may give anything.
 * @param by the function that takes the list
 * @throws {PgQueueError} `invalid_job`
 */
export function checkJobList(jobs: unknown, by: string): asserts jobs is readonly NewJob[] {
  if (!Array.isArray(jobs))
    throw new PgQueueError('invalid_job', `${by} takes a list of jobs: what task.job(payload) returns`);
  const wrong = jobs.findIndex((job: unknown) => !isNewJob(job));
  if (wrong === -1) return;
  throw new PgQueueError('invalid_job', `jobs[${wrong}] must be what task.job(payload) returns`, {
    data: { index: wrong },
  });
}

/**
 * Returns the rows of a list of jobs: all of them, or none.
 * @param toRow makes one row, or throws `invalid_job`
 * @throws {PgQueueError} `invalid_job`: names the jobs by their index, with all problems of each
 */
export async function toJobRows(
  jobs: readonly NewJob[],
  toRow: (job: NewJob) => JobRow | Promise<JobRow>,
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
  for (const [index, job] of jobs.entries()) {
    try {
      const made = toRow(job);
      rows.push('payload' in made ? made : await made);
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
  const bytes = bytesOver(
    batchBytesMax,
    rows.map(({ payload }) => payload),
  );
  if (bytes !== undefined) {
    throw new PgQueueError(
      'invalid_job',
      `${bytes} bytes of payloads in one batch, more than ${batchBytesMax}: split it`,
    );
  }
  return rows;
}
