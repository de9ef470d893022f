import type { Target } from '../../connection/target.ts';

/**
 * A condition that holds at every commit, whichever process was killed when. `find` selects the `id` (text)
 * of each thing that breaks it.
 */
export interface Invariant {
  readonly name: InvariantName;
  readonly says: string;
  readonly find: (schema: string) => string;
}

export type InvariantName =
  | 'orphan_items'
  | 'items_of_delayed_jobs'
  | 'items_that_differ'
  | 'jobs_in_two_items'
  | 'items_behind_front'
  | 'jobs_in_two_places'
  | 'leases_of_ended_nodes';

/**
 * Returns SQL for the jobs of all work items, a row each. Unlike the view work_item it reads every batch,
 * whatever position is recorded for the first one: that position may be what is wrong.
 */
export function jobsOfItems(schema: string): string {
  return `(select w.position, w.task, w.version, w.lock_key, w.lock_timeout, w.started, u.id
           from ${schema}.work_queue w cross join lateral unnest(coalesce(w.jobs, array[w.id])) as u (id))`;
}

/** Single list of the invariants, read by `pgqueue doctor` and by the checkers of the fault tests. */
export const invariants: readonly Invariant[] = [
  {
    name: 'orphan_items',
    says: 'every job of a work item has its QUEUE row',
    find: (schema) =>
      `select w.id::text as id from ${jobsOfItems(schema)} w
       where not exists (select from ${schema}.queue q where q.id = w.id)`,
  },
  {
    name: 'items_of_delayed_jobs',
    says: 'a delayed job has no work item',
    find: (schema) =>
      `select w.id::text as id from ${jobsOfItems(schema)} w join ${schema}.queue q on q.id = w.id
       where q.run_after is not null`,
  },
  {
    name: 'items_that_differ',
    says: 'a work item has the task and the payload version of its job',
    find: (schema) =>
      `select w.id::text as id from ${jobsOfItems(schema)} w join ${schema}.queue q on q.id = w.id
       where w.task <> q.task or w.version <> q.payload_version`,
  },
  {
    name: 'jobs_in_two_items',
    says: 'a job is in one work item at most',
    find: (schema) =>
      `select w.id::text as id from ${jobsOfItems(schema)} w group by w.id having count(*) > 1`,
  },
  {
    name: 'items_behind_front',
    says: 'no item and no batch lies before the position from which on they are looked for',
    find: (schema) =>
      `select w.position::text as id from ${schema}.work_queue w
       where w.position < (select case when w.jobs is null then f.item else f.batch end from ${schema}.work_front f)`,
  },
  {
    name: 'jobs_in_two_places',
    says: 'a job stands in one of QUEUE, DEAD_LETTER and HISTORY',
    // an id that was used again names another job: that was created after the first one had ended
    find: (schema) =>
      // joined from QUEUE and DEAD_LETTER, which are small beside HISTORY: its index by id is enough then
      `select d.id::text as id from ${schema}.dead_letter d join ${schema}.queue q on q.id = d.id and q.created <= d.died
       union
       select q.id::text from ${schema}.queue q
       join ${schema}.history h on h.id = q.id and h.outcome = 'done' and h.finished >= q.created
       union
       select d.id::text from ${schema}.dead_letter d
       join ${schema}.history h on h.id = d.id and h.outcome = 'done' and h.finished >= d.created`,
  },
  {
    name: 'leases_of_ended_nodes',
    says: 'every lease is held by a node that has not ended',
    find: (schema) =>
      `select distinct w.lock_key::text as id from ${schema}.work_queue w
       where w.lock_key is not null
         and not exists (select from ${schema}.node n where n.id = w.lock_key and n.state in ('alive', 'draining'))`,
  },
];

/** One broken invariant: how many things break it, and the ids of the first ten. */
export interface Breach {
  readonly name: string;
  readonly count: number;
  readonly samples: readonly string[];
}

/** Checks all invariants in one statement, and so in one snapshot. Returns the broken ones. */
export async function breaches(
  target: Target,
  checked: readonly { readonly name: string; readonly find: (schema: string) => string }[] = invariants,
): Promise<readonly Breach[]> {
  const parts = checked.map(
    ({ name, find }) =>
      `select '${name}' as name, count(*)::integer as count, coalesce((array_agg(id order by id))[1:10], '{}') as samples
       from (${find(target.schema)}) found`,
  );
  const rows = await target.query<Breach>(parts.join('\nunion all\n'), []);
  return rows.filter(({ count }) => count > 0);
}
