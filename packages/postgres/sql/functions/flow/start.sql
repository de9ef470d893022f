-- Starts a flow in the caller's transaction: the flow, its steps and needs, and the jobs of steps without needs.
-- p_flow: {"id", "name", "key", "unique_key", "deadline_ms", "trace", "steps": [{"name", "kind", "wants",
-- "needs": [[step, condition]], "delay_ms", "stop_after", "jobs": [...]}]}; a step's number is its index, from 0.
-- outcome: started; repeated: a flow of that id is there; kept: an open flow of that name has the unique key, and
-- flow_id is that one.
-- A step needs earlier steps only, so no flow has a cycle.
create function start_flow(p_flow jsonb) returns table (flow_id uuid, outcome text)
  language plpgsql volatile security definer
  set plan_cache_mode = force_generic_plan
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_id uuid := coalesce((p_flow ->> 'id')::uuid, uuid_v7());
  v_now timestamptz := clock_timestamp();
  v_steps jsonb := coalesce(p_flow -> 'steps', '[]');
  v_other uuid;
  v_jobs bigint;
  v_same boolean;
  v_now_steps integer[]; -- with v_now_jobs: steps whose jobs are enqueued at once
  v_now_jobs jsonb[];
  v_later_steps integer[];
  v_later_jobs jsonb[];
begin
  if jsonb_typeof(v_steps) <> 'array' or jsonb_array_length(v_steps) not between 1 and 10000 then
    raise exception 'a flow has 1 to 10,000 steps' using errcode = '22023';
  end if;
  for attempt in 1..20 loop
    insert into flow (id, name, key, unique_key, created, deadline, trace)
    values (v_id, p_flow ->> 'name', coalesce(p_flow ->> 'key', ''), p_flow ->> 'unique_key', clock_timestamp(),
            v_now + (p_flow ->> 'deadline_ms')::float8 * interval '1 millisecond', nullif(p_flow -> 'trace', 'null'))
    on conflict do nothing;
    exit when found;
    if exists (select from flow f where f.id = v_id) then
      return query select v_id, 'repeated';
      return;
    end if;
    select f.id into v_other from flow f where f.name = p_flow ->> 'name' and f.unique_key = p_flow ->> 'unique_key' and f.state = 'open';
    if found then
      return query select v_other, 'kept';
      return;
    end if;
    if attempt = 20 then
      raise exception 'unique key % of flow % changes hands too fast', p_flow ->> 'unique_key', p_flow ->> 'name' using errcode = '40001';
    end if;
  end loop;
  insert into flow_need (flow, needed, step, condition)
  select v_id, (n.need ->> 0)::integer, (s.n - 1)::integer, coalesce(n.need ->> 1, 'done')
  from jsonb_array_elements(v_steps) with ordinality as s (step, n)
  cross join lateral jsonb_array_elements(case when jsonb_typeof(s.step -> 'needs') = 'array' then s.step -> 'needs' else '[]' end) as n (need);
  if exists (select from flow_need n where n.flow = v_id and n.needed not between 0 and n.step - 1) then
    raise exception 'a step needs steps that come before it in the list' using errcode = '22023';
  end if;
  select sum(case when jsonb_typeof(x.step -> 'jobs') = 'array' then jsonb_array_length(x.step -> 'jobs') else 0 end), count(distinct x.step ->> 'name') < count(x.step ->> 'name')
  into v_jobs, v_same
  from jsonb_array_elements(v_steps) as x (step);
  if v_same then
    raise exception 'two steps of a flow have one name' using errcode = '22023';
  end if;
  if v_jobs > 100000 or (select count(*) from flow_need n where n.flow = v_id) > 100000 then
    raise exception 'a flow starts with up to 100,000 jobs and 100,000 needs' using errcode = '22023', hint = 'Let a job of a step add more to it.';
  end if;
  insert into flow_step (flow, step, name, kind, state, wants, open_needs, added, stop_after, delay, due, opened)
  select v_id, (x.n - 1)::integer, x.step ->> 'name', coalesce(x.step ->> 'kind', 'jobs'),
         case when c.needs > 0 then 'blocked' else 'open' end, coalesce(x.step ->> 'wants', 'all'), c.needs,
         case when jsonb_typeof(x.step -> 'jobs') = 'array' and coalesce(x.step ->> 'kind', 'jobs') = 'jobs' then jsonb_array_length(x.step -> 'jobs') else 0 end,
         (x.step ->> 'stop_after')::integer, t.delay, case when c.needs = 0 then v_now + t.delay end, case when c.needs = 0 then v_now end
  from jsonb_array_elements(v_steps) with ordinality as x (step, n)
  cross join lateral (select count(*)::integer as needs from flow_need n where n.flow = v_id and n.step = x.n - 1) c
  cross join lateral (select (x.step ->> 'delay_ms')::float8 * interval '1 millisecond' as delay) t;
  select array_agg(x.step order by x.step) filter (where not x.later), array_agg(x.jobs order by x.step) filter (where not x.later),
         array_agg(x.step order by x.step) filter (where x.later), array_agg(x.jobs order by x.step) filter (where x.later)
  into v_now_steps, v_now_jobs, v_later_steps, v_later_jobs
  from (select (x.n - 1)::integer as step, x.step -> 'jobs' as jobs,
               (select n.needed from flow_need n where n.flow = v_id and n.step = x.n - 1 limit 1) is not null as later
        from jsonb_array_elements(v_steps) with ordinality as x (step, n) where jsonb_typeof(x.step -> 'jobs') = 'array') x;
  if v_later_steps is not null then
    perform check_later_jobs(v_later_jobs);
    insert into flow_job (flow, step, n, jobs)
    select v_id, l.step, c.n, c.jobs
    from unnest(v_later_steps, v_later_jobs) as l (step, jobs) cross join lateral (
      select 0 as n, l.jobs where jsonb_array_length(l.jobs) between 1 and 500
      union all
      select ((j.n - 1) / 500)::integer, jsonb_agg(j.job order by j.n)
      from jsonb_array_elements(l.jobs) with ordinality as j (job, n) where jsonb_array_length(l.jobs) > 500 group by 1) c;
  end if;
  if v_now_steps is not null then
    perform put_jobs(array_fill(v_id, array[cardinality(v_now_steps)]), v_now_steps, v_now_jobs);
  end if;
  insert into flow_tally (flow) values (v_id);
  return query select v_id, 'started';
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
  perform pg_notify(current_schema() || ':flow', '');
  return 'signalled';
end
$$;
