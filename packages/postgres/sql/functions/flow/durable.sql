-- Jobs that wait for a flow of their own, without a slot. Such a job is snoozed, and the flow names it as its
-- waiter, by the token of the attempt that was suspended: only that job, still suspended by that attempt, is
-- woken when the flow ends.

-- Makes the flow that a job waits for, unless it is there. Refuses a flow that was made for another job, or for none: whoever
-- waits for a flow reads its results, and ends it by ending. One that an earlier job of the same id left is dropped:
-- whoever approved that job has not approved this one. Jobs of one id differ in when they were created, which a job keeps
-- when it is put back, or moves.
create function make_wait(p_job uuid, p_created timestamptz, p_flow jsonb) returns void
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_flow uuid := (p_flow ->> 'id')::uuid;
begin
  perform drop_flows(array(
    select f.id from flow f where f.id = v_flow and f.waiter = p_job and f.waiter_created <> p_created for update));
  if not exists (select from flow f where f.id = v_flow) then
    -- a signal and a suspension may make it at the same time
    if (select s.outcome from start_flow(p_flow) s) = 'started' then
      update flow f set waiter = p_job, waiter_created = p_created where f.id = v_flow;
    end if;
  end if;
  if not exists (select from flow f where f.id = v_flow and f.waiter = p_job) then
    raise exception 'flow % was not made for job %', v_flow, p_job
      using errcode = '42501', hint = 'Make a new id for each flow that a job waits for.';
  end if;
end
$$;

-- Suspends a running job until a flow has ended, and keeps p_memo as its checkpoint. p_flow: as start_flow takes
-- it; a flow of that id that was made for this job is waited for as it is, and is open again if jobs of it were put
-- back. suspended; ended: the flow has ended, and the job still runs; cancelled: the job's cancellation was asked for,
-- and it has ended; null: the lease was lost, and nothing was changed.
-- A new flow commits with the suspension, so it can't end before. A flow that is there is locked, so its end
-- comes before this, and is seen, or after it, and wakes the job.
-- No deadlock: the leader locks the flow, and then the job's row; this locks the work item, the flow, and the
-- job's row.
create function suspend_job(p_id uuid, p_token uuid, p_memo jsonb, p_flow jsonb) returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_flow uuid := (p_flow ->> 'id')::uuid;
  v_stop boolean;
  v_state text;
  v_verdict text;
  v_back integer[]; -- steps with jobs that were put back
begin
  perform assert_read_committed('a wait for a flow');
  if not fits(p_memo, 393216) then
    raise exception 'what a job keeps of its steps, with its checkpoint, is at most 256 KiB, nested 500 levels deep' using errcode = '22023',
      hint = 'Return less from ctx.step: a reference in place of data.';
  end if;
  select w.cancelled is not null into v_stop from work_queue w where w.id = p_id and w.lock_token = p_token for update;
  if not found then
    return null;
  elsif not v_stop then
    perform make_wait(p_id, (select q.created from queue q where q.id = p_id), p_flow);
    select f.state into v_state from flow f where f.id = v_flow for update;
    if v_state <> 'open' then
      v_back := array(select distinct q.step from queue q where q.flow = v_flow);
      if v_back = '{}' then
        return 'ended';
      end if;
      update flow_step s set state = 'open', outcome = null, ended = null, stop = false where s.flow = v_flow and s.step = any (v_back);
      update flow f set state = 'open', ended = null, stopping = null, reason = null, deadline = null where f.id = v_flow;
      insert into flow_tally (flow) values (v_flow);
    end if;
    update flow f set waiter_token = p_token where f.id = v_flow;
  end if;
  update queue q set checkpoint = p_memo where q.id = p_id;
  select s.verdict into v_verdict
  from settle(array[p_id], array[p_token], array['snooze'], array[3.2e11::float8], array[null::text]) s;
  return case v_verdict when 'snooze' then 'suspended' else v_verdict end;
end
$$;

-- Makes the jobs due that wait for flows which have ended; returns their number. The caller has locked the flows.
-- A job whose row another session has locked waits for the next call, which a tally asks for; one that can't be
-- made due is set aside (make_due), and holds up no other.
create function wake_waiters(p_flows uuid[]) returns integer
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_flow record;
  v_woken integer := 0;
begin
  for v_flow in
    select f.id, f.waiter, f.waiter_token from flow f
    where f.id = any (p_flows) and f.state <> 'open' and f.waiter_token is not null
  loop
    if (select q.id from queue q where q.id = v_flow.waiter and q.last_token = v_flow.waiter_token and q.run_after is not null) is not null then
      perform from queue q where q.id = v_flow.waiter for update skip locked;
      if not found then
        insert into flow_tally (flow) values (v_flow.id);
        continue;
      end if;
      v_woken := v_woken + make_due(array(
        select q.id from queue q where q.id = v_flow.waiter and q.last_token = v_flow.waiter_token and q.run_after is not null));
    end if;
    update flow f set waiter_token = null where f.id = v_flow.id;
  end loop;
  return v_woken;
end
$$;

-- The flow in which a job waits for a signal: made from both, so that whoever sends the signal need not know it.
create function signal_flow_of(p_job uuid, p_name text) returns uuid
  language sql immutable
  set search_path from current
as $$ select md5(p_job::text || ':signal:' || p_name)::uuid $$;

-- Gives a job the value of a signal that its handler waits for, or will wait for; the first one wins. signalled;
-- repeated: it has a value; ended: the wait for it is over; busy: it is on its way to another installation, call again;
-- unknown: there is no such job that has not ended. The lock on the job keeps hand_over from taking it away until the
-- signal is committed: then it stays.
-- No deadlock: this locks the job's key, and then the flow; suspend_job locks the flow, and then the job, but not its
-- key.
create function signal_job(p_job uuid, p_name text, p_value jsonb default null) returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_flow uuid := signal_flow_of(p_job, p_name);
  v_task text;
  v_created timestamptz;
begin
  if length(p_name) not between 1 and 100 then
    raise exception 'the name of a signal of a job has 1 to 100 characters' using errcode = '22023';
  end if;
  select q.task, q.created into v_task, v_created from queue q where q.id = p_job for key share;
  if not found then
    return case when exists (select from handover h where h.id = p_job) then 'busy' else 'unknown' end;
  end if;
  perform make_wait(p_job, v_created, jsonb_build_object(
    'id', v_flow, 'name', left(v_task, 99) || ': ' || left(p_name, 99),
    'steps', jsonb_build_array(jsonb_build_object('name', p_name, 'kind', 'signal'))));
  return signal_flow(v_flow, p_name, p_value);
end
$$;

-- Forgets the signals that jobs were given or wait for. p_which: all; waiting: those without a value; plain: those whose
-- value is not encrypted. A value was given for the work as it was then: whoever approved one payload has not approved
-- another.
create function forget_signals(p_jobs uuid[], p_which text) returns void
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  perform drop_flows(array(
    select f.id from unnest(p_jobs) as j (id)
      cross join lateral (select f.id, f.state from flow f where f.waiter = j.id for update) f
    where (select s.step from flow_step s where s.flow = f.id and s.kind = 'jobs' limit 1) is null
      and case p_which when 'all' then true when 'waiting' then f.state <> 'done'
        else (select r.job from flow_result r where r.flow = f.id and not coalesce(r.result ? '$enc', false) limit 1) is not null end));
end
$$;

-- Reports whether a job is suspended: its handler has begun, and waits for a flow.
create function is_suspended(p_id uuid) returns boolean
  language plpgsql stable
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  return exists (
    select from flow f where f.waiter = p_id and f.waiter_token = (select q.last_token from queue q where q.id = p_id));
end
$$;

-- Returns when a job that waits for a retry or the end of a snooze is due, in milliseconds. 8.64e15 (neverMs in
-- @pgqueue/core): the job is suspended, and its run_after, ten years on, stands for no time.
create function retry_due_ms(p_id uuid, p_run_after timestamptz) returns float8
  language plpgsql stable
  set search_path from current
as $$
begin
  if p_run_after > clock_timestamp() + interval '5 years' and is_suspended(p_id) then
    return 8.64e15;
  end if;
  return date_part('epoch', p_run_after) * 1000;
end
$$;
