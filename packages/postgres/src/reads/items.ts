/**
 * Returns SQL that tests whether a job has a work item (`running`: a leased one). A single job's row is found
 * by its unique index. The batches are few: their jobs are read once a statement, from the position where
 * batches begin, and hashed. The limit tells a planner with old statistics that they are few.
 */
export function hasItem(
  schema: string,
  { id, running = false }: { readonly id: string; readonly running?: boolean },
): string {
  const leased = running ? ' and w.lock_key is not null' : '';
  return `((select w.position from ${schema}.work_queue w where w.id = ${id}${leased}) is not null
    or ${id} in (
      select u.id from (
        select w.jobs from ${schema}.work_queue w
        where w.jobs is not null and w.position >= coalesce((select f.batch from ${schema}.work_front f), 0)${leased}
        order by w.position limit 10000) b cross join lateral unnest(b.jobs) as u (id)))`;
}
