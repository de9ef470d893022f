import { PgQueueError } from '../errors.ts';
import type { JobRow, NewJob } from '../job/job.ts';
import { bytesOver, toJobRow } from '../job/validate.ts';
import type { MaybePromise } from '../runtime/when-done.ts';
import { caught, whenDone } from '../runtime/when-done.ts';
import type { FlatStep } from './flatten.ts';
import { labelOf } from './flatten.ts';
import { flowLimits } from './limits.ts';
import type { ProblemList } from './problems.ts';

/** An invalid job of a flow, for the data of its error. */
export interface WrongJob {
  readonly step: string;
  readonly index: number;
  readonly task: string;
  readonly problems: readonly string[];
}

/** Number of invalid jobs that are told. Those after the last one are not looked at. */
const toldMax = 10;

/**
 * Returns the rows of each step's jobs, and tells the jobs that are invalid. Looks at no job when there are
 * too many of them.
 */
export async function jobRows(
  steps: readonly FlatStep[],
  parts: { readonly key: string; readonly makeId: () => string; readonly problems: ProblemList },
): Promise<{ readonly rows: readonly (readonly JobRow[])[]; readonly wrong: readonly WrongJob[] }> {
  const { key, makeId, problems } = parts;
  const rows: JobRow[][] = [];
  const wrong: WrongJob[] = [];
  const ids = new Set<string>();
  const count = steps.reduce((sum, { jobs }) => sum + jobs.length, 0);
  if (count > flowLimits.jobsMax) {
    problems.add(
      `it has ${count} jobs, more than ${flowLimits.jobsMax}: add the others from a job of the step`,
    );
    return { rows, wrong };
  }
  for (const { name, jobs } of steps) {
    const own: JobRow[] = [];
    rows.push(own);
    for (const [index, job] of jobs.entries()) {
      const got = rowOf(job, makeId, ids);
      const made = 'then' in got ? await got : got;
      if ('payload' in made) {
        own.push(made.key === '' && job.options.key === undefined ? { ...made, key } : made);
        continue;
      }
      wrong.push({ step: name, index, task: job.task, problems: made.problems });
      problems.add(
        `${labelOf(name)}, jobs[${index}] of task ${JSON.stringify(job.task)}: ${made.problems.join('; ')}`,
      );
      if (wrong.length === toldMax) return { rows, wrong };
    }
  }
  const bytes = bytesOver(flowLimits.bytesMax, rows.flat().flatMap(textsOf));
  if (bytes !== undefined) {
    problems.add(
      `its payloads and attributes have ${bytes} bytes, more than ${flowLimits.bytesMax}: enqueue references`,
    );
  }
  return { rows, wrong };
}

type Made = JobRow | { readonly problems: readonly string[] };

/** Returns the row of a job, or its problems; a promise only when its schema returns one. */
function rowOf(job: NewJob, makeId: () => string, ids: Set<string>): MaybePromise<Made> {
  try {
    const made: MaybePromise<Made> = whenDone(toJobRow(job, makeId), (row) => {
      const problems: string[] = [];
      if (row.unique !== null)
        problems.push('a job of a flow has no uniqueKey: give one to the flow, when it is started');
      if (ids.has(row.id)) problems.push(`another job of the flow has the id ${row.id}, too`);
      ids.add(row.id);
      return problems.length === 0 ? row : { problems };
    });
    return caught(made, problemsOf);
  } catch (error) {
    return problemsOf(error);
  }
}

function problemsOf(error: unknown): { readonly problems: readonly string[] } {
  if (!(error instanceof PgQueueError) || error.code !== 'invalid_job') throw error;
  const { problems } = error.data;
  return { problems: Array.isArray(problems) ? (problems as readonly string[]) : [error.message] };
}

/** Returns the texts that the bytes of a flow are counted by. */
function textsOf({ payload, attributes }: JobRow): readonly string[] {
  return Object.keys(attributes).length > 0 ? [payload, JSON.stringify(attributes)] : [payload];
}
