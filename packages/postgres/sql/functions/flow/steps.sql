-- Steps of flows: what has ended, and what follows from it. Parts of advance_flows.

-- Adds up the tallies of flows whose rows the caller has locked, for those who look at counts: the leader counts as it
-- judges (advance_set).
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
  from sums x where s.flow = any (array[x.flow]) and s.step = x.step
$$;

-- Tells whether a need is met by the outcome of the step that it names. Sets no search path, as node_takes.
create function need_met(p_condition text, p_outcome text) returns boolean
  language sql immutable parallel safe
as $$ select p_condition = 'ended' or p_condition = p_outcome or (p_condition = 'failed' and p_outcome = 'cancelled') $$;

-- Counts the tallies of flows, and ends steps that have ended: looks at those that tallies name, those of p_opened that may
-- end at once, and all open ones of p_whole. Tallies that name no step stay, unless their flow is one of p_whole. Returns
-- what has ended; null: nothing. A part of advance_set, whose settings plan it. p_probe: looks for jobs of these steps,
-- whatever their counts say.
--
-- Right because a job's additions commit before its own row leaves QUEUE, or with it: a snapshot without any job
-- of a step has seen all that were ever added, and they have ended. Tallies commit with the rows that leave, and one
-- statement, with one snapshot, looks for the jobs and counts the tallies: so the outcome is final.
create function judge_steps(p_tallied uuid[], p_whole uuid[], p_opened step_ref[], p_probe boolean) returns step_end[]
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_ended step_end[];
begin
  with gone as materialized (
    delete from flow_tally t
    where t.flow = any (p_tallied) and (t.step is not null or t.flow = any (p_whole))
    returning t.flow, t.step, t.added, t.done, t.failed, t.other
  ),
  looked as materialized (
    select l.flow, l.step, sum(l.added)::integer as added, sum(l.done)::integer as done, sum(l.failed)::integer as failed, sum(l.other)::integer as other
    from (
      select g.flow, g.step, g.added, g.done, g.failed, g.other from gone g where g.step is not null
      union all
      select o.flow, o.step, 0, 0, 0, 0 from unnest(p_opened) o where o.may_end
      union all
      select s.flow, s.step, 0, 0, 0, 0
      from flow_step s where s.flow = any (p_whole) and s.ended is null and s.state = 'open') l
    group by l.flow, l.step
  ),
  counted as materialized (
    select s.flow, s.step, s.kind, s.due, s.unreleased, s.state = 'open' as open, l.added as grown, s.added + l.added as added, c.done, c.failed, c.other,
           s.stop or (s.state = 'open' and c.failed >= s.stop_after) is true as stop,
           (l.added, l.done, l.failed, l.other) <> (0, 0, 0, 0) as changed
    from looked l join flow_step s on s.flow = any (array[l.flow]) and s.step = l.step
    cross join lateral (
      select greatest(0, s.done + l.done) as done, greatest(0, s.failed + l.failed) as failed, greatest(0, s.other + l.other) as other) c
  ),
  -- jobs of an open step that are still to be enqueued count as left, unless it stops
  judged as materialized (
    select c.*, case when c.open then
        case c.kind
          when 'timer' then c.due <= v_now
          when 'signal' then (select r.job from flow_result r where r.flow = c.flow and r.step = c.step limit 1) is not null
          else (p_probe or c.stop or c.done + c.failed + c.other >= c.added)
            and (c.stop or c.unreleased = 0)
            and (select q.id from queue q where q.flow = c.flow and q.step = c.step limit 1) is null
        end
      else false end as ends
    from counted c
  ),
  settled as (
    update flow_step s
    set added = s.added + j.grown, done = j.done, failed = j.failed, other = j.other, stop = j.stop and not j.ends,
        state = case when j.ends then 'ended' else s.state end, ended = case when j.ends then v_now else s.ended end,
        due = case when not j.ends then s.due end,
        outcome = case when not j.ends then s.outcome when j.failed > 0 then 'failed' when j.other > 0 or j.stop then 'cancelled' else 'done' end
    from judged j where s.flow = any (array[j.flow]) and s.step = j.step and (j.ends or j.changed or j.stop <> s.stop)
    returning s.flow, s.step, s.outcome, s.feeds, s.conditions, j.ends
  )
  select array_agg((t.flow, t.step, t.outcome, t.feeds, t.conditions)::step_end) filter (where t.ends) into v_ended from settled t;
  return v_ended;
end
$$;

-- Takes what has ended in flows to its consequences: steps end, dependents open or are skipped, flows end. The caller
-- has locked the flows. Looks at the steps that tallies name; p_whole: the flows in which it looks at all open steps,
-- beside those that have a tally without a step. p_probe: looks for jobs of those steps, whatever their counts say.
-- Returns the jobs enqueued.
create function advance_set(p_flows uuid[], p_whole uuid[], p_probe boolean) returns integer
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
  v_tallied uuid[] := p_flows; -- with v_whole: for the first round
  v_whole uuid[] := p_whole || array(select distinct t.flow from flow_tally t where t.flow = any (p_flows) and t.step is null);
  v_ended step_end[]; -- by this round
  v_opened step_ref[]; -- by this round: those that may end at once, or have jobs that are not in QUEUE yet
  v_released step_ref[] := '{}'; -- opened by all of them, and those of whole flows that were open with jobs left
  v_put integer := 0;
  v_more integer;
  v_over uuid[] := v_whole; -- flows that may have ended
  v_running uuid[]; -- by this round: flows of which jobs were enqueued
begin
  if v_whole <> '{}' then
    perform skip_idle(array(select (s.flow, s.step, true)::step_ref from flow_step s
                            where s.flow = any (v_whole) and s.ended is null and s.kind <> 'jobs'), v_now);
    v_released := array(select (s.flow, s.step, true)::step_ref from flow_step s
                        where s.flow = any (v_whole) and s.ended is null and s.state = 'open' and s.unreleased > 0);
  end if;
  loop
    v_ended := judge_steps(v_tallied, v_whole, v_opened, p_probe);
    exit when v_ended is null;
    select f.opened, f.running, f.put into v_opened, v_running, v_more from follow(v_ended, v_now, 10000 - v_put) f;
    v_over := v_over || array(select e.flow from unnest(v_ended) e except select r.flow from unnest(v_running) as r (flow));
    v_put := v_put + v_more;
    v_released := v_released || v_opened;
    exit when v_opened = '{}';
    v_tallied := '{}';
    v_whole := '{}';
  end loop;
  update flow f
  set state = case when f.stopping is not null then 'cancelled' when x.failed then 'failed' else 'done' end, ended = v_now,
      reason = coalesce(f.reason, case when f.stopping is null and x.failed then 'a step failed' end)
  from (select distinct o.id from unnest(v_over) as o (id)) o cross join lateral (
    -- by limits, so that no plan begins with the index of open flows or steps
    select o.id, flow_failed(o.id) as failed from flow g
    where g.id = o.id and g.state = 'open' and (select s.step from flow_step s where s.flow = o.id and s.ended is null limit 1) is null limit 1) x
  where f.id = any (v_over) and f.id = x.id;
  return v_put + release_jobs(v_released, 10000 - v_put);
end
$$;

-- Opens or skips the steps that wait for the given ones, which have ended, and those that wait for the skipped
-- ones, and so on: a part of advance_set, whose settings plan it. Enqueues the jobs of those that open, up to p_max in all, if
-- they are one chunk. opened: those that may end at once, or have jobs left (release_jobs). running: flows of which jobs were
-- enqueued. put: their number.
-- The updated row has no condition on its state: a plan made while few steps were open, and kept, began with the
-- index of all of those, and compared each with each that has ended.
create function follow(p_ended step_end[], p_now timestamptz, p_max integer, out opened step_ref[], out running uuid[], out put integer)
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_ended step_end[] := p_ended;
  v_opened step_ref[];
  v_spared step_ref[]; -- steps for which one that was judged does not wait any more
  v_flows uuid[]; -- with v_steps and v_jobs: to be enqueued
  v_steps integer[];
  v_jobs jsonb[];
begin
  opened := '{}';
  running := '{}';
  put := 0;
  while v_ended is not null loop
    with fed as materialized (
      select x.flow, f.step, count(*)::integer as ended, count(*) filter (where need_met(f.condition, x.outcome))::integer as met
      from unnest(v_ended) as x cross join lateral unnest(x.feeds, x.conditions) as f (step, condition)
      group by x.flow, f.step
    ),
    moved as materialized (
      select f.flow, f.step, f.ended, v.skips, v.opens, d.jobs,
             v.opens and d.unreleased <= 500 and sum(d.unreleased) filter (where v.opens) over (order by f.flow, f.step) <= p_max - put as at_once
      from fed f
      -- by a limit, so that no plan begins with the table
      cross join lateral (
        select d.wants, d.open_needs, d.unreleased, d.jobs from flow_step d where d.flow = f.flow and d.step = f.step and d.state = 'blocked' limit 1) d
      cross join lateral (
        select case d.wants when 'all' then f.met < f.ended else f.met = 0 and d.open_needs <= f.ended end as skips,
               case d.wants when 'all' then f.met = f.ended and d.open_needs <= f.ended else f.met > 0 end as opens) v
    ),
    judged as (
      update flow_step s
      set open_needs = s.open_needs - m.ended,
          state = case when m.skips then 'ended' when m.opens then 'open' else 'blocked' end,
          outcome = case when m.skips then 'skipped' end,
          ended = case when m.skips then p_now end,
          opened = case when m.opens then p_now end,
          due = case when m.opens then p_now + s.delay end,
          unreleased = case when m.at_once then 0 else s.unreleased end,
          jobs = case when m.at_once then null else s.jobs end
      from moved m
      where s.flow = any (array[m.flow]) and s.step = m.step
      returning s.flow, s.step, s.state, s.outcome, s.feeds, s.conditions, s.kind <> 'jobs' or s.added = 0 as may_end, s.unreleased, s.wants, s.needs,
                case when m.at_once then m.jobs[1] end as jobs
    )
    select array_agg((j.flow, j.step, j.outcome, j.feeds, j.conditions)::step_end) filter (where j.state = 'ended'),
           array_agg((j.flow, j.step, j.may_end)::step_ref) filter (where j.state = 'open' and (j.may_end or j.unreleased > 0)),
           (select array_agg((o.flow, n.step, true)::step_ref) from judged o cross join lateral unnest(o.needs) as n (step)
            where o.state = 'ended' or (o.state = 'open' and o.wants = 'any')),
           array_agg(j.flow) filter (where j.jobs is not null), array_agg(j.step) filter (where j.jobs is not null),
           array_agg(j.jobs) filter (where j.jobs is not null)
    into v_ended, v_opened, v_spared, v_flows, v_steps, v_jobs from judged j;
    opened := opened || coalesce(v_opened, '{}');
    if v_flows is not null then
      put := put + put_jobs(v_flows, v_steps, v_jobs);
      running := running || v_flows;
    end if;
    perform skip_idle(v_spared, p_now);
  end loop;
end
$$;

-- Ends those of the given steps that are signals or timers for which no blocked step waits any more, and those that only
-- such ones waited for: a part of advance_set, whose settings plan it.
create function skip_idle(p_steps step_ref[], p_now timestamptz) returns void
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_steps step_ref[] := p_steps;
begin
  while v_steps <> '{}' loop
    with idle as (
      update flow_step s set state = 'ended', outcome = 'skipped', ended = p_now, due = null
      from (select distinct x.flow, x.step from unnest(v_steps) x) x
      where s.flow = any (array[x.flow]) and s.step = x.step and s.outcome is null and s.kind <> 'jobs' and s.feeds <> '{}'
        and (select b.step from unnest(s.feeds) as f (step) join flow_step b on b.flow = s.flow and b.step = f.step
             where b.state = 'blocked' limit 1) is null
      returning s.flow, s.needs
    )
    select array_agg((i.flow, n.step, true)::step_ref) into v_steps from idle i cross join lateral unnest(i.needs) as n (step);
  end loop;
end
$$;

-- Tells whether a flow has failed: one of its steps failed or was cancelled, and no step takes that with the
-- condition ended, or some step takes it otherwise. A step that was skipped takes nothing.
create function flow_failed(p_flow uuid) returns boolean
  language plpgsql stable
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  return exists (
    select from flow_step s
    where s.flow = p_flow and s.outcome in ('failed', 'cancelled')
      and (s.conditions = '{}' or not s.conditions <@ '{ended}' or (
        select d.step from unnest(s.feeds) as f (step)
          cross join lateral (select d.step from flow_step d where d.flow = s.flow and d.step = f.step and d.outcome <> 'skipped' limit 1) d
        limit 1) is null));
end
$$;
