import type { Codec, Duration, JobStatus } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import {
  aDuration,
  anything,
  aText,
  durationMs,
  encodedSignal,
  jobLimits,
  isUuid,
  optional,
  optionProblems,
  terminalStatuses,
  throwProblems,
  toSignalValue,
  valueProblems,
} from '@pgqueue/core/internal';
import { openedJob, openedSummary } from '../codec/opened-jobs.ts';
import type { Database } from '../connection/database.ts';
import type { JobDetails, JobListOptions, JobSummary } from '../reads/jobs.ts';
import { listJobs, readJob, readStatuses } from '../reads/jobs.ts';
import type { Page } from '../reads/page.ts';
import { Waits } from '../results/waits.ts';
import { signalFlowId, signalJob } from '../calls/flow/durable.ts';
import type { Amendment } from '../calls/operate.ts';
import { amend, cancel as cancelJobs, erase, redrive } from '../calls/operate.ts';
import type { CancelAllOptions, CancelledJobs, JobCount, UnfinishedFilter } from './cancel-all.ts';
import { cancelUnfinished, countUnfinished } from './cancel-all.ts';
import { wakeSchedulers } from '../hints/wake.ts';

/** Verdict on each given job, in the given order; ids are in lower case. */
export type Verdicts<Verdict extends string> = readonly {
  readonly id: string;
  readonly verdict: Verdict;
  /** Present status of a job that was left as it is; null: there is no such job. */
  readonly status?: JobStatus | null;
}[];

/** Operations on jobs. */
export interface JobsOperator {
  /**
   * Reads one job. Undefined: it never was, was erased, its history has been dropped, or it belongs to a step of a flow that
   * has not opened.
   */
  readonly get: (id: string) => Promise<JobDetails | undefined>;
  /**
   * Waits until a job has ended, and reads it as `get` does: done, dead, cancelled or expired. After `timeout`
   * reads it as it stands then: `finished` is null. Undefined: as in `get`, at once; await the flow of a step's job first. Looks after 25 ms and
   * then ever less often, down to once a second; all waits of an operator share one statement at a time.
   * @throws {PgQueueError} `configuration`
   */
  readonly wait: (id: string, options?: WaitOptions) => Promise<JobDetails | undefined>;
  /** Lists jobs in pages, newest first. */
  readonly list: (options?: JobListOptions) => Promise<Page<JobSummary>>;
  /**
   * Cancels jobs. A waiting job ends at once. The signal of a running job aborts soon (`signalled`), and the
   * job ends as cancelled unless it finishes before. `busy`: it was being claimed or settled at each of five
   * tries, or is on its way to another installation; ask again. `missing`: it has ended, never was, or belongs to a step
   * of a flow that has not opened: cancel the flow.
   */
  readonly cancel: (
    ids: readonly string[],
  ) => Promise<Verdicts<'cancelled' | 'signalled' | 'busy' | 'missing'>>;
  /** Counts the unfinished jobs that match the filter. */
  readonly count: (filter: UnfinishedFilter) => Promise<JobCount>;
  /**
   * Cancels every unfinished job that matches the filter, as `cancel` does, newest first. Jobs enqueued
   * meanwhile are not included.
   */
  readonly cancelAll: (filter: UnfinishedFilter, options?: CancelAllOptions) => Promise<CancelledJobs>;
  /** Makes waiting jobs due now, whatever they wait for. `unchanged`: it runs, or has ended. `missing`: there is no such job. */
  readonly runNow: (ids: readonly string[]) => Promise<Verdicts<'changed' | 'unchanged' | 'missing'>>;
  /** Makes waiting jobs due now, and puts dead jobs back into their queues. Other verdicts as in `runNow`. */
  readonly retry: (
    ids: readonly string[],
  ) => Promise<Verdicts<'changed' | 'redriven' | 'unchanged' | 'missing'>>;
  /** Changes the priority of waiting jobs, or delays them. Other verdicts as in `runNow`. */
  readonly amend: (
    ids: readonly string[],
    amendment: Amendment,
  ) => Promise<Verdicts<'changed' | 'unchanged' | 'missing'>>;
  /**
   * Removes jobs without a trace, from whichever table, and their results from their flows. `unchanged`: it runs (cancel it
   * first). `missing`: it never was, or its history is gone; a flow keeps the result of such a job until seven days after its end.
   */
  readonly erase: (ids: readonly string[]) => Promise<Verdicts<'erased' | 'unchanged' | 'missing'>>;
  /**
   * Gives a job the value of a signal that its handler waits for by `ctx.waitForSignal`, or will wait for: JSON of up
   * to 256 KiB; null if there is none. `repeated`: it has a value already, and that one counts. `ended`: the wait for
   * it is over. The schema of the signal is not known here: the handler's call checks the value.
   * @throws {PgQueueError} `not_found`: the job has ended, or never was; `installation`: it is on its way to another
   * installation, try again; `invalid_flow`: a value that can't be stored; `configuration`: an id that is no UUID,
   * before any I/O
   */
  readonly signal: (id: string, name: string, value?: unknown) => Promise<'signalled' | 'repeated' | 'ended'>;
}

/** Options of `jobs.wait`. */
export interface WaitOptions {
  /** Longest wait; 0: does not wait. Default `'30s'`. */
  readonly timeout?: Duration;
}

const aJobId: Rule = {
  expected: 'the UUID of a job',
  judge: (value) => typeof value === 'string' && isUuid(value),
};
const aSignalName = aText({ max: jobLimits.waitNameLengthMax });

const waitShape: Shape<WaitOptions> = { timeout: optional(aDuration) };

const chunkMax = 1_000;
const cancelTriesMax = 5;
const cancelPauseMs = 20;

/** Names of the options; the values are checked where they are used. A misspelt name would be ignored. */
const listShape: Shape<JobListOptions> = {
  status: optional(anything),
  queue: optional(anything),
  task: optional(anything),
  key: optional(anything),
  flow: optional(anything),
  step: optional(anything),
  after: optional(anything),
  limit: optional(anything),
};

const amendmentShape: Shape<Amendment> = { priority: optional(anything), runAfter: optional(anything) };

export function operateJobs(database: Database, codec?: Codec): JobsOperator {
  const read = async (id: string): Promise<JobDetails | undefined> => {
    const job = await readJob(database, id);
    return job && openedJob(codec, job);
  };
  const change = async (
    given: readonly string[],
    amendment: Amendment,
  ): Promise<Verdicts<'changed' | 'unchanged' | 'missing'>> => {
    const ids = toIds(given);
    throwProblems('configuration', 'an amendment', optionProblems(amendment, amendmentShape));
    const changed = await inChunks(ids, (chunk) => amend(database, chunk, amendment));
    if (changed.size > 0) await wakeSchedulers(database);
    return withStatus(
      database,
      ids.map((id) => ({ id, verdict: changed.has(id) ? 'changed' : 'unchanged' })),
    );
  };
  const cancel: JobsOperator['cancel'] = (ids) => cancelByIds(database, ids);
  const runNow: JobsOperator['runNow'] = (ids) => change(ids, { runAfter: 'now' });
  const waits = new Waits<JobStatus>({
    look: async (ids) => new Map((await readStatuses(database, ids)).map(({ id, status }) => [id, status])),
    hasEnded: (status) => terminalStatuses.includes(status),
  });
  return {
    get: read,
    wait: async (id, options = {}) => {
      throwProblems('configuration', 'jobs.wait', optionProblems(options, waitShape));
      const timeoutMs = durationMs(options.timeout ?? '30s', 'timeout');
      if (isUuid(id)) await waits.wait(id.toLowerCase(), timeoutMs);
      return read(id);
    },
    list: async (options = {}) => {
      throwProblems('configuration', 'a list of jobs', optionProblems(options, listShape));
      const page = await listJobs(database, options);
      return { ...page, items: page.items.map((job) => openedSummary(codec, job)) };
    },
    cancel,
    count: (filter) => countUnfinished(database, filter),
    cancelAll: (filter, options = {}) => cancelUnfinished(database, filter, { ...options, cancel }),
    runNow,
    retry: async (given) => {
      const ids = toIds(given);
      const back = await inChunks(ids, (chunk) => redrive(database, chunk));
      const others = await runNow(ids.filter((id) => !back.has(id)));
      const verdicts = new Map(others.map((other) => [other.id, other]));
      if (back.size > 0) await wakeSchedulers(database);
      return ids.map((id) => verdicts.get(id) ?? { id, verdict: 'redriven' });
    },
    amend: change,
    erase: async (given) => {
      const ids = toIds(given);
      const erased = await inChunks(ids, (chunk) => erase(database, chunk));
      return withStatus(
        database,
        ids.map((id) => ({ id, verdict: erased.has(id) ? 'erased' : 'unchanged' })),
      );
    },
    signal: async (id, name, value = null) => {
      const problems = [...valueProblems(aJobId, id, 'id'), ...valueProblems(aSignalName, name, 'name')];
      throwProblems('configuration', 'jobs.signal', problems);
      const plain = await toSignalValue({ flowId: id, step: name, value, by: undefined, of: 'job' });
      const text = encodedSignal(codec, plain, { id: signalFlowId(id, name), step: name });
      const verdict = await signalJob(database, { job: id, name, value: text });
      if (verdict !== 'unknown') return verdict;
      throw new PgQueueError('not_found', `there is no job ${id} that has not ended`, { data: { id } });
    },
  };
}

/**
 * Cancels jobs, with up to five tries for busy ones. A busy job is being claimed or settled, which takes
 * milliseconds: more tries would hide a fault.
 */
async function cancelByIds(database: Database, given: readonly string[]): ReturnType<JobsOperator['cancel']> {
  const ids = toIds(given);
  const verdicts = new Map<string, 'cancelled' | 'signalled' | 'busy'>();
  let open = ids;
  for (let attempt = 1; open.length > 0 && attempt <= cancelTriesMax; attempt += 1) {
    if (attempt > 1) await new Promise((resolve) => setTimeout(resolve, cancelPauseMs * attempt));
    for (let from = 0; from < open.length; from += chunkMax) {
      const answer = await cancelJobs(database, open.slice(from, from + chunkMax));
      for (const [id, verdict] of answer) verdicts.set(id, verdict);
      // a busy job that is missing from a later answer has ended meanwhile
      for (const id of open.slice(from, from + chunkMax)) if (!answer.has(id)) verdicts.delete(id);
    }
    open = open.filter((id) => verdicts.get(id) === 'busy');
  }
  return withStatus(
    database,
    ids.map((id) => ({ id, verdict: verdicts.get(id) ?? 'missing' })),
  );
}

const undone: ReadonlySet<string> = new Set(['unchanged', 'busy', 'missing']);

/**
 * Adds the present status of jobs that were left as they are, and tells which of them do not exist. It is read a moment
 * later: a busy job may have ended by then.
 */
async function withStatus<Verdict extends string>(
  database: Database,
  verdicts: Verdicts<Verdict>,
): Promise<Verdicts<Verdict | 'missing'>> {
  const ids = verdicts.filter(({ verdict }) => undone.has(verdict)).map(({ id }) => id);
  const found = new Map<string, JobStatus>();
  for (let from = 0; from < ids.length; from += chunkMax) {
    const rows = await readStatuses(database, ids.slice(from, from + chunkMax));
    for (const { id, status } of rows) found.set(id, status);
  }
  return verdicts.map(({ id, verdict }) => {
    if (!undone.has(verdict)) return { id, verdict };
    const status = found.get(id) ?? null;
    return { id, verdict: verdict === 'unchanged' && status === null ? 'missing' : verdict, status };
  });
}

async function inChunks(
  ids: readonly string[],
  work: (chunk: readonly string[]) => Promise<ReadonlySet<string>>,
): Promise<ReadonlySet<string>> {
  const all = new Set<string>();
  for (let from = 0; from < ids.length; from += chunkMax) {
    for (const id of await work(ids.slice(from, from + chunkMax))) all.add(id);
  }
  return all;
}

/**
 * Checks a list of job ids, and returns them as the database writes them.
 * @throws {PgQueueError} `configuration`
 */
export function toIds(ids: readonly string[]): readonly string[] {
  // callers in JavaScript may pass anything
  const given: unknown = ids;
  if (!Array.isArray(given)) {
    const got = typeof given === 'string' ? JSON.stringify(given) : typeof given;
    throw new PgQueueError('configuration', `give a list of job ids, such as ['0198a3c2-…'], not ${got}`);
  }
  const wrong = ids.filter((id) => !isUuid(id));
  if (wrong.length === 0) return ids.map((id) => id.toLowerCase());
  const shown = wrong.slice(0, 3).map((id) => JSON.stringify(id));
  throw new PgQueueError('configuration', `job ids are UUIDs, not ${shown.join(', ')}`);
}
