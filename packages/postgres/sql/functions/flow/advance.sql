-- Moves flows on: the leader's work. One judge, so no counter decides anything, and nothing is locked by those
-- who settle.

-- Ends a flow that can't be processed, so that it holds up no other. Its jobs in QUEUE go on, and a job that
-- waits for it is woken by the caller.
create function fail_flow(p_flow uuid, p_why text) returns void
  language plpgsql volatile
  set search_path from current
as $$
begin
  update flow_step s set state = 'ended', ended = clock_timestamp(), due = null, stop = false, outcome = case when s.state = 'open' then 'cancelled' else 'skipped' end
  where s.flow = p_flow and s.ended is null;
  update flow f set state = 'failed', ended = clock_timestamp(), reason = 'it can''t be processed: ' || left(p_why, 1900)
  where f.id = p_flow and f.state = 'open';
  delete from flow_tally t where t.flow = p_flow;
end
$$;

-- Advances flows whose rows the caller has locked (advance_set), and isolates those that make it fail. Returns the
-- number of jobs enqueued, and of jobs that waited for a flow and are due now.
-- A flow that has to wait for a lock for more than 100 ms is left as it was, for the next call: an open transaction has
-- enqueued a job with the id of one of its jobs. The renewal of the leader's lease waits for this, too.
create function advance_locked(p_flows uuid[], p_whole uuid[], p_probe boolean) returns integer
  language plpgsql volatile
  set search_path from current
  set lock_timeout = '100ms'
as $$
declare
  v_half integer := cardinality(p_flows) / 2;
begin
  begin
    return advance_set(p_flows, p_whole, p_probe) + wake_waiters(p_flows);
  exception when others then
    if not is_of_row(sqlstate) and sqlstate <> '55P03' then
      raise;
    elsif v_half = 0 and sqlstate = '55P03' then
      return 0;
    elsif v_half = 0 then
      perform fail_flow(p_flows[1], sqlerrm);
      return wake_waiters(p_flows);
    end if;
  end;
  return advance_locked(p_flows[:v_half], array(select w from unnest(p_whole) w where w = any (p_flows[:v_half])), p_probe)
    + advance_locked(p_flows[v_half + 1:], array(select w from unnest(p_whole) w where w = any (p_flows[v_half + 1:])), p_probe);
end
$$;

-- Returns the milliseconds until the next timer or deadline of a flow; null: there is none.
create function flows_due_ms() returns float8
  language plpgsql volatile
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  return extract(epoch from least(
    (select s.due from flow_step s where s.due is not null order by s.due limit 1),
    (select f.deadline from flow f where f.ended is null and f.stopping is null and f.deadline is not null order by f.deadline limit 1))
    - clock_timestamp())::float8 * 1000;
end
$$;

-- Moves flows on, under the leader's epoch. p_read: {"from", "max", "walk"}: takes up to max tallies from the
-- number from on. walk: also looks for jobs of all open steps of the next 100 open flows from that id on, so that
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
  v_due uuid[];
  v_walk uuid[] := '{}';
  v_walked uuid;
  v_flows uuid[];
  v_put integer := 0;
  v_late uuid;
  v_ended jsonb;
begin
  perform assert_leader(p_leader, p_epoch);
  -- no number that a program can't hold exactly: rows written by hand may have any
  select max(t.n) filter (where t.n < 2 ^ 53) + 1, count(*), array_agg(distinct t.flow) into v_next, v_taken, v_asked
  from (select t.n, t.flow from flow_tally t where t.n >= (p_read ->> 'from')::bigint order by t.n limit v_max) t;
  for v_late in select f.id from flow f where f.ended is null and f.stopping is null and f.deadline <= v_now order by f.deadline limit 100 loop
    perform stop_flow(v_late, 'its deadline has passed', true);
    v_asked := v_asked || v_late;
  end loop;
  v_due := array(select s.flow from flow_step s where s.due <= v_now order by s.due limit v_max);
  v_asked := v_asked || v_due;
  if p_read -> 'walk' <> 'null' then
    v_walk := array(select f.id from flow f where f.state = 'open' and f.id >= (p_read ->> 'walk')::uuid order by f.id limit 100);
    v_walked := v_walk[100]; -- whether or not its row is locked
  end if;
  v_flows := array(select f.id from flow f where f.id = any (v_asked) order by f.id for update skip locked);
  if cardinality(v_flows) > 0 then
    v_put := advance_locked(v_flows, array(select distinct d from unnest(v_due) d where d = any (v_flows)), false);
  end if;
  -- what is left by jobs of flows that are gone: dead ones may be put back long after
  with gone as (
    delete from flow_tally t where t.flow = any (v_asked) and (select f.id from flow f where f.id = t.flow) is null returning t.flow
  )
  delete from flow_result r using gone g where r.flow = any (array[g.flow]);
  v_walk := array(select f.id from flow f where f.id = any (v_walk) order by f.id for update skip locked);
  -- a flow that only a job waited for goes when the job has ended for good (trim_flows)
  perform stop_flow(f.id, 'the job that waited for it has ended')
  from (select w.id, w.waiter from flow w where w.id = any (v_walk) offset 0) f -- by id, whatever other indexes there are
  where f.waiter is not null and (select q.id from queue q where q.id = f.waiter) is null
    and (select d.id from dead_letter d where d.id = f.waiter) is null;
  if cardinality(v_walk) > 0 then
    v_put := v_put + advance_locked(v_walk, v_walk, true);
  end if;
  select coalesce(jsonb_agg(jsonb_build_object('id', f.id, 'name', f.name, 'state', f.state)), '[]') into v_ended
  from flow f where f.id = any (v_flows || v_walk) and f.ended >= v_now;
  if v_ended = '[]' then
    -- a crash that undoes this leaves the tallies, from which it is done again; the end of a flow must stay as it was told
    perform set_config('synchronous_commit', 'off', true);
  else
    perform hint('flow', case when jsonb_array_length(v_ended) <= 64 then (
      select string_agg(e.flow ->> 'id', ',') from jsonb_array_elements(v_ended) as e (flow)) else '' end);
  end if;
  return jsonb_build_object(
    'next', v_next, 'put', v_put,
    -- jobs are left behind the most that one call enqueues
    'more', v_taken >= v_max or v_put >= 10000,
    'stops', exists (select from flow_step s where s.stop),
    'due_ms', flows_due_ms(),
    'walked', v_walked,
    'open', exists (select from flow f where f.state = 'open'),
    'ended', v_ended);
end
$$;
