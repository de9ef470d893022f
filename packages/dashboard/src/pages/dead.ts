import type { Codec } from '@pgqueue/core';
import { openedError, placeOf } from '@pgqueue/core/internal';
import type { GroupedDead } from '@pgqueue/postgres/internal/dashboard';
import { groupOf, listGroupedDead } from '@pgqueue/postgres/internal/dashboard';
import type { DeadGroup, DeadGroups, DeadPage, DeadRow } from '../contract.ts';
import type { Desk } from '../desk.ts';
import type { Parameters } from '../http/parameters.ts';
import { deadFilterIn } from './filter.ts';
import { atLeast, errorOf, timeOf } from './wire.ts';

const walkMax = 5_000;
const groupsMax = 100;
const keysMax = 5;

export async function deadPage({ database, codec }: Desk, query: Parameters): Promise<DeadPage> {
  const filter = deadFilterIn(query);
  const [limit, after] = [query.limit(), query.text('after', 60)];
  if (after !== undefined && !/^\d{1,18}_[0-9a-f-]{36}$/.test(after)) {
    query.fail('after is no cursor: give the "next" of the page before');
  }
  query.done();
  const page = await listGroupedDead(database, {
    ...filter,
    limit,
    walkMax,
    ...(after === undefined ? {} : { after }),
  });
  const end = page.items.length < limit ? page.lookedTo : null;
  return { items: page.items.map((job) => rowOf(job, codec)), next: page.next, lookedBackTo: timeOf(end) };
}

/** Groups the newest dead jobs by error. No index supports that, so only a bounded number is read. */
export async function deadGroupsPage({ database, codec }: Desk, query: Parameters): Promise<DeadGroups> {
  const filter = deadFilterIn(query);
  query.done();
  const { items, seen, next } = await listGroupedDead(database, { ...filter, limit: walkMax, walkMax });
  const groups = [...Map.groupBy(items, ({ group }) => group).values()]
    .flatMap((jobs) => groupRowOf(jobs, codec))
    .toSorted((a, b) => b.jobs - a.jobs || (a.last < b.last ? 1 : -1));
  return {
    at: new Date().toISOString(),
    groups: groups.slice(0, groupsMax),
    more: groups.length > groupsMax,
    looked: atLeast(seen, next !== null),
  };
}

/** Summarizes a group; its jobs are sorted by death, latest first. */
function groupRowOf(jobs: readonly GroupedDead[], codec: Codec | undefined): readonly DeadGroup[] {
  const [newest, oldest] = [jobs[0], jobs.at(-1)];
  if (newest === undefined || oldest === undefined) return [];
  const { group, queue, task, reason, died, id } = newest;
  const { lastError } = newest;
  // the error of a group is not decoded: those of its jobs differ
  const shown =
    codec?.keyOf(lastError) === undefined
      ? openedError(codec, lastError, placeOf(newest, 'error'))
      : lastError;
  const { name, message } = groupOf({ ...newest, lastError: shown });
  return [
    {
      group,
      queue,
      task,
      reason,
      name,
      message,
      jobs: jobs.length,
      first: timeOf(oldest.died),
      last: timeOf(died),
      keys: [...new Set(jobs.map(({ key }) => key))].slice(0, keysMax),
      sample: { id, error: rowOf(newest, codec).lastError },
    },
  ];
}

export function rowOf({ created, died, lastError, ...row }: GroupedDead, codec?: Codec): DeadRow {
  const error = openedError(codec, lastError, placeOf(row, 'error'));
  return {
    ...row,
    created: timeOf(created),
    died: timeOf(died),
    lastError: error === null ? null : errorOf(error),
  };
}
