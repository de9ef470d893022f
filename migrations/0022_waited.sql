-- pgqueue 0022: how long a job waited in its node.
-- compatible: yes

-- As in 0010. A node claims a little ahead of its slots; what a job waited there is no part of its run: it is neither charged to its key, nor shown.
alter function settle(uuid[], uuid[], text[], float8[], text[], boolean) rename to settle_before;

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
begin
  if exists (select from unnest(p_outcomes) o where o is null or o not in ('done', 'retry', 'dead', 'snooze', 'cancelled')) then
    raise exception 'unknown outcome in %', p_outcomes using errcode = '22023';
  end if;
  if cardinality(p_waited_ms) <> cardinality(p_ids) then
    raise exception 'waited_ms must be a list as long as ids, or none' using errcode = '22023';
  end if;
  -- a shorter list would be filled up with nulls: an item removed, and nothing done to its job
  if cardinality(p_ids) <> any (array[coalesce(cardinality(p_tokens), -1), coalesce(cardinality(p_outcomes), -1),
                                       coalesce(cardinality(p_delays_ms), -1), coalesce(cardinality(p_data), -1)]) then
    raise exception 'ids, tokens, outcomes, delays and data must be lists of one length' using errcode = '22023';
  end if;
  with input as materialized (
    select x.id, x.token, x.outcome, least(greatest(coalesce(nullif(x.delay_ms, 'NaN'), 0), 0), 3.2e11) as delay_ms, x.data::jsonb as data,
           least(greatest(coalesce(nullif(x.waited_ms, 'NaN'), 0), 0), 3.2e11) * interval '1 millisecond' as waited
    from unnest(p_ids, p_tokens, p_outcomes, p_delays_ms, p_data, p_waited_ms) as x (id, token, outcome, delay_ms, data, waited_ms)
  ),
  gone as (
    delete from work_queue w using input i
    where w.id = any (p_ids) and w.id = i.id and w.lock_token = i.token
    returning w.id, w.position, w.lock_key, w.lock_token, greatest(w.started, least(w.started + i.waited, v_now)) as started, w.dispatched, w.cancelled is not null as stop, i.outcome, i.delay_ms, i.data
  ),
  -- Where some jobs end and others go back, that is two passes over QUEUE: so their locks are taken first, in the order of ids
  -- that everyone keeps.
  locked as materialized (
    select q.id from queue q
    where p_outcomes && array['retry', 'snooze'] and q.id = any (p_ids) and q.id in (select g.id from gone g)
    order by q.id for update
  ),
  ended as (
    delete from queue q using gone g
    where q.id = any (p_ids) and q.id = g.id and (select count(*) from locked) >= 0
      and (g.outcome in ('done', 'dead', 'cancelled') or (g.outcome in ('retry', 'snooze') and g.stop)
           or (g.outcome = 'retry' and q.tries + 1 >= q.max_tries))
    returning q.*, g.position, g.lock_key, g.lock_token, g.started, g.dispatched, g.data, g.stop, g.outcome,
      case when g.outcome = 'dead' then 'gave_up' when g.outcome = 'retry' and not g.stop then 'max_tries' end as reason,
      case when g.outcome in ('retry', 'dead') then with_error(q.errors, g.data, g.lock_key, q.tries + 1, v_now) else q.errors end as all_errors
  ),
  again as (
    update queue q
    set run_after = v_now + g.delay_ms * interval '1 millisecond', last_token = g.lock_token,
        tries = q.tries + (g.outcome = 'retry')::integer,
        errors = case when g.outcome = 'retry' then with_error(q.errors, g.data, g.lock_key, q.tries + 1, v_now) else q.errors end
    from gone g
    where q.id = any (p_ids) and q.id = g.id and not g.stop and (select count(*) from locked) >= 0
      and (g.outcome = 'snooze' or (g.outcome = 'retry' and q.tries + 1 < q.max_tries))
    returning q.id, g.position, g.started, g.outcome
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, result, errors, trace, dispatched)
    select e.id, e.queue, e.task, e.key, e.priority, case when e.outcome = 'done' then 'done' else 'cancelled' end,
           e.tries + (e.outcome = 'retry')::integer, e.crashes, e.created, e.started, v_now, e.payload_version, e.lock_key,
           e.lock_token, e.unique_key, e.attributes, e.payload, case when e.outcome = 'done' then e.data end, e.all_errors, e.trace, e.dispatched
    from ended e
    where e.reason is null
      and coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  ),
  buried as (
    insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                             timeout, payload_version, node, token, unique_key, attributes, payload, retry, trace, errors)
    select e.id, e.queue, e.task, e.key, e.priority, e.reason, e.tries + 1, e.max_tries, e.crashes, e.max_crashes, e.created,
           v_now, e.timeout, e.payload_version, e.lock_key, e.lock_token, e.unique_key, e.attributes, e.payload, e.retry,
           e.trace, e.all_errors
    from ended e
    where e.reason is not null
    -- whoever enqueues the id of a dead job once more has a newer job: its death must not fail for the older one's
    on conflict (id) do update
      set (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
           token, unique_key, attributes, payload, retry, trace, errors) = (select excluded.*)
  ),
  verdicts (id, verdict, position, started) as (
  select e.id, case when e.reason is not null then 'dead' when e.outcome = 'done' then 'done' else 'cancelled' end, e.position, e.started
  from ended e
  union all
  select a.id, a.outcome, a.position, a.started from again a
  )
  select array_agg(v.id), array_agg(v.verdict), array_agg(v.position), array_agg((extract(epoch from v_now - v.started) * 1000)::float4)
  into v_ids, v_verdicts, v_positions, v_busy from verdicts v;
  if v_ids is not null and (select l.feed from scheduler_lease l) then
    insert into settlement (at, positions, verdicts, busy_ms) values (v_now, v_positions, v_verdicts, v_busy);
  end if;
  return query select x.id, x.verdict from unnest(v_ids, v_verdicts) as x (id, verdict);
  if p_repeat then
    return query
      select x.id, 'repeated'::text
      from unnest(p_ids, p_tokens) as x (id, token)
      -- scalar subqueries can only be looked up; EXISTS under OR is hashed, from a scan of everything
      where x.id <> all (coalesce(v_ids, '{}')) -- not those of this very call
        and ((select h.id from history h where h.id = x.id and h.token = x.token limit 1) is not null
             or (select d.id from dead_letter d where d.id = x.id and d.token = x.token) is not null
             or (select q.id from queue q where q.id = x.id and q.last_token = x.token) is not null);
  end if;
end
$$;

-- Whoever might call it may go on to.
do $$
declare
  v_grant record;
begin
  for v_grant in
    select a.grantee::regrole as role
    from pg_proc p, aclexplode(p.proacl) a
    where p.oid = 'settle_before(uuid[], uuid[], text[], float8[], text[], boolean)'::regprocedure and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function settle(uuid[], uuid[], text[], float8[], text[], boolean, float8[]) to %s', v_grant.role);
  end loop;
end
$$;
drop function settle_before(uuid[], uuid[], text[], float8[], text[], boolean);
