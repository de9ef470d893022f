-- Writes one plan under the leader's epoch: work items in the plan's order, and the parts of the policy's
-- state that changed. Returns the database's time, the positions of the work items in the order of p_ids,
-- separated by commas (of a batch once), and the ids that got none: those jobs were taken, locked, moved,
-- changed or ended since they were read.
-- p_versions: each row's xmin as it was read, so that no limit counts a job by facts that have changed; null:
-- unchecked. p_plan:
--   pool, pools  the pool of all jobs, or of each
--   together     numbers of the work items that are bundles, as the text of an array
--   rows         the number of each job's work item, from 1 on in their order, as the text of an array: jobs
--                of one number are a batch; absent: each job is by itself
--   front        move the front up, too (advance_front)
--   parts        {"part": state}: the parts of the policy's state that changed
--   settled      numbers of the rows of settlement that the plan has taken into account
--   wake         the pool, and the nodes of it to wake; absent: all
--   supposed     assumptions that the plan makes without a read (holds_true). If one is false, nothing is
--                written, and at_ms is null. So such a plan keeps to the limits as others do.
--
-- Exact: only the leader writes work items, and a leader whose write has an unknown outcome gives up its
-- epoch before it plans again. So the items that a plan counted as in flight, plus the items it writes, are
-- all there are.
-- Safe because: a job's row is locked before its work item is written (SKIP LOCKED never waits behind an
-- application's transaction). A job that has an item already is left out before the insert would meet it:
-- there it would wait for a settlement, which waits for this lock.
-- Batches are few and read whole, before the rows are locked: only a leader puts a job into a batch. The
-- limit tells the planner that they are few.
-- No "on conflict", which takes a fifth of the time: only a leader makes work items, two leaders wait for
-- each other (assert_leader) before the statements below take their snapshots, and the row of a job whose
-- item is being removed is locked.
-- Commits asynchronously: a crash of Postgres that loses the plan only makes its jobs pending again.
-- Served by queue's primary key and work_queue_id.
create function dispatch(p_leader text, p_epoch bigint, p_ids uuid[], p_versions xid[], p_plan jsonb, p_notify boolean)
  returns table (at_ms float8, positions text, missing uuid[])
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_ids uuid[];
  v_positions text := '';
  v_missing uuid[] := '{}';
  v_supposed jsonb := p_plan -> 'supposed';
  v_pool text := p_plan ->> 'pool';
  v_pools text[] := array(select jsonb_array_elements_text(p_plan -> 'pools'));
  v_together integer[] := p_plan ->> 'together';
  v_rows integer[] := p_plan ->> 'rows';
  v_batched uuid[] := '{}';
  v_made bigint;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  if v_supposed is not null and not holds_true(v_supposed) then
    return query select null::float8, '', p_ids;
    return;
  end if;
  v_now := clock_timestamp();
  if p_plan ? 'parts' then
    insert into policy_state as s (part, state, saved)
    select x.key, x.value, v_now from jsonb_each(p_plan -> 'parts') x
    on conflict (part) do update set state = excluded.state, saved = excluded.saved;
  end if;
  if p_plan ? 'front' then
    perform advance_front();
  end if;
  if p_plan ? 'settled' then
    delete from settlement where n = any (array(
      select x.n::bigint from jsonb_array_elements_text(p_plan -> 'settled') as x (n)));
  end if;
  if cardinality(p_ids) > 0 then
    if exists (select from work_queue w where w.jobs is not null and w.position >= batches_from()) then
      -- a hash of the plan's ids, which the jobs of batches are looked up in: far more may be in batches
      v_batched := array(
        select u.id from (select w.jobs from work_queue w where w.jobs is not null and w.position >= batches_from() limit 100000) b
        cross join lateral unnest(b.jobs) as u (id)
        where (u.id in (select x.id from unnest(p_ids) as x (id))) is true);
    end if;
    with grouped as (
      select p.row, case when count(*) = 1 then (array_agg(p.id))[1] end as id, case when count(*) > 1 then array_agg(p.id order by p.n) end as jobs,
             min(p.payload_version) as version, min(p.pool) as pool, min(p.task) as task, count(*) = 1 and bool_or(p.crashes > 0) as suspect,
             case when count(*) > 1 then max(p.timeout) end as timeout, count(*) as size
      from (
        select q.id, q.payload_version, q.task, q.timeout, q.crashes, coalesce(x.pool, v_pool) as pool, coalesce(x.row, x.n) as row, x.n
        from unnest(p_ids, v_pools, p_versions, v_rows) with ordinality as x (id, pool, version, row, n),
          lateral (
            select q.id, q.payload_version, q.task, q.timeout, q.crashes from queue q
            -- not "run_after is null": the planner would read the whole index of waiting jobs for each id, when
            -- it expects it to be empty
            where q.id = x.id and (x.version is null or q.xmin = x.version) and coalesce(q.run_after, '-infinity') = '-infinity'
              and (q.expires_at is null or q.expires_at > v_now)
              and (select w.id from work_queue w where w.id = q.id) is null and q.id <> all (v_batched)
            for update skip locked) q) p
      group by p.row
    ),
    made as (
      insert into work_queue (position, id, jobs, version, pool, task, dispatched, together, suspect, timeout)
      overriding system value
      -- positions for the parts of a batch that is taken apart: 2 * size + 1 of them behind its own
      select case when g.size <= 127 then nextval('work_queue_position_seq')
                  else (select min(nextval('work_queue_position_seq')) from generate_series(0, (2 * g.size + 1) / 256)) end,
             g.id, g.jobs, g.version, g.pool, g.task, v_now,
             case when g.size > 1 and g.row = any (v_together) then nextval('bundle_number') end, g.suspect, g.timeout
      from grouped g order by g.row
      returning id, jobs, position)
    select sum(coalesce(cardinality(m.jobs), 1)), string_agg(m.position::text, ',' order by m.position),
           case when sum(coalesce(cardinality(m.jobs), 1)) < cardinality(p_ids)
                then array(select u.id from made a cross join lateral unnest(coalesce(a.jobs, array[a.id])) as u (id)) end
    into v_made, v_positions, v_ids from made m;
    if coalesce(v_made, 0) < cardinality(p_ids) then
      v_missing := array(select unnest(p_ids) except select unnest(v_ids));
    end if;
    if p_notify and v_pool is not null then
      perform hint('work', coalesce(p_plan ->> 'wake', v_pool));
    elsif p_notify then
      perform hint('work', x.pool) from (select distinct unnest(v_pools) as pool) x;
    end if;
  end if;
  return query select extract(epoch from v_now)::float8 * 1000, coalesce(v_positions, ''), v_missing;
end
$$;

-- Tells whether the assumptions of a plan hold. p_supposed: {"ended": ids, "jobs": [...], "config": mark}.
--   ended   these jobs are gone, so they count for no limit
--   config  the settings of queues are still these (config_mark)
--   jobs    each of them waits, has the given values in all that a policy may read, and is the next of its
--           lane and priority behind the seq after: only other jobs of the list wait before it there, and no
--           job of its key waits for a retry or the end of a snooze
-- The assumptions come from hints, and any role that may NOTIFY can send one. Jobs in flight need no check:
-- the leader wrote all of them, and some may have ended since.
create function holds_true(p_supposed jsonb) returns boolean
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_ended uuid[] := array(select x.id::uuid from jsonb_array_elements_text(p_supposed -> 'ended') as x (id));
begin
  if config_mark() is distinct from p_supposed ->> 'config' or exists (select from queue q where q.id = any (v_ended)) then
    return false;
  end if;
  -- scalar subqueries, which can only be looked up: "exists" was planned as a join that reads a whole index
  return not exists (
    with job as materialized (
      select (x.job ->> 'id')::uuid as id, x.job ->> 'queue' as queue, x.job ->> 'key' as key, (x.job -> 'priority')::integer as priority,
             (x.job -> 'seq')::bigint as seq, (x.job -> 'after')::bigint as after, x.job
      from jsonb_array_elements(p_supposed -> 'jobs') as x (job)
    ),
    place as materialized (
      select j.queue collate "C" as queue, j.key collate "C" as key, j.priority, min(j.after) as after, max(j.seq) as seq from job j group by 1, 2, 3
    )
    select from job j
    where (
      select q.id from queue q
      where q.id = j.id and q.queue = j.queue and q.key = j.key and q.task = j.job ->> 'task'
        and q.payload_version = (j.job -> 'version')::integer and q.priority = j.priority and q.seq = j.seq
        and q.attributes = j.job -> 'attributes' and date_part('epoch', q.created) * 1000 = (j.job -> 'createdMs')::float8
        and coalesce(q.run_after, q.expires_at) is null and q.tries = 0 and q.crashes = 0 and q.flow is null) is null
    union all
    select from place p
    where (
        select q.id from queue q
        where q.queue = p.queue and q.key = p.key and q.run_after is not null and q.last_token is not null
        order by q.queue, q.key, q.run_after limit 1) is not null
      -- jobs in between must be in flight; the check reads 50 of them at most
      or (select count(*) = 50 or count(*) filter (where (select w.id from work_queue w where w.id = b.id) is null and not in_batch(b.id)) > 0
          from (
            select q.id from queue q
            where q.run_after is null and q.queue = p.queue and q.key = p.key and q.priority = p.priority
              and q.seq > p.after and q.seq < p.seq and q.id not in (select j.id from job j)
            order by q.queue, q.key, q.priority, q.seq limit 50) b));
end
$$;

-- Takes back work items that no node has leased: their jobs are pending again, and are planned anew. Returns
-- the jobs taken back; a node is claiming the others at this moment.
create function take_back(p_leader text, p_epoch bigint, p_ids uuid[]) returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  return query
    with gone as (
      delete from work_queue w
      where w.position = any (array(
        select r.position from work_queue r
        where r.jobs && p_ids and r.together is not null and r.lock_key is null and r.position >= batches_from() for update skip locked))
      returning w.jobs)
    select u.id from gone g cross join lateral unnest(g.jobs) as u (id);
  -- all but bundles without a lease: spread would wait for their jobs
  perform take_apart(array(
    select r.position from work_queue r
    where r.jobs is not null and (r.together is null or r.lock_key is not null) and r.position >= batches_from()
      and exists (select from unnest(r.jobs) as u (id) where (u.id in (select i.id from unnest(p_ids) as i (id))) is true)
    for update skip locked));
  return query
    delete from work_queue w
    where w.position = any (array(
      select r.position from work_queue r where r.id = any (p_ids) and r.lock_key is null for update skip locked))
    returning w.id;
end
$$;

-- Makes delayed jobs pending whose run_after has passed, up to p_max. next_due_ms: milliseconds until the
-- next one is due; null: none is delayed.
create function promote(p_leader text, p_epoch bigint, p_max integer)
  returns table (promoted integer, next_due_ms double precision)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  -- a constant for the query: an index can't be searched for a volatile function, so every delayed job would
  -- be read
  v_now timestamptz := clock_timestamp();
  v_count integer;
begin
  perform assert_leader(p_leader, p_epoch);
  v_count := make_due(array(
    select q.id from queue q where q.run_after <= v_now
    order by q.run_after limit p_max for update skip locked));
  return query
    select v_count, (
      select extract(epoch from q.run_after - clock_timestamp())::float8 * 1000 from queue q
      where q.run_after is not null order by q.run_after limit 1);
end
$$;
