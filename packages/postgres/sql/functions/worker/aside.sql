-- Isolates rows that can't be processed. A statement that serves many jobs and fails for good is retried with
-- one half of them and then with the other, until the failing job is alone; that job goes into the dead
-- letters, with the reason. Such rows are older than a rule, were written by hand, or are damaged on the
-- disk.

-- Tells whether a statement fails because of the contents of one of its rows (data, constraints, limits of
-- the program, damage), and would fail again. Any other error (locks, connections, disks, rights, missing
-- functions) concerns every row alike, and no job must die of it.
create function is_of_row(p_state text) returns boolean
  language sql immutable
  set search_path from current
as $$ select p_state ~ '^(22|23|54|XX001|XX002)' $$;

-- Moves a job that can't be processed into the dead letters, whatever it was about to do. The caller has
-- locked it. False: that fails, too, and the job stays as it is.
create function set_aside(p_id uuid, p_why text) returns boolean
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_flow uuid;
  v_step integer;
begin
  if in_batch(p_id) then
    perform spread(array[p_id]);
    if in_batch(p_id) then
      return false;
    end if;
  end if;
  with item as (
    delete from work_queue w where w.id = p_id returning w.lock_key
  ),
  gone as (
    delete from queue q where q.id = p_id returning q.*
  )
  insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                           timeout, payload_version, node, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint)
  select g.id, g.queue, g.task, g.key, g.priority, 'gave_up', g.tries, g.max_tries, g.crashes, g.max_crashes, g.created,
         clock_timestamp(), g.timeout, g.payload_version, i.lock_key, g.unique_key, g.attributes, g.payload, g.retry, g.trace,
         with_error(g.errors, jsonb_build_object('kind', 'error', 'message', 'it can''t be processed: ' || left(p_why, 2000)),
                    i.lock_key, g.tries + 1, clock_timestamp()), g.flow, g.step, g.checkpoint
  from gone g left join item i on true
  on conflict (id) do update
    set (queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
         token, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint) =
        (excluded.queue, excluded.task, excluded.key, excluded.priority, excluded.reason, excluded.tries, excluded.max_tries, excluded.crashes, excluded.max_crashes, excluded.created,
         excluded.died, excluded.timeout, excluded.payload_version, excluded.node, excluded.token, excluded.unique_key, excluded.attributes, excluded.payload, excluded.retry,
         excluded.trace, excluded.errors, excluded.flow, excluded.step, excluded.checkpoint)
  returning flow, step into v_flow, v_step;
  if v_flow is not null then
    perform note_ends(array[(v_flow, v_step, p_id, 'dead', null, null)::flow_end]);
  end if;
  return true;
exception when others then
  if not is_of_row(sqlstate) then
    raise;
  end if;
  raise warning 'job % can neither be processed nor be set aside: %', p_id, sqlerrm;
  return false;
end
$$;

-- Ends leases as crash_all does, and isolates jobs that make it fail.
create function crash(p_positions bigint[], p_charged bigint[], p_why text, p_wait boolean)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_half integer := cardinality(p_positions) / 2;
  v_id uuid;
  v_error text;
begin
  begin
    return query select c.job_id, c.verdict from crash_all(p_positions, p_charged, p_why, p_wait) c;
    return;
  exception when others then
    if not is_of_row(sqlstate) then
      raise;
    end if;
    v_error := sqlerrm;
  end;
  if v_half > 0 then
    return query select c.job_id, c.verdict from crash(p_positions[:v_half], p_charged, p_why, p_wait) c;
    return query select c.job_id, c.verdict from crash(p_positions[v_half + 1:], p_charged, p_why, p_wait) c;
    return;
  end if;
  select w.id into v_id from work_queue w where w.position = p_positions[1];
  if set_aside(v_id, v_error) then
    return query select v_id, 'dead'::text;
  end if;
end
$$;

-- Makes delayed jobs pending, or ends waiting jobs as expired (p_expired), and isolates those that make it
-- fail; returns the number of the others. The caller has locked them, and taken back the work items of those
-- that expire.
create function make_due(p_ids uuid[], p_expired boolean default false) returns integer
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_half integer := cardinality(p_ids) / 2;
  v_count integer;
begin
  begin
    if p_expired then
      return coalesce(cardinality(end_waiting(p_ids, 'expired')), 0);
    end if;
    update queue q set run_after = null where q.id = any (p_ids);
    get diagnostics v_count = row_count;
    return v_count;
  exception when others then
    if not is_of_row(sqlstate) then
      raise;
    elsif v_half = 0 then
      perform set_aside(p_ids[1], sqlerrm);
      return 0;
    end if;
  end;
  return make_due(p_ids[:v_half], p_expired) + make_due(p_ids[v_half + 1:], p_expired);
end
$$;
