-- Batches: rows of WORK_QUEUE that hold several jobs. A node claims and settles them whole (claim_rows,
-- settle_rows); every operation on one job of a batch takes the row apart first.

-- Tells whether a job is in a batch. Served by work_queue_batches.
create function in_batch(p_id uuid) returns boolean
  language plpgsql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  return exists (select from work_queue w where w.jobs is not null and w.position >= batches_from() and p_id = any (w.jobs));
end
$$;

-- Replaces batches by rows of single jobs with the same lease, or with none if the batch had none. With
-- p_ids, only those jobs get rows of their own, and the others stay together in a new row. Returns the
-- position of such a row, of the last of the batches.
-- A bundle without a lease has no rows of single jobs: its jobs in p_ids leave it, and wait in QUEUE again.
-- A job stays in at most one work item: this is one statement, and locks items before jobs, as settle does.
-- Positions, for a batch of n jobs at p: p + 1 to p + n for its jobs, p + n + 1 for the row of the others,
-- whose own parts follow up to p + 2 n. No position is used twice: jobs stay together only once, and when any
-- job is taken out of that row later, all of it is taken apart. A bundle without a lease moves on by one each
-- time, and has a job less.
create function take_apart(p_positions bigint[], p_ids uuid[] default null) returns bigint
  language sql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
  with gone as (
    delete from work_queue w where w.position = any (p_positions) and w.jobs is not null
    returning w.*, w.together is not null and w.lock_key is null as waits
  ),
  members as (
    select g.*, u.id as job, u.n,
           p_ids is null or u.id = any (p_ids) or (not g.waits and (g.position % 256 > 0 or cardinality(g.jobs) > 100)) as alone
    from gone g cross join lateral unnest(g.jobs) with ordinality as u (id, n)
  ),
  singles as (
    insert into work_queue (position, id, version, pool, task, dispatched, lock_key, lock_token, lock_timeout, started, together)
    overriding system value
    select m.position + m.n, m.job, m.version, m.pool, m.task, m.dispatched, m.lock_key, m.lock_token, m.lock_timeout, m.started, m.together
    from members m where m.alone and not m.waits order by m.position, m.n
  ),
  back as (
    update queue q set moved = true where q.id = any (array(select m.job from members m where m.alone and m.waits))
  ),
  rest as (
    insert into work_queue (position, jobs, version, pool, task, dispatched, lock_key, lock_token, lock_timeout, started, timeout, together)
    overriding system value
    select m.position + case when m.waits then 1 else cardinality(m.jobs) + 1 end, array_agg(m.job order by m.n), m.version, m.pool, m.task,
           m.dispatched, m.lock_key, m.lock_token, m.lock_timeout, m.started, m.timeout, m.together
    from members m where not m.alone
    group by m.position, m.jobs, m.version, m.pool, m.task, m.dispatched, m.lock_key, m.lock_token, m.lock_timeout, m.started, m.timeout, m.together,
             m.waits
    order by m.position
    returning position
  )
  select max(r.position) from rest r
$$;

-- Takes apart the batches that contain any of these jobs. Skips batches that another session has locked: it
-- is claiming, settling or taking them apart at this moment. A bundle without a lease goes on without the
-- jobs.
create function spread(p_ids uuid[]) returns void
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_positions bigint[];
  v_bundles bigint[];
begin
  select array_agg(x.position) filter (where not x.waits), array_agg(x.position) filter (where x.waits) into v_positions, v_bundles
  from (
    select w.position, w.together is not null and w.lock_key is null as waits from work_queue w
    where w.jobs is not null and w.position >= batches_from()
      and exists (select from unnest(w.jobs) as u (id) where u.id in (select i.id from unnest(p_ids) as i (id)))
    for update skip locked) x;
  if v_positions is not null then
    perform take_apart(v_positions);
  end if;
  if v_bundles is not null then
    perform take_apart(v_bundles, p_ids);
  end if;
end
$$;

-- Removes jobs that are gone or have expired from ready bundles before the claim. Returns p_positions with
-- the bundles' new positions.
create function fresh_bundles(p_positions bigint[], p_now timestamptz) returns bigint[]
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_positions bigint[] := p_positions;
  v_bundle record;
begin
  for v_bundle in
    select w.position, array_agg(u.id) as ids from work_queue w cross join lateral unnest(w.jobs) as u (id)
    where w.position = any (p_positions) and w.together is not null
      and (select q.id from queue q where q.id = u.id and (q.expires_at is null or q.expires_at > p_now)) is null
    group by w.position
  loop
    v_positions := array_replace(v_positions, v_bundle.position, take_apart(array[v_bundle.position], v_bundle.ids));
  end loop;
  return array_remove(v_positions, null);
end
$$;

-- Locks the first ready batches from a position on that a node can run; no bundles. p_next: none behind a ready
-- item of another kind, seen among the next p_max items: a node that takes batches beyond its slots must not
-- pass by a single job each time, which came first.
create function ready_batches(p_pool text, p_tasks jsonb, p_from bigint, p_max integer, p_next boolean) returns bigint[]
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
declare
  v_until bigint;
begin
  if p_next then
    v_until := (
      select min(r.position) from (
        select w.position, w.jobs is not null and w.together is null as batch from work_queue w
        where w.position >= p_from and w.lock_key is null and w.pool = p_pool
          and node_takes(p_tasks, w.task, w.version, w.suspect) and (w.together is null or p_tasks -> w.task -> 'batch' = 'true')
        order by w.position limit p_max) r
      where not r.batch);
  end if;
  return array(
    select w.position from work_queue w
    where w.jobs is not null and w.together is null and w.position >= greatest(p_from, batches_from()) and w.lock_key is null and w.pool = p_pool
      and w.position < coalesce(v_until, 9223372036854775807) and node_takes(p_tasks, w.task, w.version, false)
    order by w.position limit p_max for update skip locked);
end
$$;

-- Takes apart ready batches that a node can run: enough for p_jobs jobs, since each batch has at least two.
create function spread_ready(p_pool text, p_tasks jsonb, p_jobs integer) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_positions bigint[] := ready_batches(p_pool, p_tasks, 0, (p_jobs + 1) / 2, false);
begin
  if cardinality(v_positions) > 0 then
    perform take_apart(v_positions);
  end if;
end
$$;

-- Takes apart the batches that a node holds. Without p_wait, batches that another session has locked stay.
-- With p_wait none is left: take_out may hold the lock, and leave a row of remaining jobs that the query
-- before could not see.
create function spread_held(p_node text, p_wait boolean) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  while exists (select from work_queue w where w.jobs is not null and w.lock_key = p_node) loop
    if p_wait then
      perform take_apart(array(
        select w.position from work_queue w where w.jobs is not null and w.lock_key = p_node order by w.position for update));
    else
      perform take_apart(array(
        select w.position from work_queue w where w.jobs is not null and w.lock_key = p_node for update skip locked));
      return;
    end if;
  end loop;
end
$$;

-- Gives jobs of a batch that the node holds rows of their own, under the same token; all of them if p_ids is
-- null. Returns the position of the row that the other jobs are in; null: there is none. A batch that is not
-- held under that token stays as it is. Can be repeated: the row that an earlier call has left is found
-- behind the old position.
create function take_out(p_position bigint, p_token uuid, p_ids uuid[] default null) returns bigint
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v_position bigint;
begin
  select w.position into v_position from work_queue w
  where w.position between p_position and p_position + 101 and w.lock_token = p_token and w.jobs is not null for update;
  if v_position > p_position and p_ids is not null then
    return v_position;
  end if;
  return case when found then take_apart(array[v_position], p_ids) end;
end
$$;

-- Gives whole work items back unrun: they are ready again at their old position.
create function release_rows(p_positions bigint[], p_tokens uuid[]) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_count integer;
begin
  update work_queue w set lock_key = null, lock_token = null, lock_timeout = null, started = null
  from unnest(p_positions, p_tokens) as x (position, token)
  where w.position = any (p_positions) and w.position = x.position and w.lock_token = x.token and w.jobs is not null;
  get diagnostics v_count = row_count;
  if v_count > 0 then
    perform hint('work');
  end if;
  return v_count;
end
$$;

-- Ends batches whose jobs are all done, by the positions and tokens of the work items, so that no ids are
-- sent. p_sizes: the number of jobs of each batch. p_busy_ms: the run time of each job, in the order of the
-- batches and of the jobs in them. p_data: their results in the same order, null if none has one. Returns the
-- positions that were settled; a batch that is missing was lost, taken apart, or settled by an earlier call.
-- Exactly once because: the row goes by its token, and the jobs' end follows from the deleted row. A batch of
-- another size than its holder says is left alone, so that no result goes to another job.
-- Plans: as in settle; this is its shorter way for batches in which nothing failed.
create function settle_rows(p_positions bigint[], p_tokens uuid[], p_sizes integer[], p_busy_ms float4[], p_data text[] default null)
  returns bigint[]
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
  v_forgets boolean;
  v_feeds boolean := (select l.feed from scheduler_lease l);
  v_jobs bigint := (select sum(s.size) from unnest(p_sizes) as s (size));
  v_settled bigint[];
  v_sizes integer[];
  v_busy float4[];
  v_ends flow_end[];
begin
  if cardinality(p_positions) <> any (array[coalesce(cardinality(p_tokens), -1), coalesce(cardinality(p_sizes), -1)])
     or cardinality(p_busy_ms) is distinct from v_jobs or coalesce(cardinality(p_data), v_jobs) <> v_jobs then
    raise exception 'positions, tokens and sizes must be lists of one length, busy_ms and data as long as all sizes together' using errcode = '22023';
  end if;
  if exists (select from unnest(p_data) as x (data)
             where (octet_length(x.data) > 1000 or x.data ~ '[eE][-+]?[0-9]{3}') and not fits(x.data::jsonb, 1572864)) then
    raise exception 'a result is at most 1 MiB, nested 500 levels deep' using errcode = '22023';
  end if;
  v_forgets := exists (select from queue_config c where c.retention = '0');
  with given as materialized (
    select x.position, x.token, x.size, sum(x.size) over (order by x.n) - x.size as before
    from unnest(p_positions, p_tokens, p_sizes) with ordinality as x (position, token, size, n)
  ),
  gone as (
    delete from work_queue w using given g
    where w.position = any (p_positions) and w.position = g.position and w.lock_token = g.token and cardinality(w.jobs) = g.size
    returning w.position, w.jobs, w.lock_key, w.lock_token, w.started, g.before
  ),
  members as materialized (
    select g.lock_key, g.lock_token, g.started, u.id, (g.before + u.n)::integer as n,
           least(greatest(p_busy_ms[g.before + u.n], 0), 3.2e11)::float4 as busy_ms
    from gone g cross join lateral unnest(g.jobs) with ordinality as u (id, n)
  ),
  ended as (
    delete from queue q using members m
    where q.id = any (array(select x.id from members x)) and q.id = m.id
    returning q.id, q.queue, q.task, q.key, q.priority, q.tries, q.crashes, q.created, q.payload_version, q.unique_key, q.attributes,
              q.payload, q.errors, q.trace, q.flow, q.step, m.lock_key, m.lock_token, m.n,
              greatest(m.started, v_now - m.busy_ms * interval '1 millisecond') as started
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, result, errors, trace, flow, step)
    select e.id, e.queue, e.task, e.key, e.priority, 'done', e.tries, e.crashes, e.created, e.started, v_now, e.payload_version, e.lock_key,
           e.lock_token, e.unique_key, e.attributes, e.payload, p_data[e.n]::jsonb, e.errors, e.trace, e.flow, e.step
    from ended e
    where not v_forgets or coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  )
  select array_agg(g.position order by g.before), array_agg(cardinality(g.jobs) order by g.before),
         case when v_feeds then (select array_agg(m.busy_ms order by m.n) from members m) end,
         (select array_agg((e.flow, e.step, e.id, 'done', p_data[e.n], e.task)::flow_end) filter (where e.flow is not null) from ended e)
  into v_settled, v_sizes, v_busy, v_ends from gone g;
  if v_busy is not null then
    insert into settlement (at, positions, sizes, busy_ms) values (v_now, v_settled, v_sizes, v_busy);
  end if;
  if v_ends is not null then
    perform note_ends(v_ends);
  end if;
  return coalesce(v_settled, '{}');
end
$$;
