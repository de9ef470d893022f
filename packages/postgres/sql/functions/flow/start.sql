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
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_id uuid := coalesce((p_flow ->> 'id')::uuid, uuid_v7());
  v_now timestamptz := clock_timestamp();
  v_steps jsonb := coalesce(p_flow -> 'steps', '[]');
  v_other uuid;
  v_many boolean;
  v_same boolean; -- two steps have one name
  v_wrong boolean; -- a step needs one that is not before it, or one twice
  v_empty boolean; -- an open step has no jobs: the leader looks at all of them
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
  with given as materialized (
    select (x.n - 1)::integer as step, x.name, coalesce(x.kind, 'jobs') as kind, coalesce(x.wants, 'all') as wants, x.stop_after,
           x.delay_ms * interval '1 millisecond' as delay, case when jsonb_typeof(x.needs) = 'array' and x.needs <> '[]' then x.needs end as needs,
           case when jsonb_typeof(x.jobs) = 'array' then x.jobs end as jobs
    from rows from (jsonb_to_recordset(v_steps) as (name text, kind text, wants text, stop_after integer, delay_ms float8, needs jsonb, jobs jsonb))
      with ordinality as x (name, kind, wants, stop_after, delay_ms, needs, jobs, n)
  ),
  edges as materialized (
    select g.step, (n.need ->> 0)::integer as needed, coalesce(n.need ->> 1, 'done') as condition
    from given g cross join lateral jsonb_array_elements(g.needs) as n (need)
  ),
  fed as (select e.needed, array_agg(e.step order by e.step) as feeds, array_agg(e.condition order by e.step) as conditions from edges e group by e.needed),
  needing as (select e.step, array_agg(e.needed order by e.needed) as needs from edges e group by e.step),
  steps as materialized (
    select g.*, coalesce(n.needs, '{}') as numbers, coalesce(cardinality(n.needs), 0) as open_needs, n.step is not null as later,
           coalesce(f.feeds, '{}') as feeds, coalesce(f.conditions, '{}') as conditions
    from given g left join needing n on n.step = g.step left join fed f on f.needed = g.step
  ),
  made as (
    insert into flow_step (flow, step, name, kind, state, wants, needs, feeds, conditions, open_needs, added, stop_after, delay, due, opened)
    select v_id, s.step, s.name, s.kind, case when s.later then 'blocked' else 'open' end, s.wants, s.numbers, s.feeds, s.conditions, s.open_needs,
           case when s.kind = 'jobs' then coalesce(jsonb_array_length(s.jobs), 0) else 0 end, s.stop_after, s.delay,
           case when not s.later then v_now + s.delay end, case when not s.later then v_now end
    from steps s
  )
  select greatest(sum(jsonb_array_length(s.jobs)), sum(s.open_needs)) > 100000, count(distinct s.name) < count(s.name),
         exists (select from edges e where (e.needed between 0 and e.step - 1) is not true)
           or exists (select from edges e group by e.step, e.needed having count(*) > 1),
         bool_or(not s.later and coalesce(jsonb_array_length(s.jobs), 0) = 0),
         array_agg(s.step order by s.step) filter (where not s.later and s.jobs is not null),
         array_agg(s.jobs order by s.step) filter (where not s.later and s.jobs is not null),
         array_agg(s.step order by s.step) filter (where s.later and s.jobs is not null),
         array_agg(s.jobs order by s.step) filter (where s.later and s.jobs is not null)
  into v_many, v_same, v_wrong, v_empty, v_now_steps, v_now_jobs, v_later_steps, v_later_jobs
  from steps s;
  if v_wrong then
    raise exception 'a step needs steps that come before it in the list, each once' using errcode = '22023';
  elsif v_same then
    raise exception 'two steps of a flow have one name' using errcode = '22023';
  elsif v_many then
    raise exception 'a flow starts with up to 100,000 jobs and 100,000 needs' using errcode = '22023', hint = 'Let a job of a step add more to it.';
  end if;
  if v_later_steps is not null then
    perform keep_jobs(v_id, v_later_steps, v_later_jobs);
  end if;
  if v_now_steps is not null then
    perform put_jobs(array_fill(v_id, array[cardinality(v_now_steps)]), v_now_steps, v_now_jobs);
  end if;
  insert into flow_tally (flow, step) values (v_id, case when not v_empty then v_now_steps[1] end);
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
  perform hint('flow');
  return 'signalled';
end
$$;
