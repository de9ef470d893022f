import { opened, placeOf } from '@pgqueue/core/internal';
import type { FindFilter, ListedJob } from '@pgqueue/postgres/internal/dashboard';
import {
  countFound,
  findJobs,
  readListed,
  readPayloads,
  timeOfId,
} from '@pgqueue/postgres/internal/dashboard';
import type { Count, JobsPage } from '../contract.ts';
import type { Desk, Office } from '../desk.ts';
import { seesPayloads } from '../desk.ts';
import type { Parameters } from '../http/parameters.ts';
import type { Settings } from '../options.ts';
import { jobFilterIn } from './filter.ts';
import { redacted } from './redacted.ts';
import { atLeast, jobRowOf, timeOf } from './wire.ts';

/** Rows of each table that one page examines; that takes about 10 ms. */
const walkMax = 5_000;
const countMax = 10_000;
/** More than all the rows that one page examines. */
const allMax = 1_000_000;
/** Jobs that are judged at once. */
const chunkMax = 200;

export async function jobsPage({ settings }: Office, desk: Desk, query: Parameters): Promise<JobsPage> {
  const filter = jobFilterIn(query, { seesPayloads: seesPayloads(desk) });
  return pageOf(settings, desk, { ...filter, ...pageIn(query) });
}

/** Lists the jobs that a node runs. */
export async function nodeJobsPage(
  { settings }: Office,
  desk: Desk,
  { node, query }: { readonly node: string; readonly query: Parameters },
): Promise<JobsPage> {
  return pageOf(settings, desk, { node, status: 'running', ...pageIn(query) });
}

function pageIn(query: Parameters): { readonly limit: number; readonly after?: string } {
  const [limit, after] = [query.limit(), query.uuid('after')];
  query.done();
  return { limit, ...(after === undefined ? {} : { after }) };
}

/**
 * Reads one page. If the redact hook judges, it judges all that match among the rows that are read: the page ends, and goes
 * on, by those that may be seen and by the rows read, so that nothing tells of the others.
 */
async function pageOf(
  settings: Settings,
  desk: Desk,
  options: FindFilter & { readonly limit: number; readonly after?: string },
): Promise<JobsPage> {
  const { limit } = options;
  const judged = isJudged(settings, options);
  const found = await findJobs(desk.database, { ...options, limit: judged ? allMax : limit, walkMax });
  const jobs: ListedJob[] = [];
  for (let from = 0; from < found.ids.length && jobs.length <= limit; from += chunkMax) {
    const ids = found.ids.slice(from, from + chunkMax);
    jobs.push(...(await shownOf(settings, desk, { ids, filter: options })));
  }
  const items = jobs.slice(0, limit).map(jobRowOf);
  const last = items.at(-1);
  if (jobs.length > limit && last !== undefined) return { items, next: last.id, lookedBackTo: null };
  return {
    items,
    next: found.next,
    lookedBackTo: found.lookedDownTo === null ? null : timeOf(timeOfId(found.lookedDownTo)),
  };
}

/** Reports whether the redact hook decides which jobs a filter may find. */
function isJudged({ redact }: Settings, { field }: FindFilter): boolean {
  return field !== undefined && redact !== undefined;
}

/**
 * Reads jobs, and drops those whose redacted payload does not match the filter. Otherwise finding a job by a field that the
 * hook removes or changes would reveal the field's value to a user who guesses.
 */
async function shownOf(
  settings: Settings,
  { database, codec }: Desk,
  { ids, filter }: { readonly ids: readonly string[]; readonly filter: FindFilter },
): Promise<readonly ListedJob[]> {
  const jobs = await readListed(database, ids);
  const { field } = filter;
  if (field === undefined || !isJudged(settings, filter)) return jobs;
  const payloads = await readPayloads(database, ids);
  return jobs.filter((job) => {
    const { id, task, queue, key } = job;
    const payload = opened(codec, payloads.get(id), placeOf(job, 'payload'));
    const shown = redacted(settings, payload, { kind: 'payload', id, task, queue, key });
    return textAt(shown, field.path) === field.value;
  });
}

/** Returns the text at a path, as PostgreSQL's #>> does. */
function textAt(document: unknown, path: readonly string[]): string | undefined {
  let at: unknown = document;
  for (const name of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined;
    at = (at as Readonly<Record<string, unknown>>)[name];
  }
  return typeof at === 'string' ? at : at === null ? undefined : JSON.stringify(at);
}

/** Returns the first jobs that a filter finds, for a preview. */
export async function sampleJobs(
  settings: Settings,
  desk: Desk,
  options: FindFilter & { readonly limit: number },
): Promise<JobsPage['items']> {
  return (await pageOf(settings, desk, options)).items;
}

/** Returns the ids of those jobs that a filter may find, see {@link shownOf}. */
export async function visibleIds(
  settings: Settings,
  desk: Desk,
  given: { readonly ids: readonly string[]; readonly filter: FindFilter },
): Promise<readonly string[]> {
  if (!isJudged(settings, given.filter)) return given.ids;
  return (await shownOf(settings, desk, given)).map(({ id }) => id);
}

/**
 * Counts jobs, as far as one page may look. With a redact hook and a payload field, it counts only jobs whose
 * redacted payload matches.
 */
export async function jobsCount({ settings }: Office, desk: Desk, query: Parameters): Promise<Count> {
  const filter = jobFilterIn(query, { seesPayloads: seesPayloads(desk) });
  query.done();
  return countJobs(settings, desk, filter);
}

export async function countJobs(settings: Settings, desk: Desk, filter: FindFilter): Promise<Count> {
  if (isJudged(settings, filter)) {
    const { items, next } = await pageOf(settings, desk, { ...filter, limit: 200 });
    return atLeast(items.length, next !== null);
  }
  const { count, more } = await countFound(desk.database, { ...filter, max: countMax, walkMax });
  return atLeast(count, more);
}
