-- pgqueue 0006: what the holder of a lease can do with it, and what happens to a lease whose holder is gone.
-- compatible: yes

-- Moves the timeouts: each lease ends p_ms from now. A lease that has run out but that nobody has taken can be extended;
-- an id that is missing from the answer was lost. Served by work_queue_id; 0005 says why nested loops are off.
create function extend(p_ids uuid[], p_tokens uuid[], p_ms float8[])
  returns table (job_id uuid, lease_ms double precision, cancelled boolean)
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
begin
  if exists (select from unnest(p_ms) m where m is null or m <= 0) then
    raise exception 'a lease is extended by a positive number of milliseconds, not %', p_ms using errcode = '22023';
  end if;
  return query
    update work_queue w set lock_timeout = v_now + x.ms * interval '1 millisecond'
    from unnest(p_ids, p_tokens, p_ms) as x (id, token, ms)
    where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token
    returning w.id, x.ms, w.cancelled is not null;
end
$$;

create function extend(p_id uuid, p_token uuid, p_by interval) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from extend(array[p_id], array[p_token], array[extract(epoch from p_by)::float8 * 1000]))
$$;

-- Gives leases back unrun: the items are ready again, at their old place, and nothing is counted. A job whose cancellation had
-- been asked for ends as cancelled instead: no other node should begin it.
create function release(p_ids uuid[], p_tokens uuid[]) returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
    update work_queue w
    set lock_key = null, lock_token = null, lock_timeout = null, started = null, progress = null
    from unnest(p_ids, p_tokens) as x (id, token)
    where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token and w.cancelled is null
    returning w.id;
  if found then
    perform pg_notify(current_schema() || ':work', '');
  end if;
  -- a cancellation is never taken back, so what the statement above passed over is here
  if exists (select from work_queue w where w.id = any (p_ids) and w.cancelled is not null) then
    return query
      select s.job_id
      from settle(p_ids, p_tokens, array_fill('cancelled'::text, array[cardinality(p_ids)]),
                  array_fill(null::float8, array[cardinality(p_ids)]), array_fill(null::text, array[cardinality(p_ids)])) s;
  end if;
end
$$;

create function release(p_id uuid, p_token uuid) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from release(array[p_id], array[p_token]))
$$;

-- What a running job says of itself; readable in the view job. False: the lease was lost.
create function report_progress(p_id uuid, p_token uuid, p_progress jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  if pg_column_size(p_progress) > 8192 then
    raise exception 'progress is at most 8 KiB' using errcode = '22023';
  end if;
  update work_queue set progress = p_progress where id = p_id and lock_token = p_token;
  return found;
end
$$;

-- Ends the leases of the given items, whose holder is gone (the caller has locked the rows). The job's crashes go up by
-- one; below its limit the item is ready again at its old place, at its limit the job is dead (crash_limit); a job whose
-- cancellation had been asked for ends as cancelled.
-- The jobs are locked before any is changed, in the order of ids that everyone keeps. Without p_wait, those that another session has
-- locked (an application's transaction, which may be long) are left for the next sweep, so that it never stands still.
create function crash(p_positions bigint[], p_why text, p_wait boolean)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_ids uuid[] := array(select w.id from work_queue w where w.position = any (p_positions) and w.lock_key is not null);
begin
  if p_wait then
    perform from queue q where q.id = any (v_ids) order by q.id for update;
  else
    v_ids := array(select q.id from queue q where q.id = any (v_ids) for update skip locked)
      || array(select x.id from unnest(v_ids) x (id) where (select q.id from queue q where q.id = x.id) is null);
  end if;
  return query
  with lost as materialized (
    select w.position, w.id, w.lock_key, w.lock_token, w.started, w.cancelled is not null as stop
    from work_queue w where w.position = any (p_positions) and w.id = any (v_ids) and w.lock_key is not null
  ),
  counted as (
    update queue q
    set crashes = q.crashes + 1,
        errors = with_error(q.errors, jsonb_build_object('kind', 'crash', 'message', p_why), l.lock_key, q.tries + 1, v_now)
    from lost l
    where q.id = any (v_ids) and q.id = l.id and not l.stop and q.crashes + 1 < q.max_crashes
    returning q.id
  ),
  ended as (
    delete from queue q using lost l
    where q.id = any (v_ids) and q.id = l.id and (l.stop or q.crashes + 1 >= q.max_crashes)
    returning q.*, l.lock_key, l.lock_token, l.started, l.stop,
      with_error(q.errors, jsonb_build_object('kind', 'crash', 'message', p_why), l.lock_key, q.tries + 1, v_now) as all_errors
  ),
  freed as (
    update work_queue w
    set lock_key = null, lock_token = null, lock_timeout = null, started = null, progress = null
    from lost l
    where w.position = any (p_positions) and w.position = l.position and l.id in (select c.id from counted c)
    returning w.id
  ),
  removed as (
    delete from work_queue w using lost l
    where w.position = any (p_positions) and w.position = l.position and l.id not in (select c.id from counted c)
    returning w.id
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, errors, trace)
    select e.id, e.queue, e.task, e.key, e.priority, 'cancelled', e.tries, e.crashes + 1, e.created, e.started, v_now,
           e.payload_version, e.lock_key, e.lock_token, e.unique_key, e.attributes, e.payload, e.all_errors, e.trace
    from ended e
    where e.stop and coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  ),
  buried as (
    insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                             timeout, payload_version, node, token, unique_key, attributes, payload, retry, trace, errors)
    select e.id, e.queue, e.task, e.key, e.priority, 'crash_limit', e.tries, e.max_tries, e.crashes + 1, e.max_crashes,
           e.created, v_now, e.timeout, e.payload_version, e.lock_key, e.lock_token, e.unique_key, e.attributes, e.payload,
           e.retry, e.trace, e.all_errors
    from ended e where not e.stop
    on conflict (id) do update
      set (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
           token, unique_key, attributes, payload, retry, trace, errors) = (select excluded.*)
  )
  select f.id, 'ready'::text from freed f
  union all
  select e.id, case when e.stop then 'cancelled' else 'dead' end from ended e;
end
$$;

-- Takes over expired leases, oldest items first. Any node and the scheduler call it: no one's life depends on another's.
-- SKIP LOCKED: an item that is being settled or extended at this moment is not expired; one whose job is locked waits for the
-- next sweep.
create function reap(p_max integer default 1000)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  return query
    select c.job_id, c.verdict
    from crash(array(
      select w.position from work_queue w
      where w.lock_timeout <= clock_timestamp() order by w.position limit p_max for update skip locked), 'lease expired', false) c;
  if found then
    perform pg_notify(current_schema() || ':work', '');
  end if;
end
$$;
