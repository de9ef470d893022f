-- Ends the leases of the given items, whose holder is gone. The caller has locked the rows. Each item is
-- ready again at its old position, as a suspect; jobs of bundles wait in QUEUE again (pending), and are
-- charged in any case.
-- The crashes of the jobs in p_charged go up by one. A job that reaches its limit is dead (crash_limit).
-- Charged attempts are recorded for a policy that reads them (feed). A job whose cancellation was asked for
-- ends as cancelled. Rows of ended jobs have no token: no settlement was accepted, so one that is repeated is stale.
-- A lease from before these tables were restored belongs to a node of the place they were restored from: it
-- charges no crash, its attempt is not recorded, and the item is no suspect.
-- Locks the jobs before it changes any, in the order of ids as everywhere. Without p_wait, jobs that another
-- session has locked (an application's transaction, which may be long) are left to the next sweep, so that
-- the sweep never blocks. So are those whose id has an older dead letter that is locked: a death would replace it.
-- Called by crash, which isolates jobs that make it fail.
create function crash_all(p_positions bigint[], p_charged bigint[], p_why text, p_wait boolean)
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
  v_ids uuid[];
  v_tokens uuid[];
  v_feed boolean;
  v_crashed uuid[];
  v_verdicts text[];
  v_ends flow_end[];
  v_placed timestamptz; -- earlier leases are from before a restore; until a scheduler leads again, all are
begin
  select l.feed, case when l.place is distinct from tables_place() and l.place is not null then 'infinity' else l.placed end
  into v_feed, v_placed from scheduler_lease l;
  select array_agg(w.id), array_agg(w.lock_token) into v_ids, v_tokens from work_queue w where w.position = any (p_positions) and w.lock_key is not null;
  if p_wait then
    perform from queue q where q.id = any (v_ids) order by q.id for update;
  else
    v_ids := array(select unlocked_jobs(v_ids, v_tokens));
  end if;
  with lost as materialized (
    select w.position, w.id, w.lock_key, w.started, w.cancelled is not null as stop, w.started >= v_placed as here, w.together is not null as bundled,
           (w.started >= v_placed and (w.position = any (p_charged) or w.together is not null))::integer as charge
    from work_queue w where w.position = any (p_positions) and w.id = any (v_ids) and w.lock_key is not null
  ),
  counted as (
    update queue q
    set crashes = q.crashes + l.charge,
        errors = case when l.charge = 0 then q.errors else with_error(q.errors, jsonb_build_object('kind', 'crash', 'message', p_why), l.lock_key, q.tries + 1, v_now) end
    from lost l
    where q.id = any (v_ids) and q.id = l.id and not l.stop and (l.charge = 0 or q.crashes + 1 < q.max_crashes)
    returning q.id
  ),
  ended as (
    delete from queue q using lost l
    where q.id = any (v_ids) and q.id = l.id and (l.stop or (l.charge = 1 and q.crashes + 1 >= q.max_crashes))
    returning q.id, q.queue, q.task, q.key, q.priority, q.tries, q.max_tries, q.crashes, q.max_crashes, q.created, q.timeout, q.payload_version, q.unique_key, q.attributes, q.payload, q.retry, q.trace, q.flow, q.step, q.checkpoint,
      l.lock_key, l.started, l.stop, l.charge, with_error(q.errors, jsonb_build_object('kind', 'crash', 'message', p_why), l.lock_key, q.tries + 1, v_now) as all_errors
  ),
  freed as (
    update work_queue w
    set lock_key = null, lock_token = null, lock_timeout = null, started = null, progress = null, suspect = w.suspect or l.here
    from lost l
    where w.position = any (p_positions) and w.position = l.position and not l.bundled and l.id in (select c.id from counted c)
    returning w.id
  ),
  removed as (
    delete from work_queue w using lost l
    where w.position = any (p_positions) and w.position = l.position and (l.bundled or l.id not in (select c.id from counted c))
    returning w.id
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, unique_key, attributes, payload, errors, trace, flow, step, settings)
    select e.id, e.queue, e.task, e.key, e.priority, 'cancelled', e.tries, e.crashes + e.charge, e.created, e.started, v_now,
           e.payload_version, e.lock_key, e.unique_key, e.attributes, e.payload, e.all_errors, e.trace, e.flow, e.step,
           case when e.flow is not null then settings_of(e.timeout, e.max_tries, e.max_crashes, e.retry) end
    from ended e
    where e.stop and coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  ),
  buried as (
    insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                             timeout, payload_version, node, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint)
    select e.id, e.queue, e.task, e.key, e.priority, 'crash_limit', e.tries, e.max_tries, e.crashes + 1, e.max_crashes,
           e.created, v_now, e.timeout, e.payload_version, e.lock_key, e.unique_key, e.attributes, e.payload,
           e.retry, e.trace, e.all_errors, e.flow, e.step, e.checkpoint
    from ended e where not e.stop
    on conflict (id) do update
      set (queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
           token, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint) =
          (excluded.queue, excluded.task, excluded.key, excluded.priority, excluded.reason, excluded.tries, excluded.max_tries, excluded.crashes, excluded.max_crashes, excluded.created,
           excluded.died, excluded.timeout, excluded.payload_version, excluded.node, excluded.token, excluded.unique_key, excluded.attributes, excluded.payload, excluded.retry,
           excluded.trace, excluded.errors, excluded.flow, excluded.step, excluded.checkpoint)
  ),
  fed as (
    insert into settlement (at, positions, verdicts, busy_ms) select v_now, array_agg(l.position), array_agg('crash'::text), array_agg((extract(epoch from v_now - l.started) * 1000)::float4)
    from lost l where v_feed and l.charge = 1 having count(*) > 0
  ),
  verdicts (id, verdict, flow, step) as (
    select f.id, 'ready', null::uuid, null::integer from freed f
    union all select c.id, 'pending', null, null from counted c join lost l on l.id = c.id where l.bundled
    union all select e.id, case when e.stop then 'cancelled' else 'dead' end, e.flow, e.step from ended e
  )
  select array_agg(v.id), array_agg(v.verdict), array_agg((v.flow, v.step, v.id, v.verdict, null, null)::flow_end) filter (where v.flow is not null)
  into v_crashed, v_verdicts, v_ends from verdicts v;
  if v_ends is not null then
    perform note_ends(v_ends);
  end if;
  return query select x.id, x.verdict from unnest(v_crashed, v_verdicts) as x (id, verdict);
end
$$;

-- Ends an attempt whose own process or thread died, as its node reports, which lives on: it counts as a
-- crash. Returns ready, dead (crash_limit), cancelled or pending; null: the lease was lost, and nothing was
-- changed.
create function crash_job(p_id uuid, p_token uuid, p_why text) returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_position bigint;
  v_suspect boolean;
  v_verdict text;
begin
  select w.position, w.suspect into v_position, v_suspect from work_queue w where w.id = p_id and w.lock_token = p_token for update;
  if not found then
    return null;
  end if;
  select c.verdict into v_verdict from crash(array[v_position], array[v_position], left(p_why, 2000), true) c;
  if v_verdict = 'ready' then
    -- no other job suffered from this crash
    update work_queue w set suspect = v_suspect where w.position = v_position;
    perform hint('work');
  end if;
  return v_verdict;
end
$$;

-- Takes over expired leases, oldest items first. Each charges its own job, whatever its node does. Any node
-- and the scheduler call it, so that neither depends on the other being alive.
-- SKIP LOCKED: an item that is being settled or extended at this moment is not expired; an item whose job is
-- locked waits for the next sweep.
create function reap(p_max integer default 1000)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_expired bigint[];
begin
  perform take_apart(array(
    select w.position from work_queue w
    where w.jobs is not null and w.lock_timeout <= clock_timestamp() order by w.position limit p_max for update skip locked));
  v_expired := array(
    select w.position from work_queue w
    where w.id is not null and w.lock_timeout <= clock_timestamp() order by w.position limit p_max for update skip locked);
  return query select c.job_id, c.verdict from crash(v_expired, v_expired, 'lease expired', false) c;
  if found then
    perform hint('work');
  end if;
end
$$;
