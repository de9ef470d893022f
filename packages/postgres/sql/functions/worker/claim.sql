-- Leases up to p_max ready items that the node can run, in dispatch order, and returns their jobs with
-- payloads. The caller draws a new p_token for each claim: with a job's id it names one lease. p_from: the
-- caller's low-water mark; items before it are not read. p_reap: if slots are left, expired leases are
-- reaped, and their jobs claimed like any other: this is how a node steals.
-- A bundle takes one of the p_max slots: its jobs are leased together, until the shortest of their timeouts,
-- and share "bundle". Only nodes get bundles whose registered tasks take them ("batch": true). Suspects come
-- before other jobs, as next_suspect permits. Batches are taken apart before (claim_rows gives them whole),
-- bundles after they are leased.
-- Safe because: one statement locks the items (SKIP LOCKED, in lease_items). The next one, with a newer
-- snapshot, leases them (lease_all) and reads their jobs as they are under the lock: every writer of a job
-- locks its item first. lock_timeout is by the database's clock, read once at the start. A node that was reset,
-- lost or replaced is refused by its incarnation. A job that was replaced, cancelled or delayed has no ready
-- item any more, so an old payload can't be read here.
-- A lease counts in seconds, ten years at most: no job's row can make the claim fail for all other jobs.
-- Plans: work_queue's primary key from p_from on, and queue's primary key. Jobs are joined by "= any
-- (array[...])": for a plain "=", PostgreSQL may also scan a whole index in its order, for a merge join: half a
-- second for ten jobs, in a session that planned its claim while no jobs existed, until the next ANALYZE.
create function claim(p_node text, p_incarnation uuid, p_max integer, p_token uuid default gen_random_uuid(), p_from bigint default 0,
                      p_reap boolean default true)
  returns table ("position" bigint, id uuid, token uuid, queue text, task text, key text, priority integer, attributes jsonb,
                 payload jsonb, payload_version integer, tries smallint, max_tries smallint, crashes smallint,
                 retry jsonb, trace jsonb, created timestamptz, lease_ms double precision, bundle bigint, checkpoint jsonb)
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
  v_leased bigint[] := lease_items(p_node, p_incarnation, p_token, jsonb_build_object('max', p_max, 'from', p_from, 'reap', p_reap, 'single', true));
begin
  return query
    select w.position, w.id, w.lock_token, q.queue, q.task, q.key, q.priority, q.attributes, q.payload, q.payload_version,
           q.tries, q.max_tries, q.crashes, q.retry, q.trace, q.created,
           date_part('epoch', w.lock_timeout - w.started) * 1000, w.together, q.checkpoint
    from work_queue w, queue q
    where w.position = any (v_leased) and q.id = any (array[w.id]);
end
$$;

-- Claims as claim does, but batches whole. Returns a row for each work item, with its jobs as one JSON text:
-- rows of columns take the reader three times as long. A list for each job: [id, queue, task, key, created,
-- payload] if the rest is as in most jobs, otherwise
--   [id, queue, task, key, priority, attributes, payload, payload_version, tries, max_tries, crashes, retry,
--    trace, created, timeout, checkpoint]
-- with null for no key, 0 and {}; created is in milliseconds, timeout in seconds. p_take, as one JSON object:
--   max    work items at most
--   ahead  batches at most beyond them, before the next item that is none; all have about 1,000 jobs at most
--   from   the caller's low-water mark; items before it are not read
--   reap   reap expired leases if slots are left
-- lease_ms: for a batch, 1 s more than the timeout of jobs without one of their own. suspect: see next_suspect.
create function claim_rows(p_node text, p_incarnation uuid, p_token uuid, p_take jsonb)
  returns table ("position" bigint, size integer, lease_ms float8, bundle bigint, jobs text, suspect boolean)
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
  v_leased bigint[] := lease_items(p_node, p_incarnation, p_token, p_take);
begin
  if v_leased = '{}' then return; end if; -- many claims find nothing, and need not begin the query below
  return query
    select w.position, coalesce(cardinality(w.jobs), 1), case when w.timeout is null or w.together is not null then date_part('epoch', w.lock_timeout - w.started) * 1000
             else 1000 + coalesce((select (n.tasks -> w.task ->> 'timeoutMs')::float8 from node n where n.id = p_node), 300000) end, w.together, (
      select '[' || string_agg(case when q.priority = 0 and q.payload_version = 1 and q.tries = 0 and q.crashes = 0 and q.max_tries = 20
          and q.attributes = '{}' and num_nulls(q.retry, q.trace, q.timeout, q.checkpoint) = 4
        then format('["%s",%s,%s,%s]', q.id, case when q.queue = h.queue and q.task = h.task and q.key = h.key then h.names
               else format('%s,%s,%s', to_json(q.queue), to_json(q.task), to_json(q.key)) end,
             floor(date_part('epoch', q.created) * 1000 + 0.0005), q.payload)
        else json_build_array(
               q.id, q.queue, q.task, nullif(q.key, ''), nullif(q.priority, 0), nullif(q.attributes, '{}'), q.payload, q.payload_version,
               nullif(q.tries, 0), q.max_tries, nullif(q.crashes, 0), q.retry, q.trace, floor(date_part('epoch', q.created) * 1000 + 0.0005),
               date_part('epoch', q.timeout), q.checkpoint)::text end, ',' order by u.n) || ']'
      from unnest(coalesce(w.jobs, array[w.id])) with ordinality as u (id, n), queue q
      where q.id = any (array[u.id])), w.suspect
    from work_queue w
    -- the names of most jobs of a batch, made once: for each job they would take a fifth of the time
    left join lateral (
      select b.queue, b.task, b.key, format('%s,%s,%s', to_json(b.queue), to_json(b.task), to_json(b.key)) as names
      from queue b where b.id = any (array[w.jobs[1]])) h on true
    where w.position = any (v_leased);
end
$$;

-- Takes the leases of a claim; returns the positions. p_take: as in claim_rows; with single, batches are
-- taken apart first, for callers that claim single jobs.
create function lease_items(p_node text, p_incarnation uuid, p_token uuid, p_take jsonb)
  returns bigint[]
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
  v_left integer := least((p_take ->> 'max')::integer, 10000);
  v_from bigint := greatest((p_take ->> 'from')::bigint, items_from());
  v_ahead integer := coalesce((p_take ->> 'ahead')::integer, 0);
  v_single boolean := coalesce((p_take ->> 'single')::boolean, false);
  v_positions bigint[];
  v_bundles bigint;
  v_batches bigint;
  v_suspect bigint;
  v_wary boolean := false;
  v_got bigint[];
  v_leased bigint[] := '{}';
begin
  if v_left is null or v_left < 0 then
    raise exception 'claim takes a number of jobs, not %', p_take -> 'max' using errcode = '22023';
  end if;
  select n.pool, n.tasks into v_pool, v_tasks
  from node n where n.id = p_node and n.incarnation = p_incarnation and n.state in ('alive', 'draining')
  for key share; -- a reset of this node waits for this claim, and then takes back what it leased
  if not found then
    raise exception 'node % is not registered as incarnation %', p_node, p_incarnation
      using errcode = 'PQ001', hint = 'It was reset, lost or replaced: register again, and drop what it was running.';
  end if;
  if v_single and v_left > 0 then
    perform spread_ready(v_pool, v_tasks, v_left);
  end if;
  for round in 1..3 loop
    v_suspect := null;
    if v_left > 0 and exists (select from work_queue w where w.suspect and w.pool = v_pool) then
      v_suspect := next_suspect(p_node, v_pool, v_tasks);
      v_left := v_left - (v_suspect is not null)::integer;
    end if;
    select array_agg(x.position), count(x.jobs), count(x.together) into v_positions, v_batches, v_bundles
    from (
      select r.position, r.together, case when r.jobs is not null then true end as jobs from work_queue r
      where r.position >= v_from and r.lock_key is null and r.pool = v_pool and (not v_single or r.jobs is null or r.together is not null)
        and node_takes(v_tasks, r.task, r.version, r.suspect) and (r.together is null or v_tasks -> r.task -> 'batch' = 'true')
        and (not v_wary or r.jobs is not null
             or (select j.id from queue j where j.id = r.id and (j.expires_at is null or j.expires_at > v_now)) is not null)
      order by r.position limit v_left for update skip locked) x;
    if v_bundles > 0 then
      v_bundles := cardinality(v_positions);
      v_positions := fresh_bundles(v_positions, v_now);
      v_bundles := v_bundles - cardinality(v_positions);
    end if;
    v_left := v_left - coalesce(cardinality(v_positions), 0);
    if v_suspect is not null then
      v_positions := v_suspect || v_positions;
    end if;
    if v_left <= 0 and v_ahead > 0 and round = 1 then
      v_positions := v_positions || ready_batches(v_pool, v_tasks, greatest(v_from, v_positions[cardinality(v_positions)] + 1), v_ahead, true);
      v_batches := 1;
    end if;
    if cardinality(v_positions) > 0 then
      if cardinality(v_positions) > 40 or v_batches > 0 then
        v_positions := within_bytes(v_positions, not v_single);
      end if;
      v_got := lease_all(p_node, p_token, v_positions, v_tasks, v_now);
      v_leased := v_leased || v_got;
      -- an item whose job is gone, or has expired, must not take the slot of one that can run
      if cardinality(v_got) < cardinality(v_positions) and not v_wary then
        v_left := v_left + cardinality(v_positions) - cardinality(v_got);
        v_wary := true;
        continue;
      end if;
    end if;
    continue when v_left > 0 and v_bundles > 0; -- none of the bundles was left with a job that can run
    exit when v_left <= 0 or not (p_take -> 'reap')::boolean or not exists (select from work_queue w where w.position >= v_from and w.lock_timeout <= v_now);
    exit when not exists (select from reap(greatest(v_left, 1000)));
  end loop;
  return case when v_single then single_rows(v_leased) else v_leased end;
end
$$;

-- Takes leased bundles apart, for callers that claim single jobs; returns all positions, with their jobs'.
create function single_rows(p_positions bigint[]) returns bigint[]
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_bundles bigint[] := array(select w.position from work_queue w where w.position = any (p_positions) and w.jobs is not null);
  v_ids uuid[];
begin
  if cardinality(v_bundles) = 0 then
    return p_positions;
  end if;
  v_ids := array(select u.id from work_queue w cross join lateral unnest(w.jobs) as u (id) where w.position = any (v_bundles));
  perform take_apart(v_bundles);
  return array(select w.position from work_queue w where w.position = any (p_positions))
      || array(select w.position from work_queue w where w.id = any (v_ids));
end
$$;

-- Writes the leases of a claim, whose items are locked; returns the positions of items whose jobs exist and
-- have not expired. A batch is leased for 1 s more than the longest timeout in it: its last job begins within
-- 250 ms, or is given back. A bundle for the shortest.
create function lease_all(p_node text, p_token uuid, p_positions bigint[], p_tasks jsonb, p_now timestamptz) returns bigint[]
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
  v_leased bigint[];
  v_batches bigint[];
begin
  -- along the primary key, so in the order of positions; "= any" of one leaves no other index for the join
  with leased as (
    update work_queue w
    set lock_key = p_node, lock_token = p_token, started = p_now,
        lock_timeout = p_now + least(3.2e8, coalesce(
          date_part('epoch', q.timeout), (p_tasks -> w.task ->> 'timeoutMs')::float8 / 1000, 300)) * interval '1 second'
    from queue q
    where w.position = any (p_positions) and q.id = any (array[w.id]) and (q.expires_at is null or q.expires_at > p_now)
    returning w.position)
  select array_agg(l.position) into v_leased from leased l;
  if coalesce(cardinality(v_leased), 0) < cardinality(p_positions) then
    with leased as (
      update work_queue w
      set lock_key = p_node, lock_token = p_token, started = p_now,
          lock_timeout = p_now + least(3.2e8, case when w.timeout is null then coalesce((p_tasks -> w.task ->> 'timeoutMs')::float8 / 1000, 300)
              + (w.together is null)::integer
            else (select case when w.together is null then 1 + max(x.s) else min(x.s) end
                  from (select coalesce(date_part('epoch', q.timeout), (p_tasks -> w.task ->> 'timeoutMs')::float8 / 1000, 300) as s
                        from queue q where q.id = any (w.jobs)) x) end) * interval '1 second'
      where w.position = any (p_positions) and w.jobs is not null
      returning w.position)
    select array_agg(l.position) into v_batches from leased l;
  end if;
  return coalesce(v_leased, '{}') || coalesce(v_batches, '{}');
end
$$;

-- Returns the first items whose jobs have 32 MiB of text between them: a claim must fit into memory. 40 jobs
-- of any size that check_job allows fit: claim asks for no fewer. Reading all jobs costs a third of the claim:
-- only if any payload is over 2 kB as stored, or for more than 1,000. p_few: leaves out those beyond instead.
create function within_bytes(p_positions bigint[], p_few boolean) returns bigint[]
  language plpgsql stable
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_some bigint[] := p_positions;
begin
  if p_few then
    v_some := array(
      select s.position
      from (select w.position, coalesce(cardinality(w.jobs), 1) as jobs, sum(coalesce(cardinality(w.jobs), 1)) over (order by w.position) as so_far
            from work_queue w where w.position = any (p_positions)) s
      where s.so_far - s.jobs < 1000);
  end if;
  if (p_few or cardinality(v_some) <= 1000)
     and pg_relation_size((select c.reltoastrelid from pg_class c where c.oid = 'queue'::regclass)) = 0 then
    return v_some;
  end if;
  return array(
    select s.position
    from (select w.position, b.bytes, sum(b.bytes) over (order by w.position) as bytes_so_far
          from work_queue w cross join lateral (
            select coalesce(sum(octet_length(q.payload::text) + coalesce(octet_length(q.checkpoint::text), 0)), 0) as bytes
            from queue q where q.id = any (coalesce(w.jobs, array[w.id]))) b
          where w.position = any (v_some)) s
    where s.bytes_so_far - s.bytes < 33554432);
end
$$;
