-- pgqueue 0003: leadership, and the scheduler's read and write of a tick.
-- compatible: yes
--
-- Here and in the other hot functions, jit is off: up to PostgreSQL 17 a plan that can't avoid what enable_… = off forbids counts
-- as enormously dear, and is compiled at every call (a tick of 2,000 jobs took 1,400 ms instead of 60).

-- Takes or renews the scheduler's lease. A new leader gets a new epoch; every write names it.
create function lead(p_leader text, p_lease_ms integer)
  returns table (leads boolean, epoch bigint, leader text, expires_in_ms double precision)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
begin
  if p_leader is null or p_lease_ms is null or p_lease_ms < 1 then
    raise exception 'a leader has a name, and its lease a length' using errcode = '22023';
  end if;
  update scheduler_lease l
  set epoch = l.epoch + (case when l.leader is not distinct from p_leader and l.expires > v_now then 0 else 1 end),
      leader = p_leader, expires = v_now + p_lease_ms * interval '1 millisecond'
  where l.leader is not distinct from p_leader or l.expires <= v_now;
  return query
    select l.leader is not distinct from p_leader, l.epoch, l.leader, extract(epoch from l.expires - v_now)::float8 * 1000
    from scheduler_lease l;
end
$$;

-- Gives the lease up; a standby that listens takes over at once.
create function resign(p_leader text, p_epoch bigint) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  update scheduler_lease set leader = null, expires = '-infinity' where leader = p_leader and epoch = p_epoch;
  if not found then
    return false;
  end if;
  perform pg_notify(current_schema() || ':leader', '');
  return true;
end
$$;

-- Holds the lease row until commit: a standby that takes over waits for this transaction, and sees all of it. A leader
-- whose lease has run out, or whose epoch has passed, gets an error and writes nothing.
create function assert_leader(p_leader text, p_epoch bigint) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform from scheduler_lease l
  where l.leader = p_leader and l.epoch = p_epoch and l.expires > clock_timestamp() for share;
  if not found then
    raise exception 'scheduler % no longer leads in epoch %', p_leader, p_epoch
      using errcode = 'PQ002', hint = 'Another scheduler has taken over; this one goes back to standby.';
  end if;
end
$$;

-- What a tick needs beside its candidates, as one JSON value. Live nodes with the leases they hold, ready items by what it
-- takes to run them, and whether a sweep of leases or nodes would find anything (so that idle sweeps cost no query).
create function tick_overview() returns jsonb
  language sql volatile security definer
  set search_path from current
  set jit = off
as $$
  with working as materialized (
    select n.id, n.pool, n.slots, n.tasks, n.state, n.heartbeat > clock_timestamp() - n.lost_after_ms * interval '1 millisecond' as beats
    from node n where n.state in ('alive', 'draining')
  ),
  items as materialized (
    select w.pool, w.lock_key, case when w.lock_key is null then w.task end as task,
           case when w.lock_key is null then w.version end as version, count(*) as n, min(w.lock_timeout) as lock_timeout
    from work_queue w group by 1, 2, 3, 4
  )
  select jsonb_build_object(
    'now', extract(epoch from clock_timestamp()) * 1000,
    'nodes', coalesce((
      select jsonb_agg(jsonb_build_object('id', n.id, 'pool', n.pool, 'slots', n.slots, 'tasks', n.tasks, 'running',
                                          coalesce((select sum(i.n) from items i where i.lock_key = n.id), 0)) order by n.id)
      from working n where n.state = 'alive' and n.beats), '[]'),
    'ready', coalesce((
      select jsonb_agg(jsonb_build_object('pool', i.pool, 'task', i.task, 'version', i.version, 'count', i.n))
      from items i where i.lock_key is null), '[]'),
    'queues', coalesce((
      select jsonb_object_agg(c.queue, jsonb_build_object('paused', c.paused, 'pool', c.pool)) from queue_config c), '{}'),
    'expiredLeases', exists (select from items i where i.lock_timeout <= clock_timestamp()),
    'lostNodes', exists (select from working n where not n.beats)
      or exists (select from items i where i.lock_key is not null and i.lock_key not in (select n.id from working n)))
$$;

-- When the sweeps of waiting jobs and of schedules are next due, in milliseconds; null: not at all. A schedule that is not
-- planned yet is due now. Served by queue_due and queue_expiring.
create function tick_due() returns jsonb
  language sql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
  select jsonb_build_object(
    'promoteMs', (
      select extract(epoch from q.run_after - clock_timestamp())::float8 * 1000 from queue q
      where q.run_after is not null order by q.run_after limit 1),
    'expireMs', (
      select extract(epoch from q.expires_at - clock_timestamp())::float8 * 1000 from queue q
      where q.expires_at is not null and (select w.id from work_queue w where w.id = q.id and w.lock_key is not null) is null
      order by q.expires_at limit 1),
    'cronMs', (
      select extract(epoch from min(coalesce(s.next_slot, clock_timestamp())) - clock_timestamp())::float8 * 1000
      from schedule s where not s.paused))
$$;

-- The first few waiting jobs of the next keys of every queue that is not paused, so that a million jobs of one key cannot
-- hide another's one. p_cursors {"queue": "key served last"}: keys behind it come first (ring 0), then it wraps around (ring
-- 1). Every key looked at gives a row, with a null id where all its jobs are scheduled already.
-- p_want jobs are shared out over the keys found. p_starts {"queue": {"key": [priority, seq]}} begins the scan of one key
-- further on, p_lookahead jobs deep: how the scheduler gets past a long run of jobs that no live node can take.
-- Plans: queue_waiting for the skip scan and the heads; work_queue_id by a scalar subquery, which can only be looked up.
create function candidates(p_cursors jsonb, p_starts jsonb, p_want integer, p_keys integer, p_lookahead integer)
  returns table (n bigint, queue text, key text, ring integer, id uuid, seq bigint, priority integer, task text,
                 version integer, created timestamptz, attributes jsonb)
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
begin
  return query
  with recursive names (queue) as (
    (select q.queue from queue q where q.run_after is null order by q.queue limit 1)
    union all
    select (select q.queue from queue q where q.run_after is null and q.queue > names.queue order by q.queue limit 1)
    from names where names.queue is not null
  ),
  open as materialized (
    select names.queue, coalesce(p_cursors ->> names.queue, '') as served, p_starts -> names.queue as starts
    from names
    where names.queue is not null
      and not coalesce((select c.paused from queue_config c where c.queue = names.queue), false)
  ),
  -- the keys behind the cursor …
  behind (queue, key, n) as (
    select o.queue, (
      select q.key from queue q
      where q.run_after is null and q.queue = o.queue and q.key > o.served order by q.queue, q.key limit 1), 1
    from open o
    union all
    select b.queue, (
      select q.key from queue q
      where q.run_after is null and q.queue = b.queue and q.key > b.key order by q.queue, q.key limit 1), b.n + 1
    from behind b where b.key is not null and b.n < p_keys
  ),
  -- … and those up to it, as far as the page has room
  upto (queue, served, key, n) as (
    select o.queue, o.served, (
      select q.key from queue q
      where q.run_after is null and q.queue = o.queue and q.key <= o.served order by q.queue, q.key limit 1),
      1 + (select count(*) from behind b where b.queue = o.queue and b.key is not null)
    from open o
    union all
    select u.queue, u.served, (
      select q.key from queue q
      where q.run_after is null and q.queue = u.queue and q.key > u.key and q.key <= u.served
      order by q.queue, q.key limit 1), u.n + 1
    from upto u where u.key is not null and u.n < p_keys
  ),
  lanes as materialized (
    select b.queue, b.key, 0 as ring from behind b where b.key is not null
    union all
    select u.queue, u.key, 1 from upto u where u.key is not null and u.n <= p_keys
  ),
  depth as materialized (
    select greatest(1, ceil(p_want::float8 / greatest(1, count(*))))::integer as of_key from lanes
  )
  select row_number() over (), l.queue, l.key, l.ring, h.id, h.seq, h.priority, h.task, h.version, h.created, h.attributes
  from lanes l
  cross join lateral (
    select (o.starts -> l.key ->> 0)::integer as priority, (o.starts -> l.key ->> 1)::bigint as seq
    from open o where o.queue = l.queue) s
  left join lateral (
    select q.id, q.seq, q.priority, q.task, q.payload_version as version, q.created, q.attributes
    from queue q
    where q.run_after is null and q.queue = l.queue and q.key = l.key
      and (q.priority, q.seq) > (coalesce(s.priority, -2147483648), coalesce(s.seq, -1))
      and (q.expires_at is null or q.expires_at > clock_timestamp())
      and (select w.id from work_queue w where w.id = q.id) is null
    order by q.queue, q.key, q.priority, q.seq
    limit case when s.seq is null then (select of_key from depth) else greatest(p_lookahead, (select of_key from depth)) end
  ) h on true;
end
$$;

-- Writes one plan: work items in the plan's order, and the policy's state, under the leader's epoch. Returns the ids
-- that were scheduled; the others were taken, locked, moved or ended since the snapshot.
-- A job's row is locked before its work item is written (SKIP LOCKED: never waits behind an application's transaction). A job that
-- has an item already is left out before the insert would meet it: there it would wait for a settlement, which waits for this lock.
-- Commits asynchronously: a crash of Postgres that loses it only puts the jobs back to pending.
create function dispatch(p_leader text, p_epoch bigint, p_ids uuid[], p_pools text[], p_policy text, p_state jsonb, p_notify boolean)
  returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_batch bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  if p_state is not null then
    insert into policy_state as s (policy, epoch, state, saved) values (p_policy, p_epoch, p_state, clock_timestamp())
    on conflict (policy) do update set epoch = excluded.epoch, state = excluded.state, saved = excluded.saved;
  end if;
  if cardinality(p_ids) > 0 then
    v_batch := nextval('batch_number');
    return query
      insert into work_queue (batch, id, version, pool, task)
      select v_batch, q.id, q.payload_version, x.pool, q.task
      from unnest(p_ids, p_pools) with ordinality as x (id, pool, n),
        lateral (
          select q.id, q.payload_version, q.task from queue q
          -- not "run_after is null": that invites the index of all waiting jobs, read whole for each id while it is thought empty
          where q.id = x.id and coalesce(q.run_after, '-infinity') = '-infinity' and (q.expires_at is null or q.expires_at > clock_timestamp())
            and (select w.id from work_queue w where w.id = q.id) is null
          for update skip locked) q
      order by x.n
      on conflict (id) do nothing
      returning id;
    if p_notify then
      perform pg_notify(current_schema() || ':work', pool) from (select distinct unnest(p_pools) as pool) pools;
    end if;
  end if;
end
$$;

-- Jobs whose time has come leave delayed for pending.
create function promote(p_leader text, p_epoch bigint, p_max integer)
  returns table (promoted integer, next_due_ms double precision)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp(); -- the function itself is volatile: compared with it, every delayed job would be read
  v_count integer;
begin
  perform assert_leader(p_leader, p_epoch);
  update queue set run_after = null
  where id = any (array(
    select q.id from queue q where q.run_after <= v_now
    order by q.run_after limit p_max for update skip locked));
  get diagnostics v_count = row_count;
  return query
    select v_count, (
      select extract(epoch from q.run_after - clock_timestamp())::float8 * 1000 from queue q
      where q.run_after is not null order by q.run_after limit 1);
end
$$;
