-- pgqueue 0011: claim takes bundles, the jobs that one handler call takes together.
-- compatible: yes (older workers get the jobs of a bundle one after another)

-- Items that run alone are not in it, and none moves in it: claims stay HOT updates.
create index work_queue_bundle on work_queue (bundle, position) where bundle is not null;

alter function claim(text, uuid, integer, uuid, bigint) rename to claim_before;

-- As in 0004, and a bundle takes one of the p_max places: its ready jobs are leased together, by one node, until the shortest of
-- their timeouts. A node says of each task whether it takes bundles ("batch": true, in the tasks that it registered with); one
-- that does not gets the jobs of a bundle one after another, each when the one before has ended. So either way a bundle is one
-- handler at a time, which is what limits count it as.
--
-- Safe because: a bundle is claimed by its first item alone, whatever state the others are in, and only while no lease on any of them
-- is held. Two nodes that look at once find the same first item, and one of them finds it locked; a member that was passed over
-- (locked by someone at that moment, or more than this node can run) waits until the others have ended.
-- A job that failed together with others, and would be dead the next time, goes alone: one that takes its node down, or makes the handler
-- throw, does not take the others with it into the dead letter.
-- The id of a bundle's first job can come back, when it is retried as the first of another bundle: what is left of the older one goes
-- first, alone (batch tells them apart).
-- Plans: work_queue_bundle is asked for bundles without an order, so that no scan along the primary key can stand in for it; and
-- "bundle is not null" is nowhere said of a scan, since that invites the index as a whole.
create function claim(p_node text, p_incarnation uuid, p_max integer, p_token uuid default gen_random_uuid(), p_from bigint default 0)
  returns table ("position" bigint, id uuid, token uuid, queue text, task text, key text, priority integer, attributes jsonb,
                 payload jsonb, payload_version integer, tries smallint, max_tries smallint, crashes smallint,
                 retry jsonb, trace jsonb, created timestamptz, lease_ms double precision, bundle uuid)
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
  v_from bigint := p_from;
  v_positions bigint[];
  v_bundles bigint;
  v_leases jsonb;
begin
  if p_max is null or p_max < 0 then
    raise exception 'claim takes a number of jobs, not %', p_max using errcode = '22023';
  end if;
  select n.pool, n.tasks into v_pool, v_tasks
  from node n where n.id = p_node and n.incarnation = p_incarnation and n.state in ('alive', 'draining')
  for key share; -- a reset of this node waits for this claim, and then takes back what it leased
  if not found then
    raise exception 'node % is not registered as incarnation %', p_node, p_incarnation
      using errcode = 'PQ001', hint = 'It was reset, lost or replaced: register again, and drop what it was running.';
  end if;
  for round in 1..2 loop
    select array_agg(x.position), count(x.bundle) into v_positions, v_bundles
    from (
      select r.position, r.bundle from work_queue r
      where r.position >= v_from and r.lock_key is null and r.pool = v_pool
        and case when r.bundle is null then
          r.version between (v_tasks -> r.task ->> 'min')::integer and (v_tasks -> r.task ->> 'max')::integer
          -- an item whose job is gone, or has expired, must not take the place of one that can run
          and (select j.id from queue j where j.id = r.id and (j.expires_at is null or j.expires_at > v_now)) is not null
        else
          (select b.position from work_queue b
           where b.bundle = r.bundle and (b.position + 0 < r.position or b.lock_key is not null) limit 1) is null
          and (select b.position from work_queue b
               where b.bundle = r.bundle and b.batch = r.batch and b.task = r.task and b.pool = v_pool
                 and b.version between (v_tasks -> b.task ->> 'min')::integer and (v_tasks -> b.task ->> 'max')::integer
                 and (select j.id from queue j where j.id = b.id and (j.expires_at is null or j.expires_at > v_now)) is not null
               limit 1) is not null
        end
      order by r.position limit v_left for update skip locked) x;
    if v_positions is not null then
      v_left := v_left - cardinality(v_positions);
      if v_bundles > 0 then
        with firsts as materialized (
          select w.position, w.batch, w.bundle, w.task from work_queue w where w.position = any (v_positions)
        ),
        units as materialized (
          select f.batch, f.bundle, f.task,
                 coalesce(v_tasks -> f.task -> 'batch' = 'true', false) and (
                   select m.position from work_queue m
                   where m.bundle = f.bundle and m.batch = f.batch and m.task = f.task and m.pool = v_pool and m.lock_key is null
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
      return query
        with leased as (
          update work_queue w
          set lock_key = p_node, lock_token = p_token, started = v_now,
              lock_timeout = v_now + coalesce(
                (v_leases ->> w.bundle::text)::interval, q.timeout,
                (v_tasks -> w.task ->> 'timeoutMs')::float8 * interval '1 millisecond', interval '5 minutes')
          from queue q
          where w.position = any (v_positions) and q.id = w.id and (q.expires_at is null or q.expires_at > v_now)
          returning w.position, w.id, w.lock_timeout, w.bundle, q.queue, q.task, q.key, q.priority, q.attributes, q.payload,
                    q.payload_version, q.tries, q.max_tries, q.crashes, q.retry, q.trace, q.created)
        select l.position, l.id, p_token, l.queue, l.task, l.key, l.priority, l.attributes, l.payload, l.payload_version,
               l.tries, l.max_tries, l.crashes, l.retry, l.trace, l.created,
               extract(epoch from l.lock_timeout - v_now)::float8 * 1000, l.bundle
        from leased l order by l.position;
    end if;
    exit when v_left <= 0 or p_from > 0 or not exists (select from work_queue w where w.position >= 0 and w.lock_timeout <= v_now);
    -- all that have run out, not only what fits: a bundle can be claimed when the last of its leases has
    exit when not exists (select from reap(greatest(v_left, 1000)));
    v_from := 0;
  end loop;
end
$$;

-- Whoever might call it may go on to.
do $$
declare
  v_grant record;
begin
  for v_grant in
    select a.grantee::regrole as role
    from pg_proc p, aclexplode(p.proacl) a
    where p.oid = 'claim_before(text, uuid, integer, uuid, bigint)'::regprocedure and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function claim(text, uuid, integer, uuid, bigint) to %s', v_grant.role);
  end loop;
end
$$;
drop function claim_before(text, uuid, integer, uuid, bigint);

comment on column node.tasks is
  'What it can run: {"task": {"min": 1, "max": 3, "timeoutMs": 60000, "batch": true}}, payload versions from min to max; batch: takes bundles whole.';
