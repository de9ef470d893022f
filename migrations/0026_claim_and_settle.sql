-- pgqueue 0026: claim and settle take half of the time.
-- compatible: yes

-- A claim writes its rows anew, wider than they were by the node's name and a lease, and a page is claimed whole at one go: all of them must find
-- room in it. With 70, two thirds did not, and each of those cost two entries in indexes.
alter table work_queue set (fillfactor = 35);

-- Rows that are read once and deleted, and cost more to compress than to write. Of up to about 400 jobs they stay in the table.
alter table settlement set (toast_tuple_target = 8160);
alter table settlement
  alter positions set storage external,
  alter verdicts set storage external,
  alter busy_ms set storage external;

-- Whether there is any queue that keeps no history.
create index queue_config_forgets on queue_config (queue) where retention = '0';

-- As in 0013, but that jobs are looked up once instead of twice. The items are locked first, by a statement of their own: what the next one
-- reads of their jobs is what stands there then, since everyone who changes a job takes the lock of its item before. Only where that
-- finds fewer jobs than items, what else is there is taken with a look at each job before.
-- p_from: 0 or less: leases that have ended are looked for, too, and all from -p_from on.
create or replace function claim(p_node text, p_incarnation uuid, p_max integer, p_token uuid default gen_random_uuid(), p_from bigint default 0)
  returns table ("position" bigint, id uuid, token uuid, queue text, task text, key text, priority integer, attributes jsonb,
                 payload jsonb, payload_version integer, tries smallint, max_tries smallint, crashes smallint,
                 retry jsonb, trace jsonb, created timestamptz, lease_ms double precision, bundle uuid, checkpoint jsonb)
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_pool text;
  v_tasks jsonb;
  v_left integer := least(p_max, 10000);
  v_from bigint := abs(p_from);
  v_positions bigint[];
  v_bundles bigint;
  v_leases jsonb;
  v_alone uuid;
  v_until timestamptz;
  v_suspect bigint;
  v_wary boolean := false;
  v_single integer;
  v_got integer;
begin
  if p_max is null or p_max < 0 then
    raise exception 'claim takes a number of jobs, not %', p_max using errcode = '22023';
  end if;
  select n.pool, n.tasks, n.alone, n.alone_until into v_pool, v_tasks, v_alone, v_until
  from node n where n.id = p_node and n.incarnation = p_incarnation and n.state in ('alive', 'draining')
  for key share; -- a reset of this node waits for this claim, and then takes back what it leased
  if not found then
    raise exception 'node % is not registered as incarnation %', p_node, p_incarnation
      using errcode = 'PQ001', hint = 'It was reset, lost or replaced: register again, and drop what it was running.';
  end if;
  for round in 1..3 loop
    v_suspect := null;
    if v_left > 0 and exists (select from work_queue w where w.suspect and w.pool = v_pool) then
      v_suspect := find_suspect(p_node, v_pool, v_tasks);
      exit when v_suspect = 0 or (v_suspect is null and closed_for(p_node, v_pool, v_tasks, v_alone, v_until));
    end if;
    if v_suspect > 0 then
      v_positions := array[v_suspect];
      v_bundles := 0;
    else
      select array_agg(x.position), count(x.bundle) into v_positions, v_bundles
      from (
        select r.position, r.bundle from work_queue r
        where r.position >= v_from and r.lock_key is null and r.pool = v_pool
          and case when r.bundle is null then
            (not r.suspect or coalesce(v_tasks -> r.task -> 'isolated' = 'true', false))
            and r.version between (v_tasks -> r.task ->> 'min')::integer and (v_tasks -> r.task ->> 'max')::integer
            and (not v_wary or (select j.id from queue j where j.id = r.id and (j.expires_at is null or j.expires_at > v_now)) is not null)
          else
            (select b.position from work_queue b
             where b.bundle = r.bundle and (b.position + 0 < r.position or b.lock_key is not null) limit 1) is null
            and (select b.position from work_queue b
                 where b.bundle = r.bundle and b.batch = r.batch and b.task = r.task and b.pool = v_pool
                   and (not b.suspect or coalesce(v_tasks -> b.task -> 'isolated' = 'true', false))
                   and b.version between (v_tasks -> b.task ->> 'min')::integer and (v_tasks -> b.task ->> 'max')::integer
                   and (select j.id from queue j where j.id = b.id and (j.expires_at is null or j.expires_at > v_now)) is not null
                 limit 1) is not null
          end
        order by r.position limit v_left for update skip locked) x;
    end if;
    if v_positions is not null then
      v_left := v_left - cardinality(v_positions);
      v_single := cardinality(v_positions) - v_bundles;
      if v_bundles > 0 then
        with firsts as materialized (
          select w.position, w.batch, w.bundle, w.task from work_queue w where w.position = any (v_positions)
        ),
        units as materialized (
          select f.batch, f.bundle, f.task,
                 coalesce(v_tasks -> f.task -> 'batch' = 'true', false) and (
                   select m.position from work_queue m
                   where m.bundle = f.bundle and m.batch = f.batch and m.task = f.task and m.pool = v_pool and m.lock_key is null
                     and (not m.suspect or coalesce(v_tasks -> m.task -> 'isolated' = 'true', false))
                     and m.version between (v_tasks -> m.task ->> 'min')::integer and (v_tasks -> m.task ->> 'max')::integer
                     and (select (j.tries > 0 and j.tries + 1 >= j.max_tries) or (j.crashes > 0 and j.crashes + 1 >= j.max_crashes)
                          from queue j where j.id = m.id and (j.expires_at is null or j.expires_at > v_now)) = false
                   limit 1) is not null as together
          from firsts f where f.bundle is not null
        ),
        members as materialized (
          select u.bundle, m.position, m.timeout
          from units u cross join lateral (
            select m.position, (select coalesce(j.timeout, (v_tasks -> m.task ->> 'timeoutMs')::float8 * interval '1 millisecond', interval '5 minutes')
                                from queue j where j.id = m.id) as timeout
            from work_queue m
            where m.bundle = u.bundle and m.batch = u.batch and m.task = u.task and m.pool = v_pool and m.lock_key is null
              and (not m.suspect or coalesce(v_tasks -> m.task -> 'isolated' = 'true', false))
              and m.version between (v_tasks -> m.task ->> 'min')::integer and (v_tasks -> m.task ->> 'max')::integer
              and (select (j.tries > 0 and j.tries + 1 >= j.max_tries) or (j.crashes > 0 and j.crashes + 1 >= j.max_crashes)
                   from queue j where j.id = m.id and (j.expires_at is null or j.expires_at > v_now)) in (false, not u.together)
            limit case when u.together then 10000 else 1 end
            for update skip locked) m
        )
        select array(select f.position from firsts f where f.bundle is null union all select m.position from members m),
               (select jsonb_object_agg(s.bundle, s.timeout)
                from (select m.bundle, min(m.timeout) as timeout from members m group by m.bundle) s)
        into v_positions, v_leases;
      end if;
      -- along the primary key, and so in the order of positions
      return query
        update work_queue w
        set lock_key = p_node, lock_token = p_token, started = v_now,
            lock_timeout = v_now + coalesce(
              (v_leases ->> w.bundle::text)::interval, q.timeout,
              (v_tasks -> w.task ->> 'timeoutMs')::float8 * interval '1 millisecond', interval '5 minutes')
        from queue q
        where w.position = any (v_positions) and q.id = w.id and (q.expires_at is null or q.expires_at > v_now)
        returning w.position, w.id, p_token, q.queue, q.task, q.key, q.priority, q.attributes, q.payload, q.payload_version,
                  q.tries, q.max_tries, q.crashes, q.retry, q.trace, q.created,
                  date_part('epoch', w.lock_timeout - v_now) * 1000, w.bundle, q.checkpoint;
      get diagnostics v_got = row_count;
      -- an item whose job is gone, or has expired, must not take the place of one that can run
      if v_got < cardinality(v_positions) and v_suspect is null and not v_wary then
        v_left := v_left + least(v_single, cardinality(v_positions) - v_got);
        v_wary := true;
        continue;
      end if;
    end if;
    exit when v_suspect > 0 or v_left <= 0 or p_from > 0 or not exists (select from work_queue w where w.position >= abs(p_from) and w.lock_timeout <= v_now);
    -- all that have run out, not only what fits: a bundle can be claimed when the last of its leases has
    exit when not exists (select from reap(greatest(v_left, 1000)));
    v_from := abs(p_from);
  end loop;
end
$$;

-- As in 0022. A batch in which everything is done goes a shorter way to the same rows.
create or replace function settle(p_ids uuid[], p_tokens uuid[], p_outcomes text[], p_delays_ms float8[], p_data text[], p_repeat boolean default false,
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
  v_forgets boolean;
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
  if 'done' = all (p_outcomes) then
    v_forgets := exists (select from queue_config c where c.retention = '0');
    with gone as (
      delete from work_queue w using unnest(p_ids, p_tokens, p_data, p_waited_ms) as i (id, token, data, waited_ms)
      where w.id = any (p_ids) and w.id = i.id and w.lock_token = i.token
      returning w.id, w.position, w.lock_key, w.lock_token, w.dispatched, i.data,
        case when i.waited_ms > 0 and i.waited_ms <> 'NaN'
             then least(w.started + least(i.waited_ms, 3.2e11) * interval '1 millisecond', greatest(w.started, v_now))
             else w.started end as started
    ),
    ended as (
      delete from queue q using gone g
      where q.id = any (p_ids) and q.id = g.id
      returning q.id, q.queue, q.task, q.key, q.priority, q.tries, q.crashes, q.created, q.payload_version, q.unique_key, q.attributes,
                q.payload, q.errors, q.trace, g.position, g.lock_key, g.lock_token, g.started, g.dispatched, g.data
    ),
    kept as (
      insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                           node, token, unique_key, attributes, payload, result, errors, trace, dispatched)
      select e.id, e.queue, e.task, e.key, e.priority, 'done', e.tries, e.crashes, e.created, e.started, v_now, e.payload_version, e.lock_key,
             e.lock_token, e.unique_key, e.attributes, e.payload, e.data::jsonb, e.errors, e.trace, e.dispatched
      from ended e
      where not v_forgets or coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
    )
    select array_agg(e.id), array_agg(e.position), array_agg((date_part('epoch', v_now - e.started) * 1000)::float4)
    into v_ids, v_positions, v_busy from ended e;
    v_verdicts := array_fill('done'::text, array[coalesce(cardinality(v_ids), 0)]);
  else
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
  end if;
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
