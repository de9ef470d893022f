-- pgqueue 0013: jobs that may take their node down run alone; jobs that resume where they were.
-- compatible: yes (older schedulers and workers go on; what an older scheduler dispatches is not run alone)

-- A suspect is a job that was lost with its node before: crashes > 0.
alter table work_queue
  add column suspect boolean not null default false,
  add column ran_ms float8;
comment on column work_queue.suspect is 'Its job was lost with a node before: it begins on a node that holds nothing else.';
comment on column work_queue.ran_ms is 'How long the attempt had run that was lost.';
-- Empty most of the time, and nothing in it moves when an item is claimed: claims stay HOT updates.
create index work_queue_suspect on work_queue (pool) where suspect;

alter table node
  add column alone uuid,
  add column alone_until timestamptz,
  add column alone_ms integer check (alone_ms > 0);
comment on column node.alone is 'A suspect that it makes room for: until alone_until it claims nothing else.';

-- A long job's own resume data: goes to the next attempt, ends with the job.
alter table queue add column checkpoint jsonb;
-- not valid: there is none yet, so nothing has to be read
alter table queue add constraint queue_checkpoint_size check (pg_column_size(checkpoint) <= 262144) not valid;
comment on column queue.checkpoint is 'What an attempt left for the next one, by save_checkpoint.';

-- A new payload (an enqueue that replaces a waiting job) is another piece of work: the old one's resume data must not go with it.
create function drop_checkpoint() returns trigger
  language plpgsql
  set search_path from current
as $$
begin
  new.checkpoint := null;
  return new;
end
$$;
create trigger queue_checkpoint before update of payload on queue
  for each row when (old.checkpoint is not null and old.payload is distinct from new.payload) execute function drop_checkpoint();

-- Keeps resume data for the next attempt; null takes it back. False: the lease was lost, and nothing was changed.
-- The work item is locked before the job, as everywhere: a settlement or a takeover under way ends first, and this finds its token gone.
create function save_checkpoint(p_id uuid, p_token uuid, p_checkpoint jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  if pg_column_size(p_checkpoint) > 262144 then
    raise exception 'a checkpoint is at most 256 KiB' using errcode = '22023', hint = 'Store it elsewhere, and keep a reference.';
  end if;
  perform from work_queue w where w.id = p_id and w.lock_token = p_token for update;
  if not found then
    return false;
  end if;
  update queue q set checkpoint = nullif(p_checkpoint, 'null') where q.id = p_id;
  return found;
end
$$;

-- The end of an attempt whose own process or thread died, told by its node, which lives on: it counts as a crash. Returns ready, dead
-- (crash_limit) or cancelled; null: the lease was lost, and nothing was changed.
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
  select c.verdict into v_verdict from crash(array[v_position], left(p_why, 2000), true) c;
  if v_verdict = 'ready' then
    -- its crash cost nobody else anything
    update work_queue w set suspect = v_suspect where w.position = v_position;
    perform pg_notify(current_schema() || ':work', '');
  end if;
  return v_verdict;
end
$$;

-- As in 0010; an item that comes back from a lost node is a suspect's from then on.
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

-- As in 0010; the items of suspects are known by themselves.
create or replace function dispatch(p_leader text, p_epoch bigint, p_ids uuid[], p_pools text[], p_versions xid[], p_bundles uuid[],
                         p_parts jsonb, p_settled bigint[], p_notify boolean)
  returns table (at_ms float8, ids uuid[], positions bigint[])
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_batch bigint;
  v_now timestamptz;
  v_ids uuid[] := '{}';
  v_positions bigint[] := '{}';
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  v_now := clock_timestamp();
  if p_parts is not null then
    insert into policy_state as s (policy, epoch, state, saved)
    select x.key, p_epoch, x.value, v_now from jsonb_each(p_parts) x
    on conflict (policy) do update set epoch = excluded.epoch, state = excluded.state, saved = excluded.saved;
  end if;
  if cardinality(p_settled) > 0 then
    delete from settlement where n = any (p_settled);
  end if;
  if cardinality(p_ids) > 0 then
    v_batch := nextval('batch_number');
    with made as (
      insert into work_queue (batch, id, version, pool, task, dispatched, bundle, suspect)
      select v_batch, q.id, q.payload_version, x.pool, q.task, v_now, x.bundle, q.crashes > 0
      from unnest(p_ids, p_pools, p_versions, p_bundles) with ordinality as x (id, pool, version, bundle, n),
        lateral (
          select q.id, q.payload_version, q.task, q.crashes from queue q
          -- not "run_after is null": that invites the index of all waiting jobs, read whole for each id while it is thought empty
          where q.id = x.id and (x.version is null or q.xmin = x.version) and coalesce(q.run_after, '-infinity') = '-infinity'
            and (q.expires_at is null or q.expires_at > v_now)
            and (select w.id from work_queue w where w.id = q.id) is null
          for update skip locked) q
      order by x.n
      on conflict (id) do nothing
      returning id, position)
    select array_agg(m.id), array_agg(m.position) into v_ids, v_positions from made m;
    if p_notify then
      perform pg_notify(current_schema() || ':work', pool) from (select distinct unnest(p_pools) as pool) pools;
    end if;
  end if;
  return query select extract(epoch from v_now)::float8 * 1000, coalesce(v_ids, '{}'), coalesce(v_positions, '{}');
end
$$;

-- Whether a node claims no others, because of suspects that it runs or makes room for. The first 30 seconds tell most poison from
-- those that only happened to be there; a job whose next crash would be its last one has the node for itself to its end, so that no
-- other job's crash can be its death.
create function closed_for(p_node text, p_pool text, p_tasks jsonb, p_alone uuid, p_until timestamptz) returns boolean
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
begin
  return exists (
      select from work_queue w
      where w.suspect and w.pool = p_pool and w.lock_key = p_node and p_tasks -> w.task -> 'isolated' is distinct from 'true'
        and (w.started > clock_timestamp() - interval '30 seconds'
             or (select q.crashes + 1 >= q.max_crashes from queue q where q.id = w.id)))
    or (p_until > clock_timestamp()
        and (select w.id from work_queue w where w.id = p_alone and w.lock_key is null) is not null);
end
$$;

-- The suspect that a node is to claim now, by its position; it is locked, and the node's row with it. 0: the node claims nothing, so as to
-- become empty. Null: nothing is to be done about suspects.
--
-- A suspect begins alone, on a node that holds nothing; of several the one that had run for the shortest time, since poison strikes soon.
-- When that has gone well for 0.7 s, others that were suspected may join it: so the jobs of a node that died go on within a second or
-- two where only one other is left, however long they take. A job
-- whose next crash would be its last joins nobody, and nobody joins it.
-- Where no node is empty, one makes room: it claims nothing for 10 s. If that was not enough, it serves others for as long, and tries
-- again for twice the time; meanwhile another node may try. So a suspect finds its node wherever jobs end at all, and waiting for
-- it costs one node of a pool, for half of the time.
--
-- Safe because: the node's row is locked against its other claims (which hold it FOR KEY SHARE), so what it holds can't change. That
-- lock is not waited for: two claims of one node that both want it leave it to one of them.
-- A bundle has one node at a time (0011): its first item is locked, and then none of its items may be leased.
create function find_suspect(p_node text, p_pool text, p_tasks jsonb) returns bigint
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
  v_last boolean;
  v_held bigint;
  v_others bigint;
  v_guarded boolean;
  v_since timestamptz;
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
  select count(*), count(*) filter (where not h.suspect), min(h.started),
         bool_or(h.suspect and (select q.crashes + 1 >= q.max_crashes from queue q where q.id = h.id))
  into v_held, v_others, v_since, v_guarded
  from held h;
  if v_guarded then
    return null;
  end if;
  if v_held > 0 and v_others = 0 and not v_last and v_since > v_now - interval '700 milliseconds' then
    return null;
  end if;
  if v_held = 0 or (v_others = 0 and not v_last) then
    if v_item.bundle is not null then
      perform from work_queue w
      where w.position = (select min(b.position + 0) from work_queue b where b.bundle = v_item.bundle) for update skip locked;
      if not found or exists (select from work_queue b where b.bundle = v_item.bundle and b.lock_key is not null) then
        return null;
      end if;
    end if;
    return v_item.position;
  end if;
  if v_node.alone is distinct from v_item.id then
    v_node.alone_ms := 5000;
  elsif v_node.alone_until > v_now then
    return 0;
  elsif v_node.alone_until + v_node.alone_ms * interval '1 millisecond' > v_now then
    return null;
  end if;
  if exists (select from node n where n.alone = v_item.id and n.id <> p_node and n.state = 'alive' and n.alone_until > v_now) then
    return null;
  end if;
  v_node.alone_ms := least(v_node.alone_ms * 2, 86400000);
  update node
  set alone = v_item.id, alone_ms = v_node.alone_ms, alone_until = v_now + v_node.alone_ms * interval '1 millisecond'
  where id = p_node;
  return 0;
end
$$;

-- Whether any job of a work item is a suspect: by their own index, where a scheduler's tick walks over all items anyway.
create function has_suspects() returns boolean
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
begin
  return exists (select from work_queue w where w.suspect and w.pool >= '');
end
$$;

-- As in 0010; a node that claims nothing because of a suspect has no slots meanwhile, and suspects that wait for an empty node take no place
-- of others: they are in flight, under a node's id that no node can have.
create or replace function tick_state(p_settled boolean) returns jsonb
  -- not in SQL: until PostgreSQL 18 its plan is made at every call
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
declare
  v_suspects boolean := has_suspects();
begin
  return (
  with working as materialized (
    select n.id, n.pool, n.tasks, n.state,
           case when v_suspects and closed_for(n.id, n.pool, n.tasks, n.alone, n.alone_until) then 0 else n.slots end as slots,
           n.heartbeat > clock_timestamp() - n.lost_after_ms * interval '1 millisecond' as beats
    from node n where n.state in ('alive', 'draining')
  ),
  items as materialized (
    select w.pool, coalesce(w.lock_key, case when w.suspect then '' end) as lock_key, array_agg(w.position) as positions, min(w.lock_timeout) as lock_timeout
    from work_queue w group by 1, 2
  )
  select jsonb_build_object(
    'now', extract(epoch from clock_timestamp()) * 1000,
    'nodes', coalesce((
      select jsonb_agg(jsonb_build_object('id', n.id, 'pool', n.pool, 'slots', n.slots, 'tasks', n.tasks) order by n.id)
      from working n where n.state = 'alive' and n.beats), '[]'),
    'items', coalesce((
      select jsonb_agg(jsonb_build_object('pool', i.pool, 'node', i.lock_key, 'positions', to_jsonb(i.positions))) from items i), '[]'),
    'queues', coalesce((
      select jsonb_object_agg(c.queue, jsonb_build_object(
        'paused', c.paused, 'pool', c.pool, 'concurrency', c.concurrency, 'keyConcurrency', c.key_concurrency,
        'rate', case when c.rate is not null then jsonb_build_object('perSecond', c.rate, 'burst', c.rate_burst) end,
        'keyRate', case when c.key_rate is not null then jsonb_build_object('perSecond', c.key_rate, 'burst', c.key_rate_burst) end,
        'weight', c.weight)) from queue_config c), '{}'),
    'settled', case when p_settled then coalesce((
      select jsonb_agg(jsonb_build_object('n', s.n, 'atMs', extract(epoch from s.at) * 1000, 'positions', to_jsonb(s.positions),
                                          'verdicts', to_jsonb(s.verdicts), 'busyMs', to_jsonb(s.busy_ms)) order by s.n)
      from (select * from settlement s order by s.n limit 500) s), '[]') else '[]' end,
    'expiredLeases', exists (select from items i where i.lock_timeout <= clock_timestamp()),
    'lostNodes', exists (select from working n where not n.beats)
      or exists (select from items i where i.lock_key <> '' and i.lock_key not in (select n.id from working n))));
end
$$;

alter function claim(text, uuid, integer, uuid, bigint) rename to claim_before;

-- As in 0011, with a job's checkpoint; and suspects are claimed by themselves (find_suspect says when). A node that runs its task in a process of its
-- own ("isolated": true, in the tasks that it registered with) takes it like any other: a crash there costs no other job.
-- That suspects wait is asked of an index that is empty most of the time.
create function claim(p_node text, p_incarnation uuid, p_max integer, p_token uuid default gen_random_uuid(), p_from bigint default 0)
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
  v_from bigint := p_from;
  v_positions bigint[];
  v_bundles bigint;
  v_leases jsonb;
  v_alone uuid;
  v_until timestamptz;
  v_suspect bigint;
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
  for round in 1..2 loop
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
            -- an item whose job is gone, or has expired, must not take the place of one that can run
            and (select j.id from queue j where j.id = r.id and (j.expires_at is null or j.expires_at > v_now)) is not null
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
      return query
        with leased as (
          update work_queue w
          set lock_key = p_node, lock_token = p_token, started = v_now,
              lock_timeout = v_now + coalesce(
                (v_leases ->> w.bundle::text)::interval, q.timeout,
                (v_tasks -> w.task ->> 'timeoutMs')::float8 * interval '1 millisecond', interval '5 minutes')
          from queue q
          where w.position = any (v_positions) and q.id = w.id and (q.expires_at is null or q.expires_at > v_now)
          returning w.position, w.id, w.lock_timeout, w.bundle, q.queue, q.task, q.key, q.priority, q.attributes, q.payload,
                    q.payload_version, q.tries, q.max_tries, q.crashes, q.retry, q.trace, q.created, q.checkpoint)
        select l.position, l.id, p_token, l.queue, l.task, l.key, l.priority, l.attributes, l.payload, l.payload_version,
               l.tries, l.max_tries, l.crashes, l.retry, l.trace, l.created,
               extract(epoch from l.lock_timeout - v_now)::float8 * 1000, l.bundle, l.checkpoint
        from leased l order by l.position;
    end if;
    exit when v_suspect > 0 or v_left <= 0 or p_from > 0 or not exists (select from work_queue w where w.position >= 0 and w.lock_timeout <= v_now);
    -- all that have run out, not only what fits: a bundle can be claimed when the last of its leases has
    exit when not exists (select from reap(greatest(v_left, 1000)));
    v_from := 0;
  end loop;
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
    where p.oid = 'claim_before(text, uuid, integer, uuid, bigint)'::regprocedure and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function claim(text, uuid, integer, uuid, bigint) to %s', v_grant.role);
    execute format('grant execute on function save_checkpoint(uuid, uuid, jsonb), crash_job(uuid, uuid, text) to %s', v_grant.role);
  end loop;
end
$$;
drop function claim_before(text, uuid, integer, uuid, bigint);

comment on column node.tasks is
  'What it can run: {"task": {"min": 1, "max": 3, "timeoutMs": 60000, "batch": true, "isolated": true}}, payload versions from min to max; batch: takes bundles whole; isolated: in processes of their own.';

-- As in 0009; two more things that everyone may know.
create or replace view job as
  select q.id, case when w.id is null and q.run_after is not null then 'delayed' when w.id is null then 'pending'
                    when w.lock_key is null then 'ready' else 'running' end as status,
         q.queue, q.task, q.key, q.priority, q.attributes, q.tries, q.max_tries, q.crashes, q.max_crashes, q.run_after,
         q.expires_at, q.timeout, q.unique_key, q.payload_version, q.trace, q.created, w.batch, w.position, w.pool,
         w.lock_key as node, w.started, w.lock_timeout, w.cancelled, w.progress, null::timestamptz as finished,
         null::text as reason, q.errors -> -1 as last_error, q.errors,
         q.checkpoint is not null as has_checkpoint, coalesce(w.suspect, q.crashes > 0) as suspect
  from queue q left join work_queue w on w.id = q.id
  union all
  select d.id, 'dead', d.queue, d.task, d.key, d.priority, d.attributes, d.tries, d.max_tries, d.crashes, d.max_crashes, null,
         null, d.timeout, d.unique_key, d.payload_version, d.trace, d.created, null, null, null,
         d.node, null, null, null, null, d.died, d.reason, d.errors -> -1, d.errors, false, false
  from dead_letter d
  union all
  select h.id, h.outcome, h.queue, h.task, h.key, h.priority, h.attributes, h.tries, null, h.crashes, null, null,
         null, null, h.unique_key, h.payload_version, h.trace, h.created, null, null, null,
         h.node, h.started, null, null, null, h.finished, null, h.errors -> -1, h.errors, false, false
  from history h;

