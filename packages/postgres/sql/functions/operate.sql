-- recall, and the functions that call it, lock the QUEUE rows first, in the order of their ids; the scheduler
-- skips locked rows, so no new work item can appear. A new statement, and so a new snapshot, then deletes the
-- ready work items and skips those that another session is claiming or settling. A job that still has a work
-- item after that is running, or about to end. Only READ COMMITTED gives each statement a new snapshot.

-- Locks waiting jobs and takes back their ready work items; returns the jobs that have none after that.
create function recall(p_ids uuid[]) returns uuid[]
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  perform assert_read_committed('a change of waiting jobs');
  perform from queue q where q.id = any (p_ids) order by q.id for update;
  perform spread(p_ids);
  delete from work_queue
  where position = any (array(
    select w.position from work_queue w where w.id = any (p_ids) and w.lock_key is null for update skip locked));
  return array(
    select q.id from queue q where q.id = any (p_ids) and (select w.id from work_queue w where w.id = q.id) is null and not in_batch(q.id));
end
$$;

-- Ends waiting jobs that recall has returned, as cancelled or as expired; returns those that were still there.
create function end_waiting(p_ids uuid[], p_outcome text) returns uuid[]
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_gone uuid[];
  v_ends flow_end[];
begin
  with gone as (delete from queue q where q.id = any (p_ids) returning q.*),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, finished, payload_version, unique_key,
                         attributes, payload, errors, trace, flow, step, settings)
    select g.id, g.queue, g.task, g.key, g.priority, p_outcome, g.tries, g.crashes, g.created, clock_timestamp(),
           g.payload_version, g.unique_key, g.attributes, g.payload, g.errors, g.trace, g.flow, g.step,
           case when g.flow is not null then settings_of(g.timeout, g.max_tries, g.max_crashes, g.retry) end
    from gone g
    where coalesce((select c.retention from queue_config c where c.queue = g.queue), interval '7 days') > interval '0')
  select array_agg(g.id), array_agg((g.flow, g.step, g.id, p_outcome, null, null)::flow_end) filter (where g.flow is not null)
  into v_gone, v_ends from gone g;
  if v_ends is not null then
    perform note_ends(v_ends);
  end if;
  return v_gone;
end
$$;

-- Cancels jobs. Waiting jobs end at once (cancelled); the node of a running job hears of it with its next
-- heartbeat (signalled). busy: another session is claiming or settling the job, or it is on its way to another
-- installation; call again. A job that is missing from the answer has ended, or never existed.
create function cancel(p_ids uuid[])
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  return query select u.id, 'cancelled'::text from unnest(end_waiting(recall(p_ids), 'cancelled')) as u (id);
  update work_queue w set cancelled = coalesce(w.cancelled, clock_timestamp())
  where w.position = any (array(
    select r.position from work_queue r
    where r.id = any (p_ids) and r.lock_key is not null for update skip locked));
  return query
    select q.id,
           case when (select w.id from work_queue w where w.id = q.id and w.cancelled is not null) is null then 'busy'
                else 'signalled' end
    from queue q where q.id = any (p_ids)
    union all
    select h.id, 'busy' from handover h where h.id = any (p_ids);
  if exists (select from work_queue w where w.id = any (p_ids) and w.cancelled is not null) then
    perform hint('cancel');
  end if;
end
$$;

-- Changes waiting jobs: their priority, their run_after, or both; p_now clears run_after. Returns the changed
-- jobs. Leaves running jobs alone.
create function amend(p_ids uuid[], p_priority integer default null, p_run_after timestamptz default null, p_now boolean default false)
  returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_waiting uuid[] := recall(p_ids);
begin
  return query
    update queue q
    set priority = coalesce(p_priority, q.priority), run_after = case when p_now then null else coalesce(p_run_after, q.run_after) end
    where q.id = any (v_waiting)
    returning q.id;
end
$$;

-- Removes jobs without a trace, from whichever table they are in; a flow keeps of one that is done that its result is
-- lost, since its step has counted it. Leaves running jobs alone.
create function erase(p_ids uuid[]) returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_waiting uuid[] := recall(p_ids);
  v_gone uuid[];
  v_ends flow_end[];
begin
  with gone as (delete from queue q where q.id = any (v_waiting) returning q.id, q.flow, q.step)
  select array_agg(g.id), array_agg((g.flow, g.step, g.id, 'erased', null, null)::flow_end) filter (where g.flow is not null)
  into v_gone, v_ends from gone g;
  if v_ends is not null then
    perform note_ends(v_ends);
  end if;
  return query select unnest(v_gone);
  return query delete from dead_letter d where d.id = any (p_ids) returning d.id;
  return query
    with gone as materialized (delete from history h where h.id = any (p_ids) returning h.id, h.flow, h.step),
    emptied as (
      update flow_result r set result = '{"pgqueue_error": "the job was erased"}'
      from gone g where r.flow = any (array[g.flow]) and r.step = g.step and r.job = g.id and r.result is not null
    )
    select g.id from gone g;
  perform forget_signals(array(select x.id from unnest(p_ids) as x (id) where (select q.id from queue q where q.id = x.id) is null), 'all');
end
$$;

-- Puts dead jobs back into QUEUE with fresh limits; they keep the errors of their attempts, and their checkpoint. A job whose
-- unique key belongs to a newer job stays dead, and is missing from the answer. Their steps keep the
-- notes of their ends until they end again (note_ends). Plain values of signals of a job that died of one, since its codec
-- refuses it, are forgotten: then it may be given another. An encrypted error does not tell: they are forgotten then, too.
-- Locks the jobs' flows first: else a step could end as done between the leader's look and its count, for a
-- job that is back.
create function redrive(p_ids uuid[]) returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  perform from flow f
  where f.id = any (array(select distinct d.flow from dead_letter d where d.id = any (p_ids))) order by f.id for update;
  perform forget_signals(array(
    select d.id from dead_letter d
    where d.id = any (p_ids) and coalesce(d.errors -> -1 ->> 'code' = 'undecodable', d.errors -> -1 ? '$enc')), 'plain');
  return query
    with dead as materialized (
      select d.* from dead_letter d where d.id = any (p_ids) order by d.id for update
    ),
    back as (
      insert into queue (id, queue, task, key, priority, max_tries, max_crashes, created, timeout, payload_version, unique_key,
                         attributes, payload, retry, trace, errors, flow, step, checkpoint)
      select d.id, d.queue, d.task, d.key, d.priority, d.max_tries, d.max_crashes, d.created, d.timeout, d.payload_version,
             d.unique_key, d.attributes, d.payload, d.retry, d.trace, d.errors, d.flow, d.step, d.checkpoint
      from dead d order by d.died, d.id
      on conflict do nothing
      returning id, flow, step
    ),
    tallied as (
      insert into flow_tally (flow, step, failed) select b.flow, b.step, -count(*) from back b where b.flow is not null group by b.flow, b.step
    ),
    gone as (delete from dead_letter d using back b where d.id = any (array[b.id]) returning d.id)
    select g.id from gone g;
end
$$;

-- Ends jobs as expired that have not started by their expires_at: a sweep of the scheduler. Returns their
-- number.
create function expire(p_leader text, p_epoch bigint, p_max integer) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  -- a constant for the query: an index can't be searched for a volatile function, so every job that expires
  -- would be read
  v_now timestamptz := clock_timestamp();
  v_ids uuid[];
begin
  perform assert_leader(p_leader, p_epoch);
  v_ids := array(
    select q.id from queue q
    where q.expires_at <= v_now
      and (select w.id from work_queue w where w.id = q.id and w.lock_key is not null) is null
    order by q.expires_at limit p_max for update skip locked);
  if cardinality(v_ids) = 0 then
    return 0;
  end if;
  return make_due(recall(v_ids), true);
end
$$;
