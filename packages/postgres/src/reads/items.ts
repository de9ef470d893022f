/**
 * SQL: whether a job has a work item, or one with a lease. A single row is found by its unique index; the few batches are read once a statement,
 * from where they begin, as a hash of their jobs. The limit says that they are few to a planner whose statistics are old.
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
        where w.jobs is not null and w.position >= coalesce((select f.position from ${schema}.batch_front f), 0)${leased}
        order by w.position limit 10000) b cross join lateral unnest(b.jobs) as u (id)))`;
}
