import type { Enqueued, EnqueuedJob } from './enqueued.ts';
import type { Expectation, Fits } from './expectation.ts';
import { differences, say } from './expectation.ts';

const shownMax = 10;

/** Describes a missing job: the expectation, the jobs that were enqueued instead, and how they differ. */
export function missingMessage(expectation: Expectation, { jobs, ended }: Enqueued, fits: Fits): string {
  const { options } = expectation;
  const found = jobs.filter((job) => isOfTask(job, expectation));
  const fitting = found.filter((job) => differences(job, expectation, fits).length === 0);
  const counted =
    options.times === undefined ? '' : `, but ${fitting.length === 0 ? 'none was' : countOf(fitting)}`;
  return [
    `expected ${options.times === undefined ? 'a job' : jobsText(options.times)}${ofTask(expectation)} to be enqueued${counted}`,
    ...wanted(expectation),
    '',
    ...listed(found, expectation, fits),
    ...othersText(jobs, found, expectation),
    ...endedText(jobs, ended),
  ].join('\n');
}

/** Describes jobs that were expected not to be enqueued, and were. */
export function presentMessage(expectation: Expectation, { jobs }: Enqueued, fits: Fits): string {
  const fitting = jobs.filter(
    (job) => isOfTask(job, expectation) && differences(job, expectation, fits).length === 0,
  );
  const { times } = expectation.options;
  return [
    times === undefined
      ? `expected no job${ofTask(expectation)} to be enqueued, but ${countOf(fitting)}`
      : `expected other than ${jobsText(times)}${ofTask(expectation)} to be enqueued`,
    ...wanted(expectation),
    '',
    ...cut(fitting.map((job, index) => `${index + 1}. ${sayJob(job)}`)),
  ].join('\n');
}

/** Reports whether a job is of the expected task; without a task, every job is. */
export function isOfTask({ task }: EnqueuedJob, expectation: Expectation): boolean {
  return expectation.task === undefined || expectation.task === task;
}

function ofTask({ task }: Expectation): string {
  return task === undefined ? '' : ` of task ${JSON.stringify(task)}`;
}

function wanted({ payload, options }: Expectation): readonly string[] {
  const { times: _times, schema: _schema, ...others } = options;
  return [
    ...(payload === undefined ? [] : [`  with payload ${say(payload)}`]),
    ...Object.entries(others)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `  with ${name} ${say(value)}`),
  ];
}

function listed(found: readonly EnqueuedJob[], expectation: Expectation, fits: Fits): readonly string[] {
  if (found.length === 0) return [];
  const lines = found.map((job, index) => {
    const wrong = differences(job, expectation, fits);
    const why = wrong.length === 0 ? ['it fits'] : wrong;
    return [`${index + 1}. ${sayJob(job)}`, ...why.map((text) => `     ${text}`)].join('\n');
  });
  const of = expectation.task === undefined ? '' : ' of this task';
  return [`${jobsText(found.length)}${of} ${found.length === 1 ? 'is' : 'are'} there:`, ...cut(lines)];
}

function othersText(
  jobs: readonly EnqueuedJob[],
  found: readonly EnqueuedJob[],
  { task }: Expectation,
): readonly string[] {
  const others = jobs.filter((job) => !found.includes(job));
  if (others.length === 0 || task === undefined) return [];
  const lead = found.length === 0 ? 'no job of this task is there, but ' : 'and ';
  return [
    `${lead}${jobsText(others.length)} of other tasks:`,
    ...cut(others.map((job, index) => `${index + 1}. ${job.task} ${sayJob(job)}`)),
  ];
}

function endedText(jobs: readonly EnqueuedJob[], ended: number): readonly string[] {
  const none =
    jobs.length === 0
      ? ['no job is there. An open transaction is seen by itself only: expect(…) what enqueued, or commit']
      : [];
  const past =
    ended === 0
      ? []
      : [`${jobsText(ended)} ${ended === 1 ? 'has' : 'have'} ended already: look before a drain`];
  return [...none, ...past];
}

/** Describes a job: its payload, and members that differ from their defaults. */
function sayJob(job: EnqueuedJob): string {
  const { queue, key, priority, attributes, uniqueKey, runAfter, expiresAt, timeoutMs } = job;
  const unusual = {
    ...(queue === 'default' ? {} : { queue }),
    ...(key === '' ? {} : { key }),
    ...(priority === 0 ? {} : { priority }),
    ...(Object.keys(attributes).length === 0 ? {} : { attributes }),
    ...(uniqueKey === null ? {} : { uniqueKey }),
    ...(runAfter === null ? {} : { runAfter }),
    ...(expiresAt === null ? {} : { expiresAt }),
    ...(timeoutMs === null ? {} : { timeoutMs }),
  };
  const rest = Object.entries(unusual).map(([name, value]) => `, ${name} ${say(value)}`);
  return `${say(job.payload)}${rest.join('')}`;
}

function cut(lines: readonly string[]): readonly string[] {
  const shown = lines.slice(0, shownMax).map((line) => `  ${line}`);
  return lines.length > shownMax ? [...shown, `  … and ${lines.length - shownMax} more`] : shown;
}

function countOf(fitting: readonly EnqueuedJob[]): string {
  return fitting.length === 1 ? 'one was' : `${fitting.length} were`;
}

function jobsText(count: number): string {
  return count === 1 ? '1 job' : `${count} jobs`;
}
