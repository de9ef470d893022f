-- Enqueues the job of a schedule, and returns its id; null: there is no such schedule. The job has the attributes
-- schedule, and slot if there is one, unless it is given others of these names. Runs with the caller's rights: an
-- operator may insert jobs anyway.
create function enqueue_scheduled(p_name text, p_slot timestamptz default null) returns uuid
  language sql volatile
  set search_path from current
as $$
  insert into queue (queue, task, key, priority, attributes, timeout, max_tries, max_crashes, retry, payload, payload_version)
  select coalesce(s.options ->> 'queue', 'default'), s.task, coalesce(s.options ->> 'key', ''),
         coalesce((s.options ->> 'priority')::integer, 0),
         jsonb_strip_nulls(jsonb_build_object('schedule', s.name, 'slot', to_char(p_slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')))
           || coalesce(nullif(s.options -> 'attributes', 'null'), '{}'),
         (s.options ->> 'timeoutMs')::float8 * interval '1 millisecond', coalesce((s.options ->> 'maxTries')::smallint, 20),
         coalesce((s.options ->> 'maxCrashes')::smallint, 3), nullif(s.options -> 'retry', 'null'), s.payload,
         coalesce((s.options ->> 'payloadVersion')::integer, 1)
  from schedule s where s.name = p_name
  returning id
$$;

-- Turns a cron slot into one job, however many leaders try and however often, and stores the next slot with
-- it. Returns the job's id; null: none was made. refused: the queue takes no more jobs of its key, and the slot is left out. p_read, as one JSON object: name, cron and timezone of the
-- schedule as they were read; next: its next slot; slot: the due slot, absent if only the next one is to be
-- stored. Waits for no lock of others, as lose_nodes: a schedule whose row is locked has its slot with a later
-- sweep.
create function fire_schedule(p_leader text, p_epoch bigint, p_read jsonb, out job uuid, out refused text)
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  s schedule;
  v_slot timestamptz := p_read ->> 'slot';
begin
  perform assert_leader(p_leader, p_epoch);
  select * into s from schedule where name = p_read ->> 'name' for update skip locked;
  -- the schedule is locked, or was changed since it was read: the next sweep plans it anew
  if not found or s.paused or s.cron <> p_read ->> 'cron' or s.timezone <> p_read ->> 'timezone' then
    return;
  end if;
  if v_slot is not null and (v_slot > s.last_slot) is not false then
    begin
      job := enqueue_scheduled(s.name, v_slot);
    exception when sqlstate 'PQ003' then
      refused := sqlerrm;
      v_slot := null;
    end;
  end if;
  -- of one that failed, p_read has only the time to try it again: its slot stays due
  update schedule
  set next_slot = coalesce((p_read ->> 'next')::timestamptz, next_slot), last_slot = greatest(v_slot, last_slot),
      retry_after = (p_read ->> 'retry')::timestamptz
  where name = s.name;
end
$$;
