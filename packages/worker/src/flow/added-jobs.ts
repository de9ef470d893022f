import type { NewJob } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { JobRow } from '@pgqueue/core/internal';
import { checkJobList, toJobRow, toJobRows } from '@pgqueue/core/internal';
import { makeId } from '@pgqueue/postgres/internal';

/** The running job that adds others. */
export interface Adding {
  readonly key: string;
  /** Steps that its task reads. */
  readonly needs: readonly string[];
}

/**
 * Returns the rows of jobs that a running job adds to its step: all of them, or none. Pure except for the schemas
 * of payloads and the ids: no I/O.
 * @param by the function that the handler called
 * @throws {PgQueueError} `invalid_job`: names the jobs by their index
 */
export async function addedRows(
  jobs: readonly NewJob[],
  adding: Adding,
  by: 'ctx.addJobs' | 'ctx.all' | 'fanOut',
): Promise<readonly JobRow[]> {
  checkJobList(jobs, by);
  const ids = new Set<string>();
  const checked = (row: JobRow): JobRow => {
    if (ids.has(row.id)) throw refused(row.task, `another of these jobs has the id ${row.id}, too`);
    ids.add(row.id);
    return row;
  };
  return toJobRows(jobs, (job) => {
    const made = rowOf(job, adding);
    return 'payload' in made ? checked(made) : made.then(checked);
  });
}

function rowOf(job: NewJob, { key, needs }: Adding): JobRow | Promise<JobRow> {
  const { task, options } = job;
  if (options.uniqueKey !== undefined)
    throw refused(task, 'it has a uniqueKey, which jobs of a step can not have');
  const missing = Object.keys(job.needs ?? {}).filter((need) => !needs.includes(need));
  if (missing.length > 0)
    throw refused(task, `it reads the steps ${missing.join(', ')}, which the job that adds it does not read`);
  return toJobRow(options.key === undefined ? { ...job, options: { ...options, key } } : job, makeId);
}

function refused(task: string, problem: string): PgQueueError {
  return new PgQueueError('invalid_job', `job of task ${JSON.stringify(task)} can't be added: ${problem}`, {
    data: { problems: [problem] },
  });
}
