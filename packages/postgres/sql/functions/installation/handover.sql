-- Finds up to p_max waiting jobs of a key, from the end of its lanes: the old home works on at the other end. p_after:
-- the place of the last one found. p_ready: also those that have a work item. Served by queue_waiting, and flow_waiter.
create function tail_of_key(p_key text, p_after jsonb, p_max integer, p_ready boolean)
  returns table (id uuid, place jsonb)
  language plpgsql stable
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
  v_queue text := p_after ->> 'queue';
  v_priority integer := p_after -> 'priority';
  v_seq bigint := p_after -> 'seq';
  v_first text := coalesce(v_queue, (select q.queue from queue q where q.run_after is null order by q.queue desc, q.key desc limit 1));
begin
  return query
    with recursive
    names (queue) as (
      select v_first collate "C"
      union all
      select (select q.queue from queue q where q.run_after is null and q.queue < n.queue order by q.queue desc, q.key desc limit 1)
      from names n where n.queue is not null
    ),
    batched as materialized (
      select u.id from (select w.jobs from work_queue w where w.jobs is not null and w.position >= batches_from() limit 100000) b
      cross join lateral unnest(b.jobs) as u (id)
    )
    select j.id, jsonb_build_object('queue', j.queue, 'priority', j.priority, 'seq', j.seq)
    from names n cross join lateral (
      select q.id, q.queue, q.priority, q.seq
      from queue q
      where q.run_after is null and q.queue = n.queue and q.key = p_key
        and (q.priority, q.seq) < (case when n.queue = v_queue then v_priority else 2147483647 end,
                                   case when n.queue = v_queue then v_seq else 9223372036854775807 end)
        and q.flow is null and (select f.id from flow f where f.waiter = q.id limit 1) is null
        and (p_ready or ((select w.id from work_queue w where w.id = q.id) is null and q.id not in (select b.id from batched b)))
      order by q.queue desc, q.key desc, q.priority desc, q.seq desc
      limit p_max) j
    where n.queue is not null
    limit p_max;
end
$$;

-- Finds up to p_max delayed jobs of a key, behind the place p_after. p_retries: also those that have run, which in a
-- strict order hold up what waits behind them. No index has them by key: it reads all delayed jobs, along queue_due.
create function delayed_of_key(p_key text, p_after jsonb, p_max integer, p_retries boolean)
  returns table (id uuid, place jsonb)
  language plpgsql stable
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_due timestamptz := coalesce(p_after ->> 'due', '-infinity');
  v_id uuid := coalesce(p_after ->> 'id', '00000000-0000-0000-0000-000000000000');
begin
  return query
    select q.id, jsonb_build_object('due', q.run_after, 'id', q.id)
    from queue q
    where q.run_after is not null and q.run_after >= v_due and (q.run_after, q.id) > (v_due, v_id) and q.key = p_key
      and (p_retries or q.last_token is null)
      and q.flow is null and (select f.id from flow f where f.waiter = q.id limit 1) is null
    order by q.run_after, q.id
    limit p_max;
end
$$;

-- Hands over one slice of a key's jobs: they leave QUEUE for handover. p_after: where the slice before ended, null at
-- the beginning of a pass; {"due"}: delayed jobs. p_last: also jobs that are ready, and the key is held here from now
-- on. Returns {"jobs", "next"}; next null: the pass is over. A pass over the tail stops at a job that another session
-- has locked, and goes on from there: else those before it would leave, and it could run first. Other passes leave out
-- jobs that are locked, and all leave out those that come to wait behind their place, for the next one.
--
-- Safe because: a job's row is locked, and only then, by a new snapshot, it has no work item; dispatch skips rows that
-- are locked. Whichever locks the row first has the job. A slice takes at most 8 MiB of texts, or one job.
create function hand_over(p_key text, p_version bigint, p_after jsonb, p_max integer, p_last boolean) returns jsonb
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set intervalstyle = 'postgres'
as $$
declare
  v_move key_move := assert_move(p_key, 'out', p_version);
  v_found uuid[];
  v_places jsonb[];
  v_ids uuid[];
  v_free uuid[];
  v_locked integer;
  v_slice uuid := gen_random_uuid();
  v_jobs integer;
begin
  if v_move.seq is null then
    raise exception 'key % has not left this installation', p_key using errcode = 'PQ005';
  end if;
  if p_after ? 'due' then
    select array_agg(d.id), array_agg(d.place) into v_found, v_places from delayed_of_key(p_key, p_after, p_max, p_last) d;
  else
    select array_agg(t.id), array_agg(t.place) into v_found, v_places from tail_of_key(p_key, p_after, p_max, p_last) t;
  end if;
  select array_agg(c.id order by c.n) into v_ids
  from (
    select x.id, sum(octet_length(q.payload::text) + coalesce(octet_length(q.checkpoint::text), 0) + coalesce(octet_length(q.errors::text), 0))
                 over (order by x.n) as bytes, x.n
    from unnest(v_found) with ordinality as x (id, n) cross join lateral (select q.* from queue q where q.id = x.id offset 0) q) c
  where c.bytes <= 8388608 or c.n = 1;
  -- rows that were deleted meanwhile have no bytes, and do not shorten the slice
  if v_ids is not null and cardinality(v_ids) < cardinality(v_found) then
    v_places := v_places[: array_position(v_found, v_ids[cardinality(v_ids)])];
  end if;
  v_free := array(select q.id from queue q where q.id = any (v_ids) order by q.id for update skip locked);
  if not (p_last or coalesce(p_after ? 'due', false)) then
    select min(x.n) into v_locked from unnest(v_ids) with ordinality as x (id, n)
    where x.id not in (select f.id from unnest(v_free) as f (id)) and (select q.id from queue q where q.id = x.id) is not null;
    v_free := array(select x.id from unnest(v_ids) with ordinality as x (id, n)
                    where (v_locked is null or x.n < v_locked) and x.id in (select f.id from unnest(v_free) as f (id)));
    if v_locked is not null then
      v_places := v_places[: array_position(v_found, v_ids[v_locked]) - 1];
    end if;
  end if;
  v_ids := v_free;
  if p_last then
    v_ids := recall(v_ids);
  end if;
  with
  batched as materialized (
    select u.id from (select w.jobs from work_queue w where w.jobs is not null and w.position >= batches_from() limit 100000) b
    cross join lateral unnest(b.jobs) as u (id)
  ),
  gone as (
    delete from queue q
    where q.id = any (v_ids) and q.key = p_key and q.flow is null and (select f.id from flow f where f.waiter = q.id limit 1) is null
      and (select w.id from work_queue w where w.id = q.id) is null and q.id not in (select b.id from batched b)
    returning q.*
  ),
  handed as (
    insert into handover (key, slice, n, id, job)
    select p_key, v_slice, row_number() over (), j.id, row_to_json(j)
    from (select g.id, g.seq + v_move.seq as seq, g.run_after, g.expires_at, g.created, g.timeout, g.priority, g.payload_version, g.tries, g.max_tries,
                 g.crashes, g.max_crashes, g.queue, g.task, g.key, g.unique_key, g.attributes, g.payload, g.retry, g.trace, g.errors, g.last_token, g.checkpoint
          from gone g) j
    returning n
  )
  select count(*) into v_jobs from handed;
  if p_last and not v_move.held then
    update key_move m set held = true where m.key = p_key and m.side = 'out';
  end if;
  return jsonb_build_object('jobs', v_jobs, 'next', case
    when v_locked is not null then coalesce(v_places[cardinality(v_places)], p_after, '{}')
    when cardinality(v_found) = p_max or cardinality(v_places) < cardinality(v_found) then v_places[cardinality(v_places)] end);
end
$$;

-- Reads a slice that is to go to the new home. jobs: a JSON list, null: there is none. Texts of JSON all the way: as
-- jsonb, reading a slice took as long as writing it. Served by handover's primary key.
create function next_slice(p_key text, out slice uuid, out jobs text)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_slice uuid := (select f.slice from handover f where f.key = p_key and f.n > 0 order by f.slice limit 1);
begin
  select v_slice, '[' || string_agg(h.job::text, ',') || ']' into slice, jobs from handover h
  where h.key = p_key and h.slice = v_slice and h.n > 0;
end
$$;

-- Puts a slice into QUEUE, once: a mover that repeats it, or comes late, changes nothing. The jobs keep their ids, and
-- stand before those that came here since the route changed. A job whose id waits here already is that job. One whose
-- unique key another job has here comes without it: both will run, and the other one, which is newer, stays the one that
-- later enqueues find. Returns {"jobs", "known", "freed"}: how many came, were here, came without their unique key.
--
-- Safe because: the hold of the key is locked until the commit. So no leader has planned a job of an earlier slice, and
-- open_key comes before this, which then is refused, or after.
create function receive_jobs(p_key text, p_version bigint, p_slice uuid, p_jobs json) returns jsonb
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_came uuid[];
  v_left json;
  v_size integer := json_array_length(p_jobs);
  v_freed integer := 0;
begin
  perform assert_move(p_key, 'in', p_version);
  insert into handover (key, slice, n) values (p_key, p_slice, 0) on conflict do nothing;
  if not found then
    return '{"jobs": 0, "known": 0, "freed": 0}';
  end if;
  v_came := insert_moved(p_jobs);
  if cardinality(v_came) < v_size then
    select json_agg(x.job::jsonb || '{"unique_key": null}') into v_left
    from json_array_elements(p_jobs) as x (job)
    where x.job ->> 'id' not in (select c.id::text from unnest(v_came) as c (id))
      and (select q.id from queue q where q.id = (x.job ->> 'id')::uuid) is null;
    if v_left is not null then
      v_freed := cardinality(insert_moved(v_left));
    end if;
  end if;
  return jsonb_build_object('jobs', cardinality(v_came) + v_freed, 'known', v_size - cardinality(v_came) - v_freed, 'freed', v_freed);
end
$$;

-- Inserts jobs as they were, but those that conflict by id or by unique key; returns the inserted ones.
create function insert_moved(p_jobs json) returns uuid[]
  language sql volatile
  set search_path from current
as $$
  with came as (
    insert into queue (id, seq, run_after, expires_at, created, timeout, priority, payload_version, tries, max_tries, crashes, max_crashes,
                       queue, task, key, unique_key, attributes, payload, retry, trace, errors, last_token, checkpoint)
    overriding system value
    select j.id, j.seq, j.run_after, j.expires_at, j.created, j.timeout, j.priority, j.payload_version, j.tries, j.max_tries, j.crashes, j.max_crashes,
           j.queue, j.task, j.key, j.unique_key, j.attributes, coalesce(j.payload, 'null'), j.retry, j.trace, j.errors, j.last_token, j.checkpoint
    from json_populate_recordset(null::queue, p_jobs) j
    -- in the order of unique keys, as enqueue_unique
    order by j.task collate "default", j.unique_key collate "default", j.seq
    on conflict do nothing
    returning id)
  select coalesce(array_agg(c.id), '{}') from came c
$$;

-- Forgets a slice that the new home has.
create function forget_slice(p_key text, p_slice uuid) returns void
  language sql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
  delete from handover h where h.key = p_key and h.slice = p_slice
$$;
