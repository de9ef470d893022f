import type { Database } from '@pgqueue/postgres';
import { dispatch, lead } from '@pgqueue/postgres/internal';

/** Schedules jobs as bundles, in place of a scheduler: the jobs of each list together, a list of one alone. */
export async function dispatchBundles(
  database: Database,
  bundles: readonly (readonly string[])[],
): Promise<ReadonlySet<string>> {
  const leader = 'leader'; // as on the ground of database tests
  const { epoch } = await lead(database, leader, 600_000);
  const jobs = bundles.flatMap((ids) =>
    ids.map((id) => {
      const bundle = ids.length > 1 ? (ids[0] ?? null) : null;
      return { id, pool: 'default', rowVersion: null, bundle };
    }),
  );
  const plan = { leader, epoch, jobs, parts: null, settled: [], notify: true };
  return new Set((await dispatch(database, plan)).positions.keys());
}

/**
 * Records the lease of every work item in bundle_lease, from its claim to its end, by the database's clock: before its holder hears of the
 * claim, and before anyone could claim it anew.
 */
export const recordLeases = `
  create table public.bundle_lease (bundle bigint, position bigint, token uuid, began timestamptz, ended timestamptz);
  create function public.record_lease() returns trigger language plpgsql as $$
  begin
    if tg_op <> 'INSERT' and old.lock_token is not null then
      update public.bundle_lease b set ended = clock_timestamp()
      where b.position = old.position and b.token = old.lock_token and b.ended is null;
    end if;
    if tg_op <> 'DELETE' and new.lock_token is not null then
      insert into public.bundle_lease values (new.together, new.position, new.lock_token, clock_timestamp(), null);
    end if;
    return null;
  end $$;
  create trigger record_lease after insert or update of lock_token or delete on pgqueue.work_queue
    for each row execute function public.record_lease()`;

/** Leases of one bundle, under different tokens, that were held at one time: no two handlers may ever have had one. */
export const overlaps = `
  select a.bundle, a.position, a.token, b.position as other, b.token as other_token
  from bundle_lease a join bundle_lease b on a.bundle = b.bundle and a.token <> b.token
  where a.began <= b.began and coalesce(a.ended, 'infinity') > b.began`;
