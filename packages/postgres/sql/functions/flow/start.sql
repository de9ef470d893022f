-- Starts flows in the caller's transaction: each flow, its steps and needs, and the jobs of steps without needs.
-- p_flows: an array of {"id", "name", "key", "unique_key", "deadline_ms", "trace", "steps": [{"name", "kind", "wants",
-- "needs": [[step, condition]], "delay_ms", "stop_after", "jobs": [...]}]}; a step's number is its index, from 0.
-- n: the flow's index, from 0. outcome: started; repeated: a flow of that id is there; kept: an open flow of that name has the
-- unique key, and flow_id is that one.
-- A step needs earlier steps only, so no flow has a cycle.
create function start_flows(p_flows jsonb) returns table (n integer, flow_id uuid, outcome text)
  language plpgsql volatile security definer
  set plan_cache_mode = force_generic_plan
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_opened record;
  v_flows jsonb[] := '{}'; -- with v_ids: those that are new
  v_ids uuid[] := '{}';
begin
  for v_n in 0 .. jsonb_array_length(p_flows) - 1 loop
    n := v_n;
    v_opened := open_flow(p_flows -> v_n, v_now);
    flow_id := v_opened.flow_id;
    outcome := v_opened.outcome;
    return next;
    if outcome = 'started' then
      v_flows := v_flows || (p_flows -> v_n);
      v_ids := v_ids || flow_id;
    end if;
  end loop;
  if v_ids <> '{}' then
    perform nextval('flow_tally_n_seq'); -- a tick sees that there are flows, and the leader listens for the ends of their jobs
    perform make_steps(v_ids, v_flows, v_now);
  end if;
end
$$;

-- Starts one flow, as start_flows does.
create function start_flow(p_flow jsonb) returns table (flow_id uuid, outcome text)
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  return query select s.flow_id, s.outcome from start_flows(jsonb_build_array(p_flow)) s;
end
$$;

-- Makes the row of a flow; an id or a unique key that is taken is told. A part of start_flows, whose settings plan it.
create function open_flow(p_flow jsonb, p_now timestamptz, out flow_id uuid, out outcome text)
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_steps jsonb := coalesce(p_flow -> 'steps', '[]');
  v_other uuid;
begin
  flow_id := coalesce((p_flow ->> 'id')::uuid, uuid_v7());
  if jsonb_typeof(v_steps) <> 'array' or jsonb_array_length(v_steps) not between 1 and 10000 then
    raise exception 'a flow has 1 to 10,000 steps' using errcode = '22023';
  end if;
  for attempt in 1..20 loop
    insert into flow (id, name, key, unique_key, created, deadline, trace)
    values (flow_id, p_flow ->> 'name', coalesce(p_flow ->> 'key', ''), p_flow ->> 'unique_key', clock_timestamp(),
            p_now + (p_flow ->> 'deadline_ms')::float8 * interval '1 millisecond', nullif(p_flow -> 'trace', 'null'))
    on conflict do nothing;
    outcome := case when found then 'started' when exists (select from flow f where f.id = flow_id) then 'repeated' end;
    if outcome is not null then
      return;
    end if;
    select f.id into v_other from flow f where f.name = p_flow ->> 'name' and f.unique_key = p_flow ->> 'unique_key' and f.state = 'open';
    if found then
      flow_id := v_other;
      outcome := 'kept';
      return;
    end if;
  end loop;
  raise exception 'unique key % of flow % changes hands too fast', p_flow ->> 'unique_key', p_flow ->> 'name' using errcode = '40001';
end
$$;

-- Makes the steps of new flows, and enqueues the jobs of those that need no other step: a part of start_flows, whose settings
-- plan it.
create function make_steps(p_ids uuid[], p_flows jsonb[], p_now timestamptz) returns void
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_many boolean;
  v_same boolean; -- two steps of a flow have one name
  v_wrong boolean; -- a step needs one that is not before it, or one twice
  v_flows uuid[]; -- with v_steps and v_jobs: steps whose jobs are enqueued at once
  v_steps integer[];
  v_jobs jsonb[];
  v_size integer;
  v_later jsonb[]; -- jobs of the others
begin
  with given as materialized (
    select f.id as flow, (x.n - 1)::integer as step, x.name, coalesce(x.kind, 'jobs') as kind, coalesce(x.wants, 'all') as wants, x.stop_after,
           x.delay_ms * interval '1 millisecond' as delay, case when jsonb_typeof(x.needs) = 'array' and x.needs <> '[]' then x.needs end as needs,
           case when jsonb_typeof(x.jobs) = 'array' then x.jobs end as jobs
    from unnest(p_ids, p_flows) as f (id, flow) cross join lateral
      rows from (jsonb_to_recordset(f.flow -> 'steps') as (name text, kind text, wants text, stop_after integer, delay_ms float8, needs jsonb, jobs jsonb))
      with ordinality as x (name, kind, wants, stop_after, delay_ms, needs, jobs, n)
  ),
  edges as materialized (
    select g.flow, g.step, (n.need ->> 0)::integer as needed, coalesce(n.need ->> 1, 'done') as condition
    from given g cross join lateral jsonb_array_elements(g.needs) as n (need)
  ),
  fed as (
    select e.flow, e.needed, array_agg(e.step order by e.step) as feeds, array_agg(e.condition order by e.step) as conditions
    from edges e group by e.flow, e.needed
  ),
  needing as (select e.flow, e.step, array_agg(e.needed order by e.needed) as needs from edges e group by e.flow, e.step),
  steps as materialized (
    select g.*, coalesce(jsonb_array_length(g.jobs), 0) as size, coalesce(n.needs, '{}') as numbers, coalesce(cardinality(n.needs), 0) as open_needs,
           n.step is not null as later, coalesce(f.feeds, '{}') as feeds, coalesce(f.conditions, '{}') as conditions
    from given g left join needing n on n.flow = g.flow and n.step = g.step left join fed f on f.flow = g.flow and f.needed = g.step
  ),
  made as (
    insert into flow_step (flow, step, name, kind, state, wants, needs, feeds, conditions, open_needs, added, unreleased, stop_after, delay, due, opened, jobs)
    select s.flow, s.step, s.name, s.kind, case when s.later then 'blocked' else 'open' end, s.wants, s.numbers, s.feeds, s.conditions, s.open_needs,
           case when s.kind = 'jobs' then s.size else 0 end, case when s.later then s.size else 0 end, s.stop_after, s.delay,
           case when not s.later then p_now + s.delay end, case when not s.later then p_now end, case
             when not s.later or s.size = 0 then null
             -- each has an id: a release that a crash undid, after its jobs had begun, is done again with the same ones; and
             -- times with an offset, as the caller's settings read them: the session that releases them may have others
             when s.size <= 500 and not jsonb_path_exists(s.jobs, '$[*] ? (!exists (@.id) || @.id == null || exists (@.run_after) || exists (@.expires_at))') then array[s.jobs]
             else array(
               select jsonb_agg(j.job || jsonb_strip_nulls(jsonb_build_object(
                 'id', coalesce((j.job ->> 'id')::uuid, uuid_v7()), 'run_after', (j.job ->> 'run_after')::timestamptz,
                 'expires_at', (j.job ->> 'expires_at')::timestamptz)) order by j.n)
               from jsonb_array_elements(s.jobs) with ordinality as j (job, n) group by (j.n - 1) / 500 order by (j.n - 1) / 500) end
    from steps s
  ),
  counted as materialized (
    select s.flow, greatest(sum(s.size), sum(s.open_needs)) > 100000 as many, count(distinct s.name) < count(s.name) as same,
           bool_or(not s.later and s.size = 0) as empty
    from steps s group by s.flow
  ),
  -- an open step has no jobs, or the leader is to know the deadline: it need not know of jobs before one has ended
  tallied as (
    insert into flow_tally (flow)
    select c.flow from counted c join unnest(p_ids, p_flows) as f (id, flow) on f.id = c.flow where c.empty or f.flow ->> 'deadline_ms' is not null
  )
  select (select bool_or(c.many) from counted c), (select bool_or(c.same) from counted c),
         exists (select from edges e where (e.needed between 0 and e.step - 1) is not true)
           or exists (select from edges e group by e.flow, e.step, e.needed having count(*) > 1),
         array_agg(s.flow order by s.flow, s.step) filter (where not s.later), array_agg(s.step order by s.flow, s.step) filter (where not s.later),
         array_agg(s.jobs order by s.flow, s.step) filter (where not s.later), sum(s.size) filter (where not s.later),
         array_agg(s.jobs) filter (where s.later)
  into v_many, v_same, v_wrong, v_flows, v_steps, v_jobs, v_size, v_later
  from steps s where s.jobs is not null;
  if v_wrong then
    raise exception 'a step needs steps that come before it in the list, each once' using errcode = '22023';
  elsif v_same then
    raise exception 'two steps of a flow have one name' using errcode = '22023';
  elsif v_many then
    raise exception 'a flow starts with up to 100,000 jobs and 100,000 needs' using errcode = '22023', hint = 'Let a job of a step add more to it.';
  end if;
  if v_later is not null then
    perform check_later_jobs(v_later);
  end if;
  if v_steps is not null and put_jobs(v_flows, v_steps, v_jobs) < v_size then
    insert into flow_tally (flow) select unnest(p_ids); -- the id of a job was taken
  end if;
end
$$;

-- Gives a signal its value; the first one wins. Also before its step is open. signalled; repeated: it has a
-- value; ended: the flow or the step has ended; unknown: there is no such signal.
create function signal_flow(p_flow uuid, p_step text, p_value jsonb default null) returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_step integer;
  v_over boolean;
begin
  if not fits(p_value, 393216) then
    raise exception 'the value of a signal is at most 256 KiB, nested 500 levels deep' using errcode = '22023', hint = 'Store it elsewhere, and keep a reference.';
  end if;
  select s.step, s.state = 'ended' or f.state <> 'open' or f.stopping is not null into v_step, v_over
  from flow_step s join flow f on f.id = s.flow where s.flow = p_flow and s.name = p_step and s.kind = 'signal';
  if not found then
    return 'unknown';
  elsif exists (select from flow_result r where r.flow = p_flow and r.step = v_step) then
    return 'repeated';
  elsif v_over then
    return 'ended';
  end if;
  insert into flow_result (flow, step, job, outcome, result) values (p_flow, v_step, p_flow, 'done', p_value) on conflict do nothing;
  if not found then
    return 'repeated';
  end if;
  insert into flow_tally (flow, step) values (p_flow, v_step);
  perform hint('flow');
  return 'signalled';
end
$$;
