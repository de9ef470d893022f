-- pgqueue 0018: the wait of suspects for a node of their own has an end, and is told; a node can ask what it holds.
-- compatible: yes (older schedulers and workers call the same functions)

alter table work_queue add column waits_since timestamptz;
comment on column work_queue.waits_since is 'Of a suspect that came back: since when. Null: since it was dispatched.';
update work_queue set waits_since = clock_timestamp() where suspect and lock_key is null;

-- For so long a suspect waits for a node that holds nothing.
create function suspect_wait() returns interval
  language sql immutable parallel safe
  set search_path from current
as $$
  select interval '60 seconds'
$$;

-- As in 0013; a suspect's wait begins.
create or replace function crash(p_positions bigint[], p_why text, p_wait boolean)
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
  v_ids uuid[] := array(select w.id from work_queue w where w.position = any (p_positions) and w.lock_key is not null);
  v_feed boolean := (select l.feed from scheduler_lease l);
begin
  if p_wait then
    perform from queue q where q.id = any (v_ids) order by q.id for update;
  else
    v_ids := array(select q.id from queue q where q.id = any (v_ids) for update skip locked)
      || array(select x.id from unnest(v_ids) x (id) where (select q.id from queue q where q.id = x.id) is null);
  end if;
  return query
  with lost as materialized (
    select w.position, w.id, w.lock_key, w.lock_token, w.started, w.dispatched, w.cancelled is not null as stop
    from work_queue w where w.position = any (p_positions) and w.id = any (v_ids) and w.lock_key is not null
  ),
  counted as (
    update queue q
    set crashes = q.crashes + 1,
        errors = with_error(q.errors, jsonb_build_object('kind', 'crash', 'message', p_why), l.lock_key, q.tries + 1, v_now)
    from lost l
    where q.id = any (v_ids) and q.id = l.id and not l.stop and q.crashes + 1 < q.max_crashes
    returning q.id
  ),
  ended as (
    delete from queue q using lost l
    where q.id = any (v_ids) and q.id = l.id and (l.stop or q.crashes + 1 >= q.max_crashes)
    returning q.*, l.lock_key, l.lock_token, l.started, l.dispatched, l.stop,
      with_error(q.errors, jsonb_build_object('kind', 'crash', 'message', p_why), l.lock_key, q.tries + 1, v_now) as all_errors
  ),
  freed as (
    update work_queue w
    set lock_key = null, lock_token = null, lock_timeout = null, started = null, progress = null, suspect = true,
        waits_since = v_now,
        ran_ms = extract(epoch from v_now - l.started) * 1000
    from lost l
    where w.position = any (p_positions) and w.position = l.position and l.id in (select c.id from counted c)
    returning w.id
  ),
  removed as (
    delete from work_queue w using lost l
    where w.position = any (p_positions) and w.position = l.position and l.id not in (select c.id from counted c)
    returning w.id
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, errors, trace, dispatched)
    select e.id, e.queue, e.task, e.key, e.priority, 'cancelled', e.tries, e.crashes + 1, e.created, e.started, v_now,
           e.payload_version, e.lock_key, e.lock_token, e.unique_key, e.attributes, e.payload, e.all_errors, e.trace, e.dispatched
    from ended e
    where e.stop and coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  ),
  buried as (
    insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                             timeout, payload_version, node, token, unique_key, attributes, payload, retry, trace, errors)
    select e.id, e.queue, e.task, e.key, e.priority, 'crash_limit', e.tries, e.max_tries, e.crashes + 1, e.max_crashes,
           e.created, v_now, e.timeout, e.payload_version, e.lock_key, e.lock_token, e.unique_key, e.attributes, e.payload,
           e.retry, e.trace, e.all_errors
    from ended e where not e.stop
    on conflict (id) do update
      set (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
           token, unique_key, attributes, payload, retry, trace, errors) = (select excluded.*)
  ),
  fed as (
    insert into settlement (at, positions, verdicts, busy_ms)
    select v_now, array_agg(l.position), array_agg('crash'::text), array_agg((extract(epoch from v_now - l.started) * 1000)::float4)
    from lost l where v_feed having count(*) > 0
  )
  select f.id, 'ready'::text from freed f
  union all
  select e.id, case when e.stop then 'cancelled' else 'dead' end from ended e;
end
$$;

-- As in 0016; a suspect's wait begins anew: it had its node.
create or replace function release(p_ids uuid[], p_tokens uuid[]) returns setof uuid
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
begin
  perform from work_queue w where w.id = any (p_ids) and w.lock_token = any (p_tokens) order by w.id for update;
  return query
    update work_queue w
    set lock_key = null, lock_token = null, lock_timeout = null, started = null, progress = null,
        waits_since = case when w.suspect then clock_timestamp() end
    from unnest(p_ids, p_tokens) as x (id, token)
    where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token and w.cancelled is null
    returning w.id;
  if found then
    perform pg_notify(current_schema() || ':work', '');
  end if;
  -- a cancellation is never taken back, so what the statement above passed over is here
  if exists (select from work_queue w where w.id = any (p_ids) and w.cancelled is not null) then
    return query
      select s.job_id
      from settle(p_ids, p_tokens, array_fill('cancelled'::text, array[cardinality(p_ids)]),
                  array_fill(null::float8, array[cardinality(p_ids)]), array_fill(null::text, array[cardinality(p_ids)])) s;
  end if;
end
$$;

-- As in 0013; and a suspect that has waited for suspect_wait() begins on any node that has a free slot, as others do. Not if its next crash
-- would be its last, and not beside one of that kind, so that still no job dies of another's crash; and 0.7 s apart from others on
-- the same node. It is given nothing beside it for half a minute, as ever (closed_for): what poison can strike is what ran there before.
-- One in its last life waits on. Nodes go on to make room for it, one at a time, and for twice as long each time, whichever node it
-- is: so it waits at most five times as long as the longest job of the node that becomes empty at last.
create or replace function find_suspect(p_node text, p_pool text, p_tasks jsonb) returns bigint
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_node node;
  v_item work_queue;
  v_due work_queue;
  v_last boolean;
  v_held bigint;
  v_others bigint;
  v_guarded boolean;
  v_since timestamptz;
  v_latest timestamptz;
  v_begins boolean;
begin
  select * into v_node from node n where n.id = p_node for update skip locked;
  if not found then
    return null;
  end if;
  select * into v_item from work_queue w
  where w.suspect and w.pool = p_pool and w.lock_key is null
    and p_tasks -> w.task -> 'isolated' is distinct from 'true'
    and w.version between (p_tasks -> w.task ->> 'min')::integer and (p_tasks -> w.task ->> 'max')::integer
    and (select q.id from queue q where q.id = w.id and (q.expires_at is null or q.expires_at > v_now)) is not null
    and (w.bundle is null or (select b.position from work_queue b where b.bundle = w.bundle and b.lock_key is not null limit 1) is null)
  order by w.ran_ms nulls first, w.position + 0 limit 1 for update skip locked;
  if not found then
    return null;
  end if;
  v_last := (select q.crashes + 1 >= q.max_crashes from queue q where q.id = v_item.id);
  with held as (select w.id, w.suspect, w.started from work_queue w where w.lock_key = p_node)
  select count(*), count(*) filter (where not h.suspect), min(h.started), max(h.started) filter (where h.suspect),
         bool_or(h.suspect and (select q.crashes + 1 >= q.max_crashes from queue q where q.id = h.id))
  into v_held, v_others, v_since, v_latest, v_guarded
  from held h;
  if v_guarded then
    return null;
  end if;
  v_begins := v_held = 0 or (v_others = 0 and not v_last and v_since <= v_now - interval '700 milliseconds');
  if not v_begins and coalesce(v_latest <= v_now - interval '700 milliseconds', true) then
    select * into v_due from work_queue w
    where w.suspect and w.pool = p_pool and w.lock_key is null
      and coalesce(w.waits_since, w.dispatched) not between v_now - suspect_wait() and v_now + interval '1 second'
      and p_tasks -> w.task -> 'isolated' is distinct from 'true'
      and w.version between (p_tasks -> w.task ->> 'min')::integer and (p_tasks -> w.task ->> 'max')::integer
      and (select q.id from queue q
           where q.id = w.id and q.crashes + 1 < q.max_crashes and (q.expires_at is null or q.expires_at > v_now)) is not null
      and (w.bundle is null or (select b.position from work_queue b where b.bundle = w.bundle and b.lock_key is not null limit 1) is null)
    order by w.ran_ms nulls first, w.position + 0 limit 1 for update skip locked;
    if found then
      v_item := v_due;
      v_begins := true;
    end if;
  end if;
  if v_begins then
    if v_item.bundle is not null then
      perform from work_queue w
      where w.position = (select min(b.position + 0) from work_queue b where b.bundle = v_item.bundle) for update skip locked;
      if not found or exists (select from work_queue b where b.bundle = v_item.bundle and b.lock_key is not null) then
        return null;
      end if;
    end if;
    return v_item.position;
  end if;
  if v_others = 0 and not v_last then
    return null; -- in its first moments another one stays alone
  end if;
  if v_node.alone = v_item.id then
    if v_node.alone_until > v_now then
      return 0;
    elsif v_node.alone_until + v_node.alone_ms * interval '1 millisecond' > v_now then
      return null;
    end if;
  end if;
  if exists (select from node n where n.alone = v_item.id and n.id <> p_node and n.state = 'alive' and n.alone_until > v_now) then
    return null;
  end if;
  v_node.alone_ms := least(2 * coalesce((select max(n.alone_ms) from node n where n.alone = v_item.id), 5000), 86400000);
  update node
  set alone = v_item.id, alone_ms = v_node.alone_ms, alone_until = v_now + v_node.alone_ms * interval '1 millisecond'
  where id = p_node;
  return 0;
end
$$;

-- Suspects that wait, by queue and pool: how many, of how many the next crash would be the last; the longest wait so far, and how long it
-- can last for those that don't wait without end.
create function waiting_suspects()
  returns table (queue text, pool text, jobs integer, last integer, waited_ms float8, left_ms float8)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select s.queue, s.pool, count(*)::integer, count(*) filter (where s.last)::integer,
         greatest(0, max(s.waited)) * 1000, max(greatest(0, s.wait - greatest(0, s.waited))) filter (where not s.last) * 1000
  from (select q.queue, w.pool, q.crashes + 1 >= q.max_crashes as last, extract(epoch from suspect_wait())::float8 as wait,
               extract(epoch from clock_timestamp() - coalesce(w.waits_since, w.dispatched))::float8 as waited
        from work_queue w join queue q on q.id = w.id
        where w.suspect and w.pool >= '' and w.lock_key is null
          and not exists (select from node n where n.pool = w.pool and n.state = 'alive' and n.tasks -> w.task -> 'isolated' = 'true')) s
  group by 1, 2 order by 1, 2
$$;

-- As in 0012; with what a suspect waits for.
create or replace function wait_facts(p_job uuid, p_ahead_max integer) returns jsonb
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  with one as materialized (
    select q.id, q.queue, q.key, q.priority, q.seq, q.task, q.payload_version, q.run_after, q.expires_at,
           w.position, w.lock_key, w.lock_timeout, w.started, w.cancelled, w.suspect, q.crashes, q.max_crashes,
           extract(epoch from clock_timestamp() - coalesce(w.waits_since, w.dispatched))::float8 as waited,
           coalesce(c.paused, false) as paused,
           coalesce(w.pool, c.pool, 'default') as pool, c.concurrency, c.key_concurrency, c.rate, c.rate_burst, c.key_rate,
           c.key_rate_burst, clock_timestamp() as now
    from queue q
    left join work_queue w on w.id = q.id
    left join queue_config c on c.queue = q.queue
    where q.id = p_job
  ),
  live as materialized (
    select n.slots, coalesce(n.tasks -> one.task -> 'isolated' = 'true', false) as isolated,
           coalesce(one.payload_version between (n.tasks -> one.task ->> 'min')::integer
                                            and (n.tasks -> one.task ->> 'max')::integer, false) as capable
    from one join node n on n.pool = one.pool and n.state = 'alive'
      and n.heartbeat > one.now - n.lost_after_ms * interval '1 millisecond'
  ),
  items as materialized (
    select w.pool, w.position, w.lock_key, coalesce(w.bundle, w.id) as unit, w.id <> one.id as other,
           (select q.key from queue q where q.id = w.id and q.queue = one.queue) as key
    from one, work_queue w
  )
  select jsonb_build_object(
    'paused', one.paused, 'pool', one.pool, 'expired', coalesce(one.expires_at <= one.now, false),
    'dueInMs', extract(epoch from one.run_after - one.now)::float8 * 1000,
    'startedAgoMs', extract(epoch from one.now - one.started)::float8 * 1000,
    'leaseEndsInMs', extract(epoch from one.lock_timeout - one.now)::float8 * 1000,
    'leader', (select l.leader from scheduler_lease l where l.expires > one.now),
    'nodes', (select count(*) from live),
    'capable', (select count(*) from live where capable),
    'slots', (select coalesce(sum(slots), 0) from live where capable),
    'running', (select count(i.lock_key) from items i where i.pool = one.pool),
    'ready', (select count(*) from items i where i.pool = one.pool and i.lock_key is null),
    'itemsAhead', (select count(*) from items i where i.pool = one.pool and i.lock_key is null and i.position < one.position),
    'queueInFlight', (select count(distinct i.unit) from items i where i.other and i.key is not null),
    'keyInFlight', (select count(distinct i.unit) from items i where i.other and i.key = one.key),
    'concurrency', one.concurrency, 'keyConcurrency', one.key_concurrency,
    'rate', case when one.rate is not null then jsonb_build_object('perSecond', one.rate, 'burst', one.rate_burst) end,
    'keyRate', case when one.key_rate is not null then jsonb_build_object('perSecond', one.key_rate, 'burst', one.key_rate_burst) end,
    'jobsAhead', case when one.run_after is null and one.lock_key is null then (
      select count(*) from (
        select from queue a
        where a.run_after is null and a.queue = one.queue and a.key = one.key and (a.priority, a.seq) < (one.priority, one.seq)
          and (select w.id from work_queue w where w.id = a.id and w.lock_key is not null) is null
        limit p_ahead_max) ahead) end,
    'nodeState', n.state, 'nodeBeatAgoMs', extract(epoch from one.now - n.heartbeat)::float8 * 1000,
    'cancelAsked', one.cancelled is not null,
    'suspect', case when one.suspect and one.lock_key is null and not exists (select from live where capable and isolated) then
      jsonb_build_object(
        'crashes', one.crashes, 'last', one.crashes + 1 >= one.max_crashes,
        'waitedMs', greatest(0, one.waited) * 1000,
        'leftMs', case when one.crashes + 1 < one.max_crashes then
          greatest(0, extract(epoch from suspect_wait())::float8 - greatest(0, one.waited)) * 1000 end,
        'madeRoom', (select jsonb_build_object('node', r.id, 'leftMs', extract(epoch from r.alone_until - one.now)::float8 * 1000,
                                               'running', (select count(*) from items i where i.lock_key = r.id))
                     from node r where r.alone = one.id and r.state = 'alive' and r.alone_until > one.now limit 1)) end)
  from one left join node n on n.id = one.lock_key
$$;

-- What a node holds, for itself: a settlement that was lost with a failover leaves a lease behind that its node has done with.
create function held_leases(p_node text, p_incarnation uuid) returns table (id uuid, token uuid)
  language sql stable security definer
  set search_path from current
  set jit = off
as $$
  select w.id, w.lock_token from work_queue w
  where w.lock_key = p_node and exists (select from node n where n.id = p_node and n.incarnation = p_incarnation)
$$;

-- Whoever might ask, or claim, may go on to.
do $$
declare
  v_grant record;
begin
  for v_grant in
    select a.grantee::regrole as role from pg_proc p, aclexplode(p.proacl) a
    where p.oid = 'wait_facts(uuid, integer)'::regprocedure and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function waiting_suspects() to %s', v_grant.role);
  end loop;
  for v_grant in
    select a.grantee::regrole as role from pg_proc p, aclexplode(p.proacl) a
    where p.oid = 'claim(text, uuid, integer, uuid, bigint)'::regprocedure and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function held_leases(text, uuid) to %s', v_grant.role);
  end loop;
end
$$;
