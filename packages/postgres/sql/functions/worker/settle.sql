-- Ends attempts.
-- outcome done       data = the result              -> HISTORY
--         retry      data = the error, delay_ms     -> delayed, or DEAD_LETTER (max_tries) after its last try
--         dead       data = the error               -> DEAD_LETTER (gave_up)
--         snooze     delay_ms; counts no try        -> delayed
--         cancelled  data = null                    -> HISTORY
-- A job whose cancellation was asked for while it ran is not retried: it ends as cancelled. p_waited_ms: the
-- time that each job waited in its node after the claim, for a slot; it is no part of the run.
--
-- Returns the verdict of each accepted settlement: done, cancelled, retry, snooze, dead. An id that is
-- missing was stale: its lease had been lost, and nothing was changed. With p_repeat (the reply of an earlier
-- call with the same tokens was lost) a settlement that this token made before is returned as 'repeated', if
-- it left a trace: with retention 0, a job that is done leaves none, and looks stale. An item whose job is
-- gone (removed by hand) is removed, and looks stale too.
--
-- Safe because: each way (settle_done, settle_mixed) is one statement. It deletes the work item by id and token,
-- which is the fence, and ends only the jobs of deleted items; settle_rows (batches.sql) does the same for
-- whole batches. If a retry deleted the item in one statement and made the job pending in another, a scheduler
-- that read between them would skip the job for ever.
-- Work items are locked before jobs, as everywhere. Served by work_queue_id and queue's primary key.
-- Plans: each table also has the condition "id = any (p_ids)", and nested loops are off. So the only plan is
-- an index lookup of these ids, hashed against the input. With nested loops, a planner that expected one row
-- read all jobs for each of them.
create function settle(p_ids uuid[], p_tokens uuid[], p_outcomes text[], p_delays_ms float8[], p_data text[], p_repeat boolean default false,
                       p_waited_ms float8[] default null)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
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
  v_verdicts text[];
  v_positions bigint[];
  v_busy float4[];
  v_ends flow_end[];
begin
  if exists (select from unnest(p_outcomes) o where o is null or o not in ('done', 'retry', 'dead', 'snooze', 'cancelled')) then
    raise exception 'unknown outcome in %', p_outcomes using errcode = '22023';
  end if;
  if cardinality(p_waited_ms) <> cardinality(p_ids) then
    raise exception 'waited_ms must be a list as long as ids, or none' using errcode = '22023';
  end if;
  -- a shorter list would be filled up with nulls: the item would go, and its job would stay as it is
  if cardinality(p_ids) <> any (array[coalesce(cardinality(p_tokens), -1), coalesce(cardinality(p_outcomes), -1),
                                       coalesce(cardinality(p_delays_ms), -1), coalesce(cardinality(p_data), -1)]) then
    raise exception 'ids, tokens, outcomes, delays and data must be lists of one length' using errcode = '22023';
  end if;
  -- short texts are within the limits, unless they have numbers of many digits
  if exists (
      select from unnest(p_outcomes, p_data) as x (outcome, data)
      where (octet_length(x.data) > 1000 or x.data ~ '[eE][-+]?[0-9]{3}')
        and not fits(x.data::jsonb, case when x.outcome = 'done' then 1572864 else 131072 end)) then
    raise exception 'a result is at most 1 MiB, an error 128 KiB, nested 500 levels deep' using errcode = '22023';
  end if;
  if 'done' = all (p_outcomes) then
    select s.ids, s.verdicts, s.positions, s.busy_ms, s.ends into v_ids, v_verdicts, v_positions, v_busy, v_ends
    from settle_done(v_now, p_ids, p_tokens, p_data, p_waited_ms) s;
  else
    select s.ids, s.verdicts, s.positions, s.busy_ms, s.ends into v_ids, v_verdicts, v_positions, v_busy, v_ends
    from settle_mixed(p_ids, p_tokens, p_outcomes, p_delays_ms, p_data, p_waited_ms) s;
  end if;
  if v_ids is not null and (select l.feed from scheduler_lease l) then
    insert into settlement (at, positions, verdicts, busy_ms) values (v_now, v_positions, case when 'done' <> any (v_verdicts) then v_verdicts end, v_busy);
  end if;
  if v_ends is not null then
    perform note_ends(v_ends);
  end if;
  return query select x.id, x.verdict from unnest(v_ids, v_verdicts) as x (id, verdict);
  if p_repeat then
    return query
      select x.id, 'repeated'::text
      from unnest(p_ids, p_tokens, p_outcomes) as x (id, token, outcome)
      -- scalar subqueries can only be looked up; EXISTS under OR is hashed, from a scan of everything
      where x.id <> all (coalesce(v_ids, '{}')) -- without the ids of this call
        -- a job that was given back under this token, as its cancellation was asked for, is not done
        and ((select h.id from history h where h.id = x.id and h.token = x.token and (h.outcome = 'done') = (x.outcome = 'done') limit 1) is not null
             or (x.outcome <> 'done'
                 and ((select d.id from dead_letter d where d.id = x.id and d.token = x.token) is not null
                      or (select q.id from queue q where q.id = x.id and q.last_token = x.token) is not null)));
  end if;
end
$$;

-- Returns the given jobs that no other transaction has locked, that are gone, or whose lease has another token:
-- nothing holds up their settlement. Nor has any locked an older dead letter of the same id, which a death replaces.
-- A worker calls it when a settlement has met a lock: an application may hold a running job's row for as long as
-- its transaction is open.
--
-- Safe because: it changes nothing, waits for nothing, and its locks end with its transaction. It locks only jobs
-- whose token the caller has, which may settle them. Served by work_queue_id and the primary keys of queue and
-- dead_letter.
create function unlocked_jobs(p_ids uuid[], p_tokens uuid[]) returns setof uuid
  language sql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
as $$
  with leased as materialized (
    select w.id from work_queue w, unnest(p_ids, p_tokens) as x (id, token)
    where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token
  ),
  free as materialized (
    select q.id from queue q where q.id = any (p_ids) and q.id in (select l.id from leased l) order by q.id for update skip locked
  ),
  dead as materialized (
    select d.id from dead_letter d where d.id = any (p_ids) and d.id in (select l.id from leased l) order by d.id for update skip locked
  )
  select x.id from unnest(p_ids) as x (id)
  where x.id not in (select l.id from leased l)
    or ((x.id in (select f.id from free f) or (select q.id from queue q where q.id = x.id) is null)
        and (x.id in (select d.id from dead d) or (select d.id from dead_letter d where d.id = x.id) is null))
$$;

-- Ends attempts that are all done: a part of settle, whose settings plan it. A shorter way than settle_mixed
-- to the same rows.
create function settle_done(
  p_now timestamptz, p_ids uuid[], p_tokens uuid[], p_data text[], p_waited_ms float8[],
  out ids uuid[], out verdicts text[], out positions bigint[], out busy_ms float4[], out ends flow_end[])
  language plpgsql volatile
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_forgets boolean;
begin
  v_forgets := exists (select from queue_config c where c.retention = '0');
  with gone as (
    delete from work_queue w using unnest(p_ids, p_tokens, p_data, p_waited_ms) as i (id, token, data, waited_ms)
    where w.id = any (p_ids) and w.id = i.id and w.lock_token = i.token
    returning w.id, w.position, w.lock_key, w.lock_token, i.data,
      case when i.waited_ms > 0 and i.waited_ms <> 'NaN'
           then least(w.started + least(i.waited_ms, 3.2e11) * interval '1 millisecond', greatest(w.started, p_now))
           else w.started end as started
  ),
  ended as (
    delete from queue q using gone g
    where q.id = any (p_ids) and q.id = g.id
    returning q.id, q.queue, q.task, q.key, q.priority, q.tries, q.crashes, q.created, q.payload_version, q.unique_key, q.attributes,
              q.payload, q.errors, q.trace, q.flow, q.step, g.position, g.lock_key, g.lock_token, g.started, g.data
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, result, errors, trace, flow, step)
    select e.id, e.queue, e.task, e.key, e.priority, 'done', e.tries, e.crashes, e.created, e.started, p_now, e.payload_version, e.lock_key,
           e.lock_token, e.unique_key, e.attributes, e.payload, e.data::jsonb, e.errors, e.trace, e.flow, e.step
    from ended e
    where not v_forgets or coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  )
  select array_agg(e.id), array_agg(e.position), array_agg((date_part('epoch', p_now - e.started) * 1000)::float4),
         array_agg((e.flow, e.step, e.id, 'done', e.data, e.task)::flow_end) filter (where e.flow is not null)
  into ids, positions, busy_ms, ends from ended e;
  verdicts := array_fill('done'::text, array[coalesce(cardinality(ids), 0)]);
end
$$;

-- Ends attempts of any outcome: a part of settle, whose settings plan it.
create function settle_mixed(
  p_ids uuid[], p_tokens uuid[], p_outcomes text[], p_delays_ms float8[], p_data text[], p_waited_ms float8[],
  out ids uuid[], out verdicts text[], out positions bigint[], out busy_ms float4[], out ends flow_end[])
  language plpgsql volatile
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
begin
  with input as materialized (
    select x.id, x.token, x.outcome, least(greatest(coalesce(nullif(x.delay_ms, 'NaN'), 0), 0), 3.2e11) as delay_ms, x.data::jsonb as data,
           least(greatest(coalesce(nullif(x.waited_ms, 'NaN'), 0), 0), 3.2e11) * interval '1 millisecond' as waited
    from unnest(p_ids, p_tokens, p_outcomes, p_delays_ms, p_data, p_waited_ms) as x (id, token, outcome, delay_ms, data, waited_ms)
  ),
  gone as (
    delete from work_queue w using input i
    where w.id = any (p_ids) and w.id = i.id and w.lock_token = i.token
    returning w.id, w.position, w.lock_key, w.lock_token, greatest(w.started, least(w.started + i.waited, v_now)) as started, w.cancelled is not null as stop, i.outcome, i.delay_ms, i.data
  ),
  -- QUEUE is changed in two passes, and a pass may go by the order of items: so the locks are taken first, in the
  -- order of ids as everywhere. The key stays free: signal_job shares it, and may wait for a flow that the caller
  -- (suspend_job) has made.
  locked as materialized (
    select q.id from queue q where q.id = any (p_ids) and q.id in (select g.id from gone g) order by q.id for no key update
  ),
  ended as (
    delete from queue q using gone g
    where q.id = any (p_ids) and q.id = g.id and (select count(*) from locked) >= 0
      and (g.outcome in ('done', 'dead', 'cancelled') or (g.outcome in ('retry', 'snooze') and g.stop)
           or (g.outcome = 'retry' and q.tries + 1 >= q.max_tries))
    returning q.id, q.queue, q.task, q.key, q.priority, q.tries, q.max_tries, q.crashes, q.max_crashes, q.created, q.timeout, q.payload_version,
      q.unique_key, q.attributes, q.payload, q.retry, q.trace, q.flow, q.step, q.checkpoint, g.position, g.lock_key, g.lock_token, g.started, g.data, g.stop, g.outcome,
      case when g.outcome = 'dead' then 'gave_up' when g.outcome = 'retry' and not g.stop then 'max_tries' end as reason,
      case when g.outcome in ('retry', 'dead') then with_error(q.errors, g.data, g.lock_key, q.tries + 1, v_now) else q.errors end as all_errors
  ),
  again as (
    update queue q
    set run_after = v_now + g.delay_ms * interval '1 millisecond', last_token = g.lock_token,
        tries = q.tries + (g.outcome = 'retry')::integer,
        errors = case when g.outcome = 'retry' then with_error(q.errors, g.data, g.lock_key, q.tries + 1, v_now) else q.errors end,
        -- it pauses in the middle of its steps: what has begun does not expire, unless it was superseded meanwhile
        expires_at = case when g.outcome = 'retry' or q.checkpoint is null or q.expires_at <= g.started then q.expires_at end
    from gone g
    where q.id = any (p_ids) and q.id = g.id and not g.stop and (select count(*) from locked) >= 0
      and (g.outcome = 'snooze' or (g.outcome = 'retry' and q.tries + 1 < q.max_tries))
    returning q.id, g.position, g.started, g.outcome
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, result, errors, trace, flow, step, settings)
    select e.id, e.queue, e.task, e.key, e.priority, case when e.outcome = 'done' then 'done' else 'cancelled' end,
           e.tries + (e.outcome = 'retry')::integer, e.crashes, e.created, e.started, v_now, e.payload_version, e.lock_key,
           e.lock_token, e.unique_key, e.attributes, e.payload, case when e.outcome = 'done' then e.data end, e.all_errors, e.trace, e.flow, e.step,
           case when e.flow is not null and e.outcome <> 'done' then settings_of(e.timeout, e.max_tries, e.max_crashes, e.retry) end
    from ended e
    where e.reason is null
      and coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  ),
  buried as (
    insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                             timeout, payload_version, node, token, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint)
    select e.id, e.queue, e.task, e.key, e.priority, e.reason, e.tries + 1, e.max_tries, e.crashes, e.max_crashes, e.created,
           v_now, e.timeout, e.payload_version, e.lock_key, e.lock_token, e.unique_key, e.attributes, e.payload, e.retry,
           e.trace, e.all_errors, e.flow, e.step, e.checkpoint
    from ended e
    where e.reason is not null
    -- an id may be enqueued once more after its job died: the newer job's death must not fail because of the
    -- older row
    on conflict (id) do update
      set (queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
           token, unique_key, attributes, payload, retry, trace, errors, flow, step, checkpoint) =
          (excluded.queue, excluded.task, excluded.key, excluded.priority, excluded.reason, excluded.tries, excluded.max_tries, excluded.crashes, excluded.max_crashes, excluded.created,
           excluded.died, excluded.timeout, excluded.payload_version, excluded.node, excluded.token, excluded.unique_key, excluded.attributes, excluded.payload, excluded.retry,
           excluded.trace, excluded.errors, excluded.flow, excluded.step, excluded.checkpoint)
  ),
  settled (id, verdict, position, started, flow, step, result, task) as (
    select e.id, case when e.reason is not null then 'dead' when e.outcome = 'done' then 'done' else 'cancelled' end, e.position, e.started,
           e.flow, e.step, case when e.outcome = 'done' then e.data end, e.task
    from ended e
    union all
    select a.id, a.outcome, a.position, a.started, null, null, null, null from again a
  )
  select array_agg(v.id), array_agg(v.verdict), array_agg(v.position), array_agg((extract(epoch from v_now - v.started) * 1000)::float4),
         array_agg((v.flow, v.step, v.id, v.verdict, v.result, v.task)::flow_end) filter (where v.flow is not null)
  into ids, verdicts, positions, busy_ms, ends from settled v;
end
$$;

-- Appends one attempt's error, whose message is a text in any case; keeps the newest 100.
create function with_error(p_errors jsonb, p_error jsonb, p_node text, p_try integer, p_at timestamptz) returns jsonb
  language plpgsql stable
  set search_path from current
as $$
declare
  v_error jsonb := case when jsonb_typeof(p_error) = 'object' then p_error else jsonb_build_object('message', p_error) end;
begin
  if jsonb_typeof(v_error -> 'message') is distinct from 'string' then
    v_error := v_error || jsonb_build_object('message', coalesce(v_error ->> 'message', ''));
  end if;
  return (case when jsonb_array_length(coalesce(p_errors, '[]')) >= 100 then p_errors - 0 else coalesce(p_errors, '[]') end)
    || jsonb_build_array(v_error || jsonb_build_object('node', p_node, 'try', p_try, 'at', p_at));
end
$$;
