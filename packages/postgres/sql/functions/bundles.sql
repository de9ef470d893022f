-- Puts in the place of the first item of each bundle those that are leased with it. leases: the seconds of each bundle's lease, the shortest timeout of its
-- jobs. A job that failed together with others, and would be dead the next time, is leased by itself, when no other is left.
create function bundle_members(p_firsts bigint[], p_pool text, p_tasks jsonb, p_now timestamptz, out positions bigint[], out leases jsonb)
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  with firsts as materialized (
    select w.position, w.batch, w.bundle, w.task from work_queue w where w.position = any (p_firsts)
  ),
  units as materialized (
    select f.batch, f.bundle, f.task,
           coalesce(p_tasks -> f.task -> 'batch' = 'true', false) and (
             select m.position from work_queue m
             where m.bundle = f.bundle and m.batch = f.batch and m.task = f.task and m.pool = p_pool and m.lock_key is null
               and node_takes(p_tasks, m.task, m.version, m.suspect)
               and (select (j.tries > 0 and j.tries + 1 >= j.max_tries) or (j.crashes > 0 and j.crashes + 1 >= j.max_crashes)
                    from queue j where j.id = m.id and (j.expires_at is null or j.expires_at > p_now)) = false
             limit 1) is not null as together
    from firsts f where f.bundle is not null
  ),
  members as materialized (
    select u.bundle, m.position, m.timeout
    from units u cross join lateral (
      select m.position, (select coalesce(date_part('epoch', j.timeout), (p_tasks -> m.task ->> 'timeoutMs')::float8 / 1000, 300)
                          from queue j where j.id = m.id) as timeout
      from work_queue m
      where m.bundle = u.bundle and m.batch = u.batch and m.task = u.task and m.pool = p_pool and m.lock_key is null
        and node_takes(p_tasks, m.task, m.version, m.suspect)
        and (select (j.tries > 0 and j.tries + 1 >= j.max_tries) or (j.crashes > 0 and j.crashes + 1 >= j.max_crashes)
             from queue j where j.id = m.id and (j.expires_at is null or j.expires_at > p_now)) in (false, not u.together)
      limit case when u.together then 10000 else 1 end
      for update skip locked) m
  )
  select array(select f.position from firsts f where f.bundle is null union all select m.position from members m),
         (select jsonb_object_agg(s.bundle, s.timeout)
          from (select m.bundle, min(m.timeout) as timeout from members m group by m.bundle) s)
  into positions, leases;
end
$$;

