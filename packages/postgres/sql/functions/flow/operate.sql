-- Operations on flows.

-- Asks for the end of a flow: its blocked steps are skipped, signals and timers end, and the leader cancels the
-- jobs of its open steps (stop_jobs). p_skip: leave a flow alone that another session has locked. False: it has ended,
-- or is stopping already.
create function stop_flow(p_flow uuid, p_reason text, p_skip boolean default false) returns boolean
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  if p_skip then
    perform from flow f where f.id = p_flow and f.state = 'open' and f.stopping is null for update skip locked;
  else
    perform from flow f where f.id = p_flow and f.state = 'open' and f.stopping is null for update;
  end if;
  if not found then
    return false;
  end if;
  update flow f set stopping = v_now, reason = p_reason where f.id = p_flow;
  update flow_step s
  set stop = s.state = 'open' and s.kind = 'jobs',
      state = case when s.state = 'open' and s.kind = 'jobs' then 'open' else 'ended' end,
      outcome = case when s.state = 'blocked' then 'skipped' when s.kind <> 'jobs' then 'cancelled' end,
      ended = case when s.state = 'blocked' or s.kind <> 'jobs' then v_now end,
      due = null
  where s.flow = p_flow and s.ended is null;
  insert into flow_tally (flow) values (p_flow);
  return true;
end
$$;

-- Cancels a flow: waiting jobs end, running ones are told. cancelling; ended: it has ended, or is being cancelled;
-- unknown.
create function cancel_flow(p_flow uuid, p_reason text default 'cancelled by an operator') returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  perform assert_read_committed('the cancellation of a flow');
  if stop_flow(p_flow, left(p_reason, 2000)) then
    perform hint('flow');
    return 'cancelling';
  end if;
  return case when exists (select from flow f where f.id = p_flow) then 'ended' else 'unknown' end;
end
$$;

-- Cancels up to p_max jobs of open steps that are to be stopped; returns how many of them were left. The leader
-- calls it until none is. Rows that another session has locked wait for the next call.
create function stop_jobs(p_leader text, p_epoch bigint, p_max integer) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_ids uuid[];
begin
  perform assert_leader(p_leader, p_epoch);
  v_ids := array(
    select q.id from flow_step s cross join lateral (
      select q.id from queue q
      where q.flow = s.flow and q.step = s.step and (select w.id from work_queue w where w.id = q.id and w.cancelled is not null) is null
      limit p_max for update skip locked) q
    where s.stop limit p_max);
  if cardinality(v_ids) > 0 then
    perform cancel(v_ids);
  end if;
  return cardinality(v_ids);
end
$$;

-- Runs what failed in a flow again: all of it, or what failed in a step and behind it (p_step), and no other part. Dead jobs go back
-- into QUEUE, and jobs that were cancelled or expired, as far as history reaches; steps that failed are open
-- again, and those that were skipped because of them wait again. Steps that ran because of the failure have run.
-- retried; nothing: no step failed; unknown; stopping: it is being cancelled; key_taken: another open flow of its
-- name has its unique key. jobs: how many are back. gone: how many are not, since neither the dead letters nor
-- history have them.
create function retry_flow(p_flow uuid, p_step text default null) returns table (outcome text, jobs integer, gone integer)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_flow flow;
  v_failed integer[];
  v_skipped integer[]; -- of a flow that was cancelled
  v_behind integer[];
  v_dead uuid[];
  v_back integer := 0;
  v_lost integer := 0;
begin
  perform assert_read_committed('a retry of a flow');
  select f.* into v_flow from flow f where f.id = p_flow for update;
  if not found or (p_step is not null and not exists (select from flow_step s where s.flow = p_flow and s.name = p_step)) then
    return query select 'unknown', 0, 0;
    return;
  elsif v_flow.state = 'open' and v_flow.stopping is not null then
    return query select 'stopping', 0, 0;
    return;
  end if;
  perform count_tallies(array[p_flow]);
  -- in place of those: the leader has not seen them
  insert into flow_tally (flow) values (p_flow);
  -- steps one by one, by limits: no plan compares all of a flow with all
  with recursive reached as (
    select s.step from flow_step s where s.flow = p_flow and (p_step is null or s.name = p_step)
    union
    select f.step from reached r
      cross join lateral (select n.feeds from flow_step n where n.flow = p_flow and n.step = r.step limit 1) n cross join lateral unnest(n.feeds) as f (step))
  select array_agg(r.step) filter (where s.failed), array_agg(r.step) filter (where s.skipped) into v_failed, v_skipped
  from reached r cross join lateral (
    select s.outcome in ('failed', 'cancelled') or (s.state = 'open' and s.failed > 0) as failed,
           s.outcome = 'skipped' and v_flow.state = 'cancelled' as skipped
    from flow_step s where s.flow = p_flow and s.step = r.step limit 1) s;
  with recursive behind as (
    select f.step from flow_step n cross join lateral unnest(n.feeds) as f (step) where n.flow = p_flow and n.step = any (v_failed)
    union
    select f.step from behind b
      cross join lateral (select s.feeds from flow_step s where s.flow = p_flow and s.step = b.step and s.outcome = 'skipped' limit 1) s
      cross join lateral unnest(s.feeds) as f (step))
  select array_agg(b.step) into v_behind
  from behind b cross join lateral (select from flow_step s where s.flow = p_flow and s.step = b.step and s.outcome = 'skipped' limit 1) s;
  if v_failed is null and v_skipped is null then
    return query select 'nothing', 0, 0;
    return;
  elsif v_flow.state = 'cancelled' then
    -- all that the cancellation skipped; what a condition skipped is skipped again
    v_behind := v_skipped;
  end if;
  -- and signals and timers that ended since none of these waited any more
  with recursive awaited as (
    select x.step from unnest(v_behind) as x (step)
    union
    select n.step from awaited a
      cross join lateral (select d.needs from flow_step d where d.flow = p_flow and d.step = a.step limit 1) d cross join lateral unnest(d.needs) as n (step)
      cross join lateral (select from flow_step e where e.flow = p_flow and e.step = n.step and e.outcome = 'skipped' and e.kind <> 'jobs' limit 1) e)
  select array_agg(a.step) into v_behind from awaited a;
  -- first of all, so that nothing is to be undone if its unique key is taken; who asks for that key meanwhile waits
  begin
    update flow f
    set state = 'open', ended = null, stopping = null, reason = null, deadline = case when f.state = 'open' then f.deadline end
    where f.id = p_flow;
  exception when unique_violation then
    return query select 'key_taken', 0, 0;
    return;
  end;
  v_dead := array(select d.id from dead_letter d where d.flow = p_flow and d.step = any (v_failed));
  select count(*) into v_back from redrive(v_dead);
  v_back := v_back + revive(p_flow, v_failed);
  update flow_step s
  set state = 'blocked', outcome = null, ended = null, opened = null, due = null, stop = false
  where s.flow = p_flow and s.step = any (v_behind);
  update flow_step s
  set state = 'open', outcome = null, ended = null, stop = false, due = clock_timestamp() + s.delay
  where s.flow = p_flow and s.step = any (v_failed);
  perform count_tallies(array[p_flow]);
  select coalesce(sum(s.failed + s.other), 0) into v_lost from flow_step s where s.flow = p_flow and s.step = any (v_failed);
  perform judge_again(p_flow, v_behind);
  insert into flow_tally (flow) values (p_flow);
  perform hint('flow');
  return query select 'retried', v_back, v_lost;
end
$$;

-- Returns what history keeps of a cancelled or expired job of a flow, so that revive enqueues it as it was; null: the
-- defaults.
create function settings_of(p_timeout interval, p_max_tries smallint, p_max_crashes smallint, p_retry jsonb) returns jsonb
  language sql immutable
  set search_path from current
as $$
  select nullif(jsonb_strip_nulls(jsonb_build_object(
    'timeout_s', extract(epoch from p_timeout)::float8, 'max_tries', nullif(p_max_tries, 20), 'max_crashes', nullif(p_max_crashes, 3),
    'retry', p_retry)), '{}')
$$;

-- Enqueues the jobs of steps again that were cancelled or expired, from history: a part of retry_flow. Returns
-- their number. They begin anew, so they may be given the signals that they never got, and wait no more for jobs that they
-- had enqueued: those are cancelled, unless the leader's walk has done it.
create function revive(p_flow uuid, p_steps integer[]) returns integer
  language plpgsql volatile
  set plan_cache_mode = force_custom_plan
  set search_path from current
as $$
declare
  v_back uuid[];
begin
  with back as (
    insert into queue (id, queue, task, key, priority, created, payload_version, attributes, payload, trace, errors, flow, step,
                       timeout, max_tries, max_crashes, retry)
    select h.id, h.queue, h.task, h.key, h.priority, h.created, h.payload_version, h.attributes, h.payload, h.trace, h.errors, h.flow, h.step,
           (h.settings -> 'timeout_s')::float8 * interval '1 second', coalesce((h.settings -> 'max_tries')::smallint, 20),
           coalesce((h.settings -> 'max_crashes')::smallint, 3), h.settings -> 'retry'
    from history h where h.flow = p_flow and h.step = any (p_steps) and h.outcome in ('cancelled', 'expired')
    on conflict do nothing
    returning id, step
  ),
  tallied as (
    insert into flow_tally (flow, step, other) select p_flow, b.step, -count(*) from back b group by b.step
  )
  select array_agg(b.id) into v_back from back b;
  -- by a filter, which is hashed as the plan knows the list: without statistics, a join compared each with each
  delete from history h where h.flow = p_flow and h.step = any (p_steps) and h.id = any (v_back) and h.outcome in ('cancelled', 'expired');
  perform forget_signals(v_back, 'waiting');
  perform stop_flow(w.id, 'the job that waited for it begins anew')
  from unnest(v_back) as b (id) cross join lateral (select f.id, f.state from flow f where f.waiter = b.id for update) w
  where w.state = 'open';
  return coalesce(cardinality(v_back), 0);
end
$$;

-- Opens or skips blocked steps that wait for nothing which is still to end, as it may be after a retry. Judges by
-- the needs' outcomes as they are. Then counts the open needs of all blocked steps anew: those that were blocked
-- all along may wait once more for a step that is open again.
create function judge_again(p_flow uuid, p_steps integer[]) returns void
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_steps integer[] := p_steps; -- of this round: behind the first one, those that wait for what the last one has skipped
begin
  while v_steps is not null loop
    with needing as materialized (
      -- by limits, so that no plan begins with a table
      select d.flow, d.step, d.wants, count(n.needed) as needs, count(*) filter (where e.state = 'ended') as ended,
             count(*) filter (where e.state = 'ended' and need_met(e.conditions[array_position(e.feeds, d.step)], e.outcome)) as met
      from unnest(v_steps) as x (step)
        cross join lateral (
          select d.flow, d.step, d.wants, d.needs from flow_step d
          where d.flow = p_flow and d.step = x.step and d.state = 'blocked' limit 1) d
        left join lateral unnest(d.needs) as n (needed) on true
        left join lateral (
          select e.state, e.outcome, e.feeds, e.conditions from flow_step e where e.flow = d.flow and e.step = n.needed limit 1) e on true
      group by d.flow, d.step, d.wants
    ),
    judged as (
      update flow_step s
      set state = case when v.opens then 'open' else 'ended' end, outcome = case when v.opens then null else 'skipped' end,
          ended = case when v.opens then null else v_now end, opened = case when v.opens then v_now end,
          due = case when v.opens then v_now + s.delay end
      from needing c
      cross join lateral (
        select case when c.wants = 'all' or c.needs = 0 then c.met = c.needs else c.met > 0 end as opens,
               case c.wants when 'all' then c.met < c.ended else c.met = 0 and c.ended = c.needs end as skips) v
      where s.flow = any (array[c.flow]) and s.step = c.step and (v.opens or v.skips)
      returning s.outcome, s.feeds
    )
    select array_agg(distinct f.step) into v_steps from judged j cross join lateral unnest(j.feeds) as f (step) where j.outcome = 'skipped';
  end loop;
  update flow_step s
  set open_needs = (
    select count(*) from unnest(s.needs) as n (step)
    where (select e.outcome is null from flow_step e where e.flow = s.flow and e.step = n.step limit 1))
  where s.flow = p_flow and s.ended is null and s.state = 'blocked';
end
$$;
