-- Moves flows on: the leader's work. One judge, so no counter decides anything, and nothing is locked by those
-- who settle.

-- Adds up the tallies of flows whose rows the caller has locked.
create function count_tallies(p_flows uuid[]) returns void
  language sql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  with gone as (
    delete from flow_tally t where t.flow = any (p_flows) returning t.flow, t.step, t.added, t.done, t.failed, t.other
  ),
  sums as materialized (
    select g.flow, g.step, sum(g.added)::integer as added, sum(g.done)::integer as done, sum(g.failed)::integer as failed, sum(g.other)::integer as other
    from gone g where g.step is not null group by g.flow, g.step
  )
  update flow_step s
  set added = s.added + x.added, done = greatest(0, s.done + x.done), failed = greatest(0, s.failed + x.failed), other = greatest(0, s.other + x.other)
  from sums x where s.flow = x.flow and s.step = x.step
$$;

-- Tells whether a need is met by the outcome of the step that it names.
create function need_met(p_condition text, p_outcome text) returns boolean
  language sql immutable
  set search_path from current
as $$ select p_condition = 'ended' or p_condition = p_outcome or (p_condition = 'failed' and p_outcome = 'cancelled') $$;

-- Takes what has ended in open flows to its consequences: steps end, dependents open or are skipped, flows end.
-- The caller has locked the flows, and counted their tallies. p_probe: look for jobs of all open steps, whatever
-- their counts say. Returns the jobs enqueued.
--
-- Right because a job's additions commit before its own row leaves QUEUE, or with it: a snapshot without any job
-- of a step has seen all that were ever added, and they have ended. Tallies commit with the rows that leave, so
-- counting them again in a later statement than that look finds the last of them, and the outcome is final.
create function advance_set(p_flows uuid[], p_probe boolean) returns integer
  language plpgsql volatile
  set plan_cache_mode = force_generic_plan
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_open uuid[] := array(select f.id from flow f where f.id = any (p_flows) and f.state = 'open');
  v_flows uuid[]; -- with v_steps: steps that have ended in this round
  v_steps integer[];
  v_put integer;
begin
  update flow_step s set stop = true
  where s.flow = any (v_open) and s.ended is null and s.state = 'open' and s.failed >= s.stop_after and not s.stop;
  loop
    -- signals and timers that no blocked step waits for any more
    loop
      update flow_step s set state = 'ended', outcome = 'skipped', ended = v_now
      where s.flow = any (v_open) and s.ended is null and s.kind <> 'jobs'
        and (select n.step from flow_need n where n.flow = s.flow and n.needed = s.step limit 1) is not null
        and (select d.step from flow_need n join flow_step d on d.flow = n.flow and d.step = n.step
             where n.flow = s.flow and n.needed = s.step and d.state = 'blocked' limit 1) is null;
      exit when not found;
    end loop;
    -- jobs of an open step that are still to be enqueued count as left, unless it stops
    select array_agg(s.flow), array_agg(s.step) into v_flows, v_steps
    from flow_step s
    where s.flow = any (v_open) and s.ended is null and s.state = 'open'
      and case s.kind
            when 'timer' then s.due <= v_now
            when 'signal' then (select r.job from flow_result r where r.flow = s.flow and r.step = s.step limit 1) is not null
            else (p_probe or s.stop or s.done + s.failed + s.other >= s.added)
              and (s.stop or (select j.n from flow_job j where j.flow = s.flow and j.step = s.step limit 1) is null)
              and (select q.id from queue q where q.flow = s.flow and q.step = s.step limit 1) is null
          end;
    exit when v_flows is null;
    perform count_tallies(v_open);
    update flow_step s
    set state = 'ended', ended = v_now,
        outcome = case when s.failed > 0 then 'failed' when s.other > 0 or s.stop then 'cancelled' else 'done' end
    from unnest(v_flows, v_steps) as x (flow, step) where s.flow = x.flow and s.step = x.step;
    perform follow(v_flows, v_steps, v_now);
  end loop;
  v_put := release_jobs(v_open, 10000);
  update flow f
  set state = case when f.stopping is not null then 'cancelled' when x.failed then 'failed' else 'done' end, ended = v_now,
      reason = coalesce(f.reason, case when f.stopping is null and x.failed then 'a step failed' end)
  from unnest(v_open) as o (id) cross join lateral (
    select flow_failed(o.id) as failed
    where (select s.step from flow_step s where s.flow = o.id and s.ended is null limit 1) is null) x
  where f.id = o.id;
  return v_put;
end
$$;

-- Opens or skips the steps that wait for the given ones, which have ended, and those that wait for the skipped
-- ones, and so on: a part of advance_set, whose settings plan it.
-- The updated row has no condition on its state: a plan made while few steps were open, and kept, began with the
-- index of all of those, and compared each with each that has ended.
create function follow(p_flows uuid[], p_steps integer[], p_now timestamptz) returns void
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_flows uuid[] := p_flows;
  v_steps integer[] := p_steps;
begin
  while v_flows is not null loop
    with moved as (
      select n.flow, n.step, count(*)::integer as ended, count(*) filter (where need_met(n.condition, e.outcome))::integer as met
      from unnest(v_flows, v_steps) as x (flow, step)
      join flow_step e on e.flow = x.flow and e.step = x.step
      join flow_need n on n.flow = x.flow and n.needed = x.step
      group by n.flow, n.step
    ),
    judged as (
      update flow_step s
      set open_needs = s.open_needs - m.ended,
          state = case when v.skips then 'ended' when v.opens then 'open' else 'blocked' end,
          outcome = case when v.skips then 'skipped' end,
          ended = case when v.skips then p_now end,
          opened = case when v.opens then p_now end,
          due = case when v.opens then p_now + s.delay end
      from moved m
      cross join lateral (
        select case d.wants when 'all' then m.met < m.ended else m.met = 0 and d.open_needs <= m.ended end as skips,
               case d.wants when 'all' then m.met = m.ended and d.open_needs <= m.ended else m.met > 0 end as opens
        from flow_step d where d.flow = m.flow and d.step = m.step and d.state = 'blocked' limit 1) v
      where s.flow = m.flow and s.step = m.step
      returning s.flow, s.step, s.outcome
    )
    select array_agg(j.flow), array_agg(j.step) into v_flows, v_steps from judged j where j.outcome = 'skipped';
  end loop;
end
$$;

-- Tells whether a flow has failed: one of its steps failed or was cancelled, and no step takes that with the
-- condition ended, or some step takes it otherwise.
create function flow_failed(p_flow uuid) returns boolean
  language sql stable
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select exists (
    select from flow_step s
    where s.flow = p_flow and s.outcome in ('failed', 'cancelled')
      and coalesce((select bool_or(n.condition <> 'ended') from flow_need n where n.flow = s.flow and n.needed = s.step), true))
$$;

-- Ends a flow that can't be processed, so that it holds up no other. Its jobs in QUEUE go on, and a job that
-- waits for it is woken by the caller.
create function fail_flow(p_flow uuid, p_why text) returns void
  language plpgsql volatile
  set search_path from current
as $$
begin
  update flow_step s set state = 'ended', ended = clock_timestamp(), outcome = case when s.state = 'open' then 'cancelled' else 'skipped' end
  where s.flow = p_flow and s.ended is null;
  update flow f set state = 'failed', ended = clock_timestamp(), reason = 'it can''t be processed: ' || left(p_why, 1900)
  where f.id = p_flow and f.state = 'open';
  delete from flow_tally t where t.flow = p_flow;
end
$$;

-- Advances flows whose rows the caller has locked, and isolates those that make it fail. Returns the number of
-- jobs enqueued, and of jobs that waited for a flow and are due now.
create function advance_locked(p_flows uuid[], p_probe boolean) returns integer
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_half integer := cardinality(p_flows) / 2;
begin
  begin
    perform count_tallies(p_flows);
    return advance_set(p_flows, p_probe) + wake_waiters(p_flows);
  exception when others then
    if not is_of_row(sqlstate) then
      raise;
    elsif v_half = 0 then
      perform fail_flow(p_flows[1], sqlerrm);
      return wake_waiters(p_flows);
    end if;
  end;
  return advance_locked(p_flows[:v_half], p_probe) + advance_locked(p_flows[v_half + 1:], p_probe);
end
$$;

-- Returns the milliseconds until the next timer or deadline of a flow; null: there is none.
create function flows_due_ms() returns float8
  language sql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select extract(epoch from least(
    (select s.due from flow_step s where s.ended is null and s.due is not null order by s.due limit 1),
    (select f.deadline from flow f where f.state = 'open' and f.stopping is null and f.deadline is not null order by f.deadline limit 1))
    - clock_timestamp())::float8 * 1000
$$;

-- Moves flows on, under the leader's epoch. p_read: {"from", "max", "walk"}: takes up to max tallies from the
-- number from on. walk: also looks for jobs of all open steps of the next 100 open flows behind that id, so that
-- a tally that is missing costs time and never a flow; null: does not. Returns
--   next    the number behind the last tally taken; the leader begins there, and at 0 now and then
--   more    call again at once
--   put     jobs enqueued or woken
--   stops   some open step is to be stopped (stop_jobs)
--   due_ms  milliseconds until the next timer or deadline; null: there is none
--   walked  the last flow that was looked at; null: the walk is at its end
--   open    some flow is open
--   ended   the flows that have ended: [{"id", "name", "state"}]
-- Flows that another session has locked wait for the next call. Tells those who wait for flows which have ended.
create function advance_flows(p_leader text, p_epoch bigint, p_read jsonb) returns jsonb
  language plpgsql volatile security definer
  set plan_cache_mode = force_generic_plan
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_max integer := (p_read ->> 'max')::integer;
  v_next bigint;
  v_taken integer;
  v_asked uuid[];
  v_walk uuid[] := '{}';
  v_flows uuid[];
  v_put integer := 0;
  v_late uuid;
  v_ended jsonb;
begin
  perform assert_leader(p_leader, p_epoch);
  perform assert_read_committed();
  select max(t.n) + 1, count(*), array_agg(distinct t.flow) into v_next, v_taken, v_asked
  from (select t.n, t.flow from flow_tally t where t.n >= (p_read ->> 'from')::bigint order by t.n limit v_max) t;
  for v_late in select f.id from flow f where f.state = 'open' and f.stopping is null and f.deadline <= v_now order by f.deadline limit 100 loop
    perform stop_flow(v_late, 'its deadline has passed', true);
    v_asked := v_asked || v_late;
  end loop;
  v_asked := v_asked || array(select s.flow from flow_step s where s.ended is null and s.due <= v_now order by s.due limit v_max);
  if p_read -> 'walk' <> 'null' then
    v_walk := array(select f.id from flow f where f.state = 'open' and f.id > (p_read ->> 'walk')::uuid order by f.id limit 100);
  end if;
  v_flows := array(select f.id from flow f where f.id = any (v_asked) order by f.id for update skip locked);
  if cardinality(v_flows) > 0 then
    v_put := advance_locked(v_flows, false);
  end if;
  -- tallies of flows that are gone
  delete from flow_tally t where t.flow = any (v_asked) and (select f.id from flow f where f.id = t.flow) is null;
  v_walk := array(select f.id from flow f where f.id = any (v_walk) order by f.id for update skip locked);
  -- a flow that only a job waited for goes when the job has ended
  perform stop_flow(f.id, 'the job that waited for it has ended')
  from (select w.id, w.waiter from flow w where w.id = any (v_walk) offset 0) f -- by id, whatever other indexes there are
  where f.waiter is not null and (select q.id from queue q where q.id = f.waiter) is null;
  if cardinality(v_walk) > 0 then
    v_put := v_put + advance_locked(v_walk, true);
  end if;
  select coalesce(jsonb_agg(jsonb_build_object('id', f.id, 'name', f.name, 'state', f.state)), '[]') into v_ended
  from flow f where f.id = any (v_flows || v_walk) and f.ended >= v_now;
  if v_ended <> '[]' then
    perform pg_notify(current_schema() || ':flow', case when jsonb_array_length(v_ended) <= 64 then (
      select string_agg(e.flow ->> 'id', ',') from jsonb_array_elements(v_ended) as e (flow)) else '' end);
  end if;
  return jsonb_build_object(
    'next', v_next, 'put', v_put,
    -- jobs are left behind the most that one call enqueues
    'more', v_taken >= v_max or v_put >= 10000,
    'stops', exists (select from flow_step s where s.ended is null and s.stop),
    'due_ms', flows_due_ms(),
    'walked', case when cardinality(v_walk) = 100 then v_walk[100] end,
    'open', exists (select from flow f where f.state = 'open'),
    'ended', v_ended);
end
$$;
