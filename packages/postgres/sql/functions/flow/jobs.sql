-- Jobs of flows: how they get into QUEUE, and what is noted when they leave it.

-- Enqueues jobs of steps: for each place of the lists, an array of objects as enqueue_unique takes them. A delay
-- counts from now. Returns how many were inserted: an id that is there already is left alone.
create function put_jobs(p_flows uuid[], p_steps integer[], p_jobs jsonb[]) returns integer
  language plpgsql volatile
  set plan_cache_mode = force_generic_plan
  set search_path from current
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_count integer;
begin
  insert into queue (id, queue, task, key, priority, attributes, run_after, expires_at, timeout, max_tries, max_crashes, retry,
                     payload, payload_version, trace, flow, step)
  select coalesce(x.id, uuid_v7()), coalesce(x.queue, 'default'), x.task, coalesce(x.key, ''), coalesce(x.priority, 0), coalesce(x.attributes, '{}'),
         nullif(greatest(coalesce(x.run_after, v_now + x.delay_ms * interval '1 millisecond'), v_now), v_now),
         x.expires_at, x.timeout_ms * interval '1 millisecond', coalesce(x.max_tries, 20), coalesce(x.max_crashes, 3), x.retry,
         -- a payload may be null, and is {} if there is none
         coalesce(x.payload, s.jobs -> (x.ordinality - 1)::integer -> 'payload', '{}'), coalesce(x.payload_version, 1), x.trace, s.flow, s.step
  from unnest(p_flows, p_steps, p_jobs) as s (flow, step, jobs) cross join lateral rows from (jsonb_to_recordset(s.jobs) as (
    id uuid, queue text, task text, key text, priority integer, attributes jsonb, run_after timestamptz, delay_ms float8,
    expires_at timestamptz, timeout_ms float8, max_tries smallint, max_crashes smallint, retry jsonb, payload jsonb,
    payload_version integer, trace jsonb)) with ordinality as x
  on conflict do nothing;
  get diagnostics v_count = row_count;
  return v_count;
end
$$;

-- Checks jobs of steps that are released later, an array of objects for each step, by the rules of QUEUE: so that a release
-- can't fail for them.
create function check_later_jobs(p_jobs jsonb[]) returns void
  language plpgsql stable
  set search_path from current
as $$
declare
  v_usual queue := jsonb_populate_record(null::queue, '{"created": "2000-01-01", "priority": 0, "payload_version": 1, "tries": 0, "max_tries": 20,
    "crashes": 0, "max_crashes": 3, "queue": "default", "key": "", "attributes": {}, "payload": {}}');
  -- columns that put_jobs takes from no job
  c_not_given constant text[] := '{seq, created, timeout, tries, crashes, unique_key, errors, last_token, checkpoint, moved, flow, step}';
begin
  -- check_job raises what it refuses. By the names of columns: QUEUE may have more, of somebody else
  if exists (
    select from unnest(p_jobs) as s (jobs) cross join lateral jsonb_array_elements(s.jobs) as j (job)
    where j.job ->> 'task' is null or ((j.job ->> 'delay_ms')::float8 between 0 and 3.2e11) is false
      or not check_job(jsonb_populate_record(v_usual, case when j.job ? 'timeout_ms'
           then (j.job - c_not_given) || jsonb_build_object('timeout', (j.job ->> 'timeout_ms')::float8 * interval '1 millisecond')
           else j.job - c_not_given end)))
  then
    raise exception 'each job of a flow has a task, and a delay of 0 to 3.2e11 ms' using errcode = 'check_violation', table = 'queue', constraint = 'queue_task_check';
  end if;
end
$$;

-- Enqueues jobs of those of the given steps that are open and have some that are not in QUEUE yet: chunks with up to p_max
-- jobs in all, in the order of flows, steps and chunks, and a chunk that goes beyond. Returns their number. Flows of which
-- jobs are left get a tally, so that the next call takes them.
create function release_jobs(p_steps step_ref[], p_max integer) returns integer
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_flows uuid[];
  v_steps integer[];
  v_jobs jsonb[];
begin
  if p_steps = '{}' then
    return 0;
  end if;
  with waiting as materialized (
    select s.flow, s.step, s.jobs, s.unreleased, (sum(s.unreleased) over (order by s.flow, s.step) - s.unreleased)::integer as before
    from unnest(p_steps) as x
    -- by a limit, so that no plan begins with the table
    cross join lateral (
      select s.* from flow_step s
      where s.flow = x.flow and s.step = x.step and s.state = 'open' and not s.stop and s.unreleased > 0 limit 1) s
  ),
  taken as materialized (
    select w.*, least(w.unreleased, ((p_max - w.before + 499) / 500) * 500) as size, cardinality(w.jobs) - (w.unreleased + 499) / 500 as behind
    from waiting w where w.before < p_max
  ),
  released as (
    update flow_step s set unreleased = t.unreleased - t.size, jobs = case when t.size < t.unreleased then s.jobs end
    from taken t where s.flow = any (array[t.flow]) and s.step = t.step
  ),
  left_over as (
    insert into flow_tally (flow)
    select distinct w.flow from waiting w left join taken t on t.flow = w.flow and t.step = w.step where (t.size < w.unreleased) is not false
  )
  select array_agg(t.flow order by t.flow, t.step, c.n), array_agg(t.step order by t.flow, t.step, c.n), array_agg(c.jobs order by t.flow, t.step, c.n)
  into v_flows, v_steps, v_jobs
  from taken t cross join lateral unnest(t.jobs[t.behind + 1 : t.behind + (t.size + 499) / 500]) with ordinality as c (jobs, n);
  return case when v_flows is null then 0 else put_jobs(v_flows, v_steps, v_jobs) end;
end
$$;

-- Notes that jobs of flows have left QUEUE: the results that dependents may read, and a tally for each step. In
-- the transaction that removes them, so a repeated settlement, which finds nothing to remove, counts nothing.
-- A job that had ended before, and was put back, has the note of that end until now: without it, it would look done.
-- Takes no lock on a flow or a step.
create function note_ends(p_ends flow_end[]) returns void
  language plpgsql volatile
  set plan_cache_mode = force_generic_plan
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_noted boolean;
begin
  insert into flow_result as r (flow, step, job, outcome, result, task)
  select e.flow, e.step, e.job, e.outcome, e.result, e.task from unnest(p_ends) e
  where e.outcome <> 'done' or e.result is not null
  on conflict (flow, step, job) do update set outcome = excluded.outcome, result = excluded.result, task = excluded.task;
  -- most steps have no notes: looked for once a step, not once a job
  with steps as materialized (
    select e.flow, e.step, count(*) filter (where e.outcome = 'done') as done, count(*) filter (where e.outcome = 'dead') as failed,
           count(*) filter (where e.outcome not in ('done', 'dead')) as other,
           count(*) filter (where e.outcome = 'done' and e.result is null) as silent
    from unnest(p_ends) e group by e.flow, e.step
  ),
  tallied as (
    insert into flow_tally (flow, step, done, failed, other) select s.flow, s.step, s.done, s.failed, s.other from steps s
  )
  select bool_or((select r.job from flow_result r where r.flow = s.flow and r.step = s.step limit 1) is not null) into v_noted
  from steps s where s.silent > 0;
  if v_noted then
    delete from flow_result r using unnest(p_ends) e
    where e.outcome = 'done' and e.result is null and r.flow = any (array[e.flow]) and r.step = e.step and r.job = e.job;
  end if;
end
$$;

-- Adds jobs to the step of a running job, named by its token. False: the lease was lost, and nothing was added.
-- The job's own row stands in QUEUE until it is settled, so the step can't have ended before its new jobs are
-- there. Locks the work item, so a settlement or a takeover under way ends first. A job without a flow just
-- enqueues the jobs. p_again: the reply of an earlier call with these ids may have been lost; its jobs may have
-- ended since, which is known as far back as history reaches, and of those with a result as long as their flow.
create function add_jobs(p_id uuid, p_token uuid, p_jobs jsonb, p_again boolean default false) returns boolean
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_flow uuid;
  v_step integer;
  v_count integer;
begin
  perform from work_queue w where w.id = p_id and w.lock_token = p_token for update;
  if not found then
    return false;
  end if;
  select q.flow, q.step into v_flow, v_step from queue q where q.id = p_id;
  if not found then
    return false;
  end if;
  if p_again then
    perform assert_read_committed('an enqueue with an id of its own');
    -- waits for settlements under way, or the insert would wait for them, and enqueue what they end
    perform from queue q where q.id = any (array(select (x.job ->> 'id')::uuid from jsonb_array_elements(p_jobs) as x (job)))
    order by q.id for key share;
    p_jobs := (
      select coalesce(jsonb_agg(x.job order by x.n), '[]')
      from jsonb_array_elements(p_jobs) with ordinality as x (job, n)
      where (select e.id from ended_jobs(array[(x.job ->> 'id')::uuid]) e limit 1) is null
        and (select r.job from flow_result r where r.flow = v_flow and r.step = v_step and r.job = (x.job ->> 'id')::uuid) is null);
  end if;
  v_count := put_jobs(array[v_flow], array[v_step], array[p_jobs]);
  if v_flow is not null and v_count > 0 then
    insert into flow_tally (flow, step, added) values (v_flow, v_step, v_count);
  end if;
  return true;
end
$$;

-- Ends a running job as done, and adds jobs to its step in the same transaction: so exactly once. False: the
-- lease was lost, and nothing was changed.
create function fan_out(p_id uuid, p_token uuid, p_result text, p_jobs jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  if not add_jobs(p_id, p_token, p_jobs) then
    return false;
  end if;
  return exists (select from settle(array[p_id], array[p_token], array['done'], array[null::float8], array[p_result]));
end
$$;
