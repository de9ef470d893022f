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

async function pageOf(
  settings: Settings,
  { database, codec }: Desk,
  options: FindFilter & { readonly limit: number; readonly after?: string },
): Promise<JobsPage> {
  const found = await findJobs(database, { ...options, walkMax });
  const jobs = await shownOf(settings, await readListed(database, found.ids), {
    database,
    codec,
    filter: options,
  });
  return {
    items: jobs.map(jobRowOf),
    next: found.next,
    lookedBackTo: found.lookedDownTo === null ? null : timeOf(timeOfId(found.lookedDownTo)),
  };
}

/**
 * Drops jobs whose redacted payload does not match the filter. Otherwise finding a job by a field that the
 * hook removes or changes would reveal the field's value to a user who guesses.
 */
async function shownOf(
  settings: Settings,
  jobs: readonly ListedJob[],
  { database, codec, filter: { field } }: Pick<Desk, 'database' | 'codec'> & { readonly filter: FindFilter },
): Promise<readonly ListedJob[]> {
  if (field === undefined || settings.redact === undefined) return jobs;
  const payloads = await readPayloads(
    database,
    jobs.map(({ id }) => id),
  );
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
  { database, codec }: Desk,
  { ids, filter }: { readonly ids: readonly string[]; readonly filter: FindFilter },
): Promise<readonly string[]> {
  if (filter.field === undefined || settings.redact === undefined) return ids;
  const shown = await shownOf(settings, await readListed(database, ids), { database, codec, filter });
  return shown.map(({ id }) => id);
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
  if (filter.field !== undefined && settings.redact !== undefined) {
    const { items, next } = await pageOf(settings, desk, { ...filter, limit: 200 });
    return atLeast(items.length, next !== null);
  }
  const { count, more } = await countFound(desk.database, { ...filter, max: countMax, walkMax });
  return atLeast(count, more);
}
