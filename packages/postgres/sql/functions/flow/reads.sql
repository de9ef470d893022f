-- Reads of flows and their results.

-- Tells the state of flows; one that is missing never was, or its retention is over.
create function flow_state(p_ids uuid[]) returns table (id uuid, name text, state text, reason text, ended timestamptz)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$ select f.id, f.name, f.state, f.reason, f.ended from flow f where f.id = any (p_ids) $$;

-- Lists the ends of a step's jobs in the order of job ids, from behind p_after on: those with a result, and those
-- that are not done. A signal is listed with the flow's id, and without a task.
create function flow_results(p_flow uuid, p_step integer, p_after uuid default null, p_max integer default 1000)
  returns table (job uuid, outcome text, result jsonb, task text)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select r.job, r.outcome, r.result, r.task from flow_result r
  where r.flow = p_flow and r.step = p_step
    and r.job >= coalesce(p_after, '00000000-0000-0000-0000-000000000000') and r.job is distinct from p_after
  order by r.job limit p_max
$$;

-- Lists results of a step by its name (flow_results); that of a signal has no job. Without any there is a row that has not
-- ended; no row: there is no such step. The flow's id is all that its reader needs, as with the result of a job.
create function step_results(p_flow uuid, p_step text, p_after uuid default null, p_max integer default 1000)
  returns table (job uuid, outcome text, result jsonb, task text, ended boolean)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select case when s.kind <> 'signal' then r.job end, r.outcome, r.result, r.task, r.job is not null
  from flow_step s left join lateral flow_results(s.flow, s.step, p_after, p_max) r on true
  where s.flow = p_flow and s.name = p_step
  order by r.job
$$;

-- Lists the steps that the step of a running job waited for, for the holder of its token. A job that was put back
-- counts by its former end, as flow_results lists it, until it ends again.
create function needs_of(p_id uuid, p_token uuid)
  returns table (name text, step integer, condition text, outcome text, done integer, failed integer, other integer)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select e.name, e.step, e.conditions[array_position(e.feeds, d.step)], e.outcome, e.done,
         case when b.back then l.failed else e.failed end, case when b.back then l.other else e.other end
  from (select q.flow, q.step from queue q where q.id = p_id limit 1) q
  join flow_step d on d.flow = any (array[q.flow]) and d.step = q.step
  cross join lateral unnest(d.needs) as n (step)
  join flow_step e on e.flow = any (array[d.flow]) and e.step = n.step
  cross join lateral (
    select (
      select b.id from queue b
      where b.flow = e.flow and b.step = e.step
        and (select r.job from flow_result r where r.flow = e.flow and r.step = e.step and r.job = b.id) is not null
      limit 1) is not null as back) b
  cross join lateral (
    select count(*) filter (where r.outcome = 'dead')::integer as failed, count(*) filter (where r.outcome not in ('done', 'dead'))::integer as other
    from flow_result r where r.flow = e.flow and r.step = e.step and b.back) l
  where (select w.id from work_item w where w.id = p_id and w.lock_token = p_token) is not null
  order by e.step
$$;

-- Lists results of a step that the step of a running job waited for (flow_results), for the holder of its token.
create function need_results(p_id uuid, p_token uuid, p_step integer, p_after uuid default null, p_max integer default 1000)
  returns table (job uuid, outcome text, result jsonb, task text)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select r.job, r.outcome, r.result, r.task
  from needs_of(p_id, p_token) n, queue q, flow_results(q.flow, p_step, p_after, p_max) r
  where n.step = p_step and q.id = p_id
  order by r.job
$$;

-- Lists results of the flow that a running job has waited for (flow_results), for the holder of its token.
create function own_results(p_id uuid, p_token uuid, p_flow uuid, p_step integer, p_after uuid default null, p_max integer default 1000)
  returns table (job uuid, outcome text, result jsonb, task text)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select r.job, r.outcome, r.result, r.task
  from flow f, flow_results(f.id, p_step, p_after, p_max) r
  where f.id = p_flow and f.waiter = p_id
    and (select w.id from work_item w where w.id = p_id and w.lock_token = p_token limit 1) is not null
  order by r.job
$$;
