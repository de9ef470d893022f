import type { FindFilter, GroupedFilter } from '@pgqueue/postgres/internal/dashboard';
import { findJobs, listGroupedDead, readClock } from '@pgqueue/postgres/internal/dashboard';
import type { BulkPreview, BulkRequest, Count, JobRow } from '../contract.ts';
import type { Desk } from '../desk.ts';
import { checked } from '../http/body.ts';
import { filterOf } from '../http/parameters.ts';
import type { Settings } from '../options.ts';
import { rowOf } from '../pages/dead.ts';
import { deadFilterIn, jobFilterIn } from '../pages/filter.ts';
import { countJobs, sampleJobs, visibleIds } from '../pages/jobs.ts';
import { atLeast } from '../pages/wire.ts';
import { Problem } from '../problem.ts';
import { canUndo } from './act-on-jobs.ts';
import { bodies } from './bodies.ts';

/** A checked request with its parsed filter. */
export type Bulk =
  | {
      readonly over: 'jobs';
      readonly request: Extract<BulkRequest, { over: 'jobs' }>;
      readonly filter: FindFilter;
    }
  | {
      readonly over: 'dead';
      readonly request: Extract<BulkRequest, { over: 'dead' }>;
      readonly filter: GroupedFilter;
    };

/** @throws {Problem} `bad_request` */
export function bulkIn(body: unknown): Bulk {
  const { over, filter: given } = (body ?? {}) as Readonly<Record<string, unknown>>;
  if (over !== 'jobs' && over !== 'dead')
    throw new Problem('bad_request', 'body.over must be "jobs" or "dead"');
  const query = filterOf(given ?? {});
  if (over === 'dead') {
    const request = checked(body, bodies.bulkOfDead) as Extract<BulkRequest, { over: 'dead' }>;
    const filter = deadFilterIn(query);
    query.done();
    return { over, request, filter };
  }
  const request = checked(body, bodies.bulkOfJobs) as Extract<BulkRequest, { over: 'jobs' }>;
  const filter = jobFilterIn(query, { seesPayloads: true });
  query.done();
  return { over, request, filter };
}

const previewMax = 10_000;
const sampleMax = 10;
const chunkMax = 500;
const walkMax = 10_000;

export async function previewOf(settings: Settings, desk: Desk, bulk: Bulk): Promise<BulkPreview> {
  const [jobs, sample] = await Promise.all([countOf(settings, desk, bulk), sampleOf(settings, desk, bulk)]);
  return { jobs, sample, undoable: bulk.over === 'jobs' && canUndo(bulk.request.action) };
}

export async function countOf(settings: Settings, desk: Desk, bulk: Bulk): Promise<Count> {
  if (bulk.over === 'jobs') return countJobs(settings, desk, bulk.filter);
  const page = await listGroupedDead(desk.database, {
    ...bulk.filter,
    limit: previewMax,
    walkMax: previewMax,
  });
  return atLeast(page.items.length, page.next !== null);
}

async function sampleOf(settings: Settings, desk: Desk, bulk: Bulk): Promise<readonly JobRow[]> {
  if (bulk.over === 'jobs') return sampleJobs(settings, desk, { ...bulk.filter, limit: sampleMax });
  const page = await listGroupedDead(desk.database, {
    ...bulk.filter,
    limit: sampleMax,
    walkMax: previewMax,
  });
  return page.items.map((dead): JobRow => {
    const { id, queue, task, key, tries, crashes, created, died, ageMs, node, lastError } = rowOf(dead);
    return {
      id,
      status: 'dead',
      queue,
      task,
      key,
      priority: 0,
      tries,
      maxTries: null,
      crashes,
      created,
      ageMs,
      runAfter: null,
      node,
      started: null,
      finished: died,
      lastError: lastError?.message.slice(0, 200) ?? null,
    };
  });
}

/**
 * Yields the ids of the jobs that the filter finds, in chunks. Jobs that fit only after the start are
 * excluded, so that the iteration ends.
 */
export async function* chunksOf(
  settings: Settings,
  desk: Desk,
  bulk: Bulk,
): AsyncGenerator<readonly string[]> {
  const { database } = desk;
  if (bulk.over === 'dead') {
    const upTo = await readClock(database);
    let after: string | undefined;
    do {
      const page = await listGroupedDead(database, {
        ...bulk.filter,
        limit: chunkMax,
        walkMax: 2 * chunkMax,
        oldestFirst: true,
        upTo,
        ...(after === undefined ? {} : { after }),
      });
      yield page.items.map(({ id }) => id);
      after = page.next ?? undefined;
    } while (after !== undefined);
    return;
  }
  let after: string | undefined;
  do {
    const found = await findJobs(database, {
      ...bulk.filter,
      limit: chunkMax,
      walkMax,
      ...(after === undefined ? {} : { after }),
    });
    yield await visibleIds(settings, desk, { ids: found.ids, filter: bulk.filter });
    after = found.next ?? undefined;
  } while (after !== undefined);
}
