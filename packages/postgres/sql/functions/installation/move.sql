-- Moves of a key from one installation to another. A mover calls these in both, and any crash between two calls, or
-- within one, leaves a state from which the same calls in the same order go on:
--   old   claim_move   the move is noted; another one of the key is refused
--   new   hold_key     the leader here plans no job of the key; the route says the new home
--   old   leave_key    enqueues of routers are refused from now on, and come to the new home
--   old   hand_over    waiting jobs leave QUEUE, in slices; the old home works on from the other end of each lane
--   new   receive_jobs a slice comes into QUEUE, once
--   old   forget_slice
--   old   finish_move  none of the key's jobs is left
--   new   open_key     the move is over; the leader ends the hold by end_holds
-- A job is in one place at every commit, but for the time between receive_jobs and forget_slice, in which no leader
-- reads either copy: the one in the new home is held, the one in handover is in no QUEUE.
--
-- Jobs of flows stay with their flow, and so do jobs that have waited for flows or signals of their own: what they
-- waited for is in the tables of flows here.

-- Refuses a mover whose move is not under way: it has ended, or another one began.
create function assert_move(p_key text, p_side text, p_version bigint) returns key_move
  language plpgsql volatile
  set search_path from current
as $$
declare
  v_move key_move;
begin
  perform assert_read_committed();
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true); -- what the other installation has written relies on it
  end if;
  select m.* into v_move from key_move m
  where m.key = p_key and m.side = p_side and m.version = p_version and m.opened is null for update;
  if not found then
    raise exception 'there is no move % of key % with version %', p_side, p_key, p_version
      using errcode = 'PQ005', hint = 'Another mover has ended it, or begun another one.';
  end if;
  if v_move.advanced < clock_timestamp() - interval '10 seconds' then
    update key_move m set advanced = clock_timestamp() where m.key = p_key and m.side = p_side; -- its mover lives
  end if;
  return v_move;
end
$$;

-- Notes in the old home that a key is to move, unless a move of it is under way. Returns the move that stands,
-- {"side", "peer", "version"}, and the caller says whether it is its own. Null: the caller's routes are old.
create function claim_move(p_key text, p_to integer, p_version bigint) returns jsonb
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_move key_move;
begin
  perform from installation for update; -- a move that ends at this moment has ended, before the route is looked at
  insert into key_move (key, side, peer, version, held)
  select p_key, 'out', p_to, p_version, false
  where not exists (
    select from route r where r.key = p_key and r.version >= p_version
      and not (r.version = p_version and r.installation = p_to and r.state = 'moving'))
    and not exists (select from key_move m where m.key = p_key and m.opened is null)
  on conflict (key, side) do nothing;
  select m.* into v_move from key_move m where m.key = p_key and m.opened is null;
  return case when found then jsonb_build_object('side', v_move.side, 'peer', v_move.peer, 'version', v_move.version) end;
end
$$;

-- Takes back a claim before anything of its move was done. False: something was.
create function drop_claim(p_key text, p_version bigint) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  delete from key_move m where m.key = p_key and m.side = 'out' and m.version = p_version and m.seq is null;
  return found;
end
$$;

-- Holds a key in its new home, and writes the route to it. Returns the last number of a job before that, the same at
-- each call. Enqueues that come by the new route come after, and so do their numbers.
create function hold_key(p_key text, p_from integer, p_version bigint) returns bigint
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_move key_move;
begin
  perform from installation for update;
  insert into key_move (key, side, peer, version, held, seq)
  select p_key, 'in', p_from, p_version, true, (select case when s.is_called then s.last_value else 0 end from queue_seq_seq s)
  where not exists (
    select from route r where r.key = p_key and r.version >= p_version and not (r.version = p_version and r.state = 'moving'))
  on conflict (key, side) do update
    set peer = excluded.peer, version = excluded.version, seq = excluded.seq, started = excluded.started, advanced = excluded.advanced, opened = null
    where key_move.opened is not null;
  v_move := assert_move(p_key, 'in', p_version);
  perform set_route(p_key, i.number, p_version, p_from) from installation i;
  return v_move.seq;
end
$$;

-- Writes the route to the new home into the old one. Waits for enqueues of the key that are under way. p_seq: the
-- answer of hold_key.
create function leave_key(p_key text, p_version bigint, p_seq bigint) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_move key_move := assert_move(p_key, 'out', p_version);
begin
  perform set_route(p_key, v_move.peer, p_version, i.number) from installation i;
  update key_move m set seq = p_seq - (select case when s.is_called then s.last_value else 0 end from queue_seq_seq s)
  where m.key = p_key and m.side = 'out' and m.seq is null;
end
$$;

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

-- Finds up to p_max delayed jobs of a key, behind the place p_after. No index has them by key: it reads all delayed
-- jobs, along queue_due.
create function delayed_of_key(p_key text, p_after jsonb, p_max integer)
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
      and q.flow is null and (select f.id from flow f where f.waiter = q.id limit 1) is null
    order by q.run_after, q.id
    limit p_max;
end
$$;

-- Hands over one slice of a key's jobs: they leave QUEUE for handover. p_after: where the slice before ended, null at
-- the beginning of a pass; {"due"}: delayed jobs. p_last: also jobs that are ready, and the key is held here from now
-- on. Returns {"slice", "jobs", "next"}; next null: the pass is over. A pass leaves out jobs that other sessions have locked,
-- and those that come to wait behind its place, for the next one.
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
  v_slice uuid := gen_random_uuid();
  v_jobs integer;
begin
  if v_move.seq is null then
    raise exception 'key % has not left this installation', p_key using errcode = 'PQ005';
  end if;
  if p_after ? 'due' then
    select array_agg(d.id), array_agg(d.place) into v_found, v_places from delayed_of_key(p_key, p_after, p_max) d;
  else
    select array_agg(t.id), array_agg(t.place) into v_found, v_places from tail_of_key(p_key, p_after, p_max, p_last) t;
  end if;
  select array_agg(c.id) into v_ids
  from (
    select x.id, sum(octet_length(q.payload::text) + coalesce(octet_length(q.checkpoint::text), 0) + coalesce(octet_length(q.errors::text), 0))
                 over (order by x.n) as bytes, x.n
    from unnest(v_found) with ordinality as x (id, n) cross join lateral (select q.* from queue q where q.id = x.id offset 0) q) c
  where c.bytes <= 8388608 or c.n = 1;
  -- rows that were deleted meanwhile have no bytes, and do not shorten the slice
  if v_ids is not null and cardinality(v_ids) < cardinality(v_found) then
    v_places := v_places[: array_position(v_found, v_ids[cardinality(v_ids)])];
  end if;
  v_ids := array(select q.id from queue q where q.id = any (v_ids) order by q.id for update skip locked);
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
  return jsonb_build_object('slice', v_slice, 'jobs', v_jobs, 'next', case
    when cardinality(v_found) = p_max or cardinality(v_places) < cardinality(v_found) then v_places[cardinality(v_places)] end);
end
$$;

-- Reads a slice that is to go to the new home; p_slice null: any. jobs: a JSON list, null: there is none. Texts of JSON
-- all the way: as jsonb, reading a slice took as long as writing it. Served by handover's primary key.
create function next_slice(p_key text, p_slice uuid, out slice uuid, out jobs text)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_slice uuid := coalesce(p_slice, (select f.slice from handover f where f.key = p_key and f.n > 0 order by f.slice limit 1));
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
    order by j.task, j.unique_key, j.seq
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

-- Ends a move in the old home, if none of the key's jobs is left. Returns ended; or what is left: slices, waiting (it
-- may be ready), running, delayed.
-- Exact: later calls of hand_over are refused, so nothing that comes to wait here later leaves for a home that has
-- opened.
create function finish_move(p_key text, p_version bigint) returns text
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  perform assert_move(p_key, 'out', p_version);
  if exists (select from handover h where h.key = p_key) then
    return 'slices';
  elsif exists (select from tail_of_key(p_key, null, 1, true)) then
    return case when exists (
        select from tail_of_key(p_key, null, 100, true) t
        where (select w.id from work_item w where w.id = t.id and w.lock_key is not null limit 1) is null)
      then 'waiting' else 'running' end;
  elsif exists (select from delayed_of_key(p_key, '{}', 1)) then
    return 'delayed';
  end if;
  delete from key_move m where m.key = p_key and m.side = 'out';
  return 'ended';
end
$$;

-- Says in the new home that a move is over, and in the route that it is settled. The hold ends when the leader has seen
-- that, since it knows nothing of jobs that came before others. False: another mover has.
create function open_key(p_key text, p_version bigint) returns boolean
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
begin
  perform from installation for update;
  update key_move m set opened = clock_timestamp()
  where m.key = p_key and m.side = 'in' and m.version = p_version and m.opened is null;
  if not found then
    return false;
  end if;
  delete from handover h where h.key = p_key;
  perform set_route(p_key, i.number, p_version + 1) from installation i;
  perform pg_notify(current_schema() || ':queue', '');
  return true;
end
$$;

-- Ends the holds of keys whose moves are over: the leader has seen them, and its next plan reads their lanes anew.
create function end_holds(p_leader text, p_epoch bigint, p_keys text[]) returns void
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  delete from key_move m where m.key = any (p_keys) and m.side = 'in' and m.opened is not null;
end
$$;

-- Counts the jobs that a move would hand over, {"waiting", "delayed", "running"}, and those that would stay with their
-- flows, "stays". Reads all jobs.
create function count_key(p_key text) returns jsonb
  language sql stable security definer
  set search_path from current
as $$
  with leased as materialized (select w.id from work_item w where w.lock_key is not null)
  select jsonb_build_object(
    'waiting', count(*) filter (where c.goes and not c.runs and c.run_after is null),
    'delayed', count(*) filter (where c.goes and not c.runs and c.run_after is not null),
    'running', count(*) filter (where c.goes and c.runs),
    'stays', count(*) filter (where not c.goes))
  from (
    select q.run_after, q.flow is null and (select f.id from flow f where f.waiter = q.id limit 1) is null as goes,
           q.id in (select l.id from leased l) as runs
    from queue q where q.key = p_key) c
$$;

-- Lists keys that have jobs here which belong to no flow, in order behind p_after, up to p_max. Reads all jobs.
create function keys_here(p_after text, p_max integer) returns table (key text, jobs bigint)
  language sql stable security definer
  set search_path from current
  set jit = off
as $$
  select q.key::text, count(*) from queue q where q.key > p_after collate "C" and q.flow is null
  group by q.key order by q.key limit p_max
$$;
