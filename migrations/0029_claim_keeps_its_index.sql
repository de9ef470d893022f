-- pgqueue 0029: a claim reads its jobs by their ids, whatever the planner believes.
-- compatible: yes

-- Where statistics say that no job is there, as ANALYZE may find at any moment, a session that plans its claim took items and jobs along their indexes from
-- end to end, and kept to that until statistics were made anew. Where vacuum can't clear dead rows away it read millions of them for each claim: half a
-- second for ten jobs. PostgreSQL considers an index without a condition where its order could serve a join; and for an array of unknown
-- length it counts ten searches, which cost more than a read of what it takes for one row. A comparison that has no order leaves only what reads by a
-- condition.
-- As in 0026 but for that.
create or replace function claim(p_node text, p_incarnation uuid, p_max integer, p_token uuid default gen_random_uuid(), p_from bigint default 0)
  returns table ("position" bigint, id uuid, token uuid, queue text, task text, key text, priority integer, attributes jsonb,
                 payload jsonb, payload_version integer, tries smallint, max_tries smallint, crashes smallint,
                 retry jsonb, trace jsonb, created timestamptz, lease_ms double precision, bundle uuid, checkpoint jsonb)
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_pool text;
  v_tasks jsonb;
  v_left integer := least(p_max, 10000);
  v_from bigint := abs(p_from);
  v_positions bigint[];
  v_bundles bigint;
  v_leases jsonb;
  v_alone uuid;
  v_until timestamptz;
  v_suspect bigint;
  v_wary boolean := false;
  v_single integer;
  v_got integer;
begin
  if p_max is null or p_max < 0 then
    raise exception 'claim takes a number of jobs, not %', p_max using errcode = '22023';
  end if;
  select n.pool, n.tasks, n.alone, n.alone_until into v_pool, v_tasks, v_alone, v_until
  from node n where n.id = p_node and n.incarnation = p_incarnation and n.state in ('alive', 'draining')
  for key share; -- a reset of this node waits for this claim, and then takes back what it leased
  if not found then
    raise exception 'node % is not registered as incarnation %', p_node, p_incarnation
      using errcode = 'PQ001', hint = 'It was reset, lost or replaced: register again, and drop what it was running.';
  end if;
  for round in 1..3 loop
    v_suspect := null;
    if v_left > 0 and exists (select from work_queue w where w.suspect and w.pool = v_pool) then
      v_suspect := find_suspect(p_node, v_pool, v_tasks);
      exit when v_suspect = 0 or (v_suspect is null and closed_for(p_node, v_pool, v_tasks, v_alone, v_until));
    end if;
    if v_suspect > 0 then
      v_positions := array[v_suspect];
      v_bundles := 0;
    else
      select array_agg(x.position), count(x.bundle) into v_positions, v_bundles
      from (
        select r.position, r.bundle from work_queue r
        where r.position >= v_from and r.lock_key is null and r.pool = v_pool
          and case when r.bundle is null then
            (not r.suspect or coalesce(v_tasks -> r.task -> 'isolated' = 'true', false))
            and r.version between (v_tasks -> r.task ->> 'min')::integer and (v_tasks -> r.task ->> 'max')::integer
            and (not v_wary or (select j.id from queue j where j.id = r.id and (j.expires_at is null or j.expires_at > v_now)) is not null)
          else
            (select b.position from work_queue b
             where b.bundle = r.bundle and (b.position + 0 < r.position or b.lock_key is not null) limit 1) is null
            and (select b.position from work_queue b
                 where b.bundle = r.bundle and b.batch = r.batch and b.task = r.task and b.pool = v_pool
                   and (not b.suspect or coalesce(v_tasks -> b.task -> 'isolated' = 'true', false))
                   and b.version between (v_tasks -> b.task ->> 'min')::integer and (v_tasks -> b.task ->> 'max')::integer
                   and (select j.id from queue j where j.id = b.id and (j.expires_at is null or j.expires_at > v_now)) is not null
                 limit 1) is not null
          end
        order by r.position limit v_left for update skip locked) x;
    end if;
    if v_positions is not null then
      v_left := v_left - cardinality(v_positions);
      v_single := cardinality(v_positions) - v_bundles;
      if v_bundles > 0 then
        with firsts as materialized (
          select w.position, w.batch, w.bundle, w.task from work_queue w where w.position = any (v_positions)
        ),
        units as materialized (
          select f.batch, f.bundle, f.task,
                 coalesce(v_tasks -> f.task -> 'batch' = 'true', false) and (
                   select m.position from work_queue m
                   where m.bundle = f.bundle and m.batch = f.batch and m.task = f.task and m.pool = v_pool and m.lock_key is null
                     and (not m.suspect or coalesce(v_tasks -> m.task -> 'isolated' = 'true', false))
                     and m.version between (v_tasks -> m.task ->> 'min')::integer and (v_tasks -> m.task ->> 'max')::integer
                     and (select (j.tries > 0 and j.tries + 1 >= j.max_tries) or (j.crashes > 0 and j.crashes + 1 >= j.max_crashes)
                          from queue j where j.id = m.id and (j.expires_at is null or j.expires_at > v_now)) = false
                   limit 1) is not null as together
          from firsts f where f.bundle is not null
        ),
        members as materialized (
          select u.bundle, m.position, m.timeout
          from units u cross join lateral (
            select m.position, (select coalesce(j.timeout, (v_tasks -> m.task ->> 'timeoutMs')::float8 * interval '1 millisecond', interval '5 minutes')
                                from queue j where j.id = m.id) as timeout
            from work_queue m
            where m.bundle = u.bundle and m.batch = u.batch and m.task = u.task and m.pool = v_pool and m.lock_key is null
              and (not m.suspect or coalesce(v_tasks -> m.task -> 'isolated' = 'true', false))
              and m.version between (v_tasks -> m.task ->> 'min')::integer and (v_tasks -> m.task ->> 'max')::integer
              and (select (j.tries > 0 and j.tries + 1 >= j.max_tries) or (j.crashes > 0 and j.crashes + 1 >= j.max_crashes)
                   from queue j where j.id = m.id and (j.expires_at is null or j.expires_at > v_now)) in (false, not u.together)
            limit case when u.together then 10000 else 1 end
            for update skip locked) m
        )
        select array(select f.position from firsts f where f.bundle is null union all select m.position from members m),
               (select jsonb_object_agg(s.bundle, s.timeout)
                from (select m.bundle, min(m.timeout) as timeout from members m group by m.bundle) s)
        into v_positions, v_leases;
      end if;
      -- along the primary key, and so in the order of positions; "= any" of one: nothing else may offer itself for the join
      return query
        update work_queue w
        set lock_key = p_node, lock_token = p_token, started = v_now,
            lock_timeout = v_now + coalesce(
              (v_leases ->> w.bundle::text)::interval, q.timeout,
              (v_tasks -> w.task ->> 'timeoutMs')::float8 * interval '1 millisecond', interval '5 minutes')
        from queue q
        where w.position = any (v_positions) and q.id = any (array[w.id]) and (q.expires_at is null or q.expires_at > v_now)
        returning w.position, w.id, p_token, q.queue, q.task, q.key, q.priority, q.attributes, q.payload, q.payload_version,
                  q.tries, q.max_tries, q.crashes, q.retry, q.trace, q.created,
                  date_part('epoch', w.lock_timeout - v_now) * 1000, w.bundle, q.checkpoint;
      get diagnostics v_got = row_count;
      -- an item whose job is gone, or has expired, must not take the place of one that can run
      if v_got < cardinality(v_positions) and v_suspect is null and not v_wary then
        v_left := v_left + least(v_single, cardinality(v_positions) - v_got);
        v_wary := true;
        continue;
      end if;
    end if;
    exit when v_suspect > 0 or v_left <= 0 or p_from > 0 or not exists (select from work_queue w where w.position >= abs(p_from) and w.lock_timeout <= v_now);
    -- all that have run out, not only what fits: a bundle can be claimed when the last of its leases has
    exit when not exists (select from reap(greatest(v_left, 1000)));
    v_from := abs(p_from);
  end loop;
end
$$;
