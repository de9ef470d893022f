-- Moves of a key from one installation to another. A mover calls these in both, and any crash between two calls, or
-- within one, leaves a state from which the same calls in the same order go on:
--   old   claim_move   the move is noted; another one of the key is refused
--   new   hold_key     the leader here plans no job of the key
--   old   leave_key    the route says the new home: enqueues of routers are refused from now on, and come there
--   new   set_route    the copy of that route
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
  perform assert_read_committed('a move of keys');
  perform commit_durably();
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

-- Holds a key in its new home. Returns the last number of a job before that, the same at each call. Enqueues come here
-- after leave_key alone: a router that heard of the move sooner would overtake one that has not, and enqueues there.
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
    -- a mover that goes the other way at this moment
    and not exists (select from key_move m where m.key = p_key and m.side = 'out' and m.version >= p_version)
  on conflict (key, side) do update
    set peer = excluded.peer, version = excluded.version, seq = excluded.seq, advanced = excluded.advanced, opened = null
    where key_move.opened is not null;
  v_move := assert_move(p_key, 'in', p_version);
  if v_move.peer <> p_from then
    raise exception 'key % comes from installation %, not %', p_key, v_move.peer, p_from
      using errcode = 'PQ005', hint = 'Another mover brings it from there: repeat the move.';
  end if;
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
declare
  v_slices boolean;
  v_waiting boolean;
  v_delayed boolean;
begin
  perform assert_move(p_key, 'out', p_version);
  -- in one snapshot: a delayed job that becomes due between two looks would be missed by both
  select exists (select from handover h where h.key = p_key), exists (select from tail_of_key(p_key, null, 1, true)),
         exists (select from delayed_of_key(p_key, '{}', 1, true))
  into v_slices, v_waiting, v_delayed;
  if v_slices then
    return 'slices';
  elsif v_waiting then
    return case when exists (
        select from tail_of_key(p_key, null, 100, true) t
        where (select w.id from work_item w where w.id = t.id and w.lock_key is not null limit 1) is null)
      then 'waiting' else 'running' end;
  elsif v_delayed then
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
  perform commit_durably();
  perform from installation for update;
  update key_move m set opened = clock_timestamp()
  where m.key = p_key and m.side = 'in' and m.version = p_version and m.opened is null;
  if not found then
    return false;
  end if;
  delete from handover h where h.key = p_key;
  perform set_route(p_key, i.number, p_version + 1) from installation i;
  perform hint('queue');
  return true;
end
$$;

-- Ends the holds of keys whose moves are over: the leader has seen them, and its next plan reads their lanes anew. A
-- hold that another session has locked waits for the next tick.
create function end_holds(p_leader text, p_epoch bigint, p_keys text[]) returns void
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  delete from key_move m
  where m.side = 'in' and m.key = any (array(
    select l.key from key_move l where l.key = any (p_keys) and l.side = 'in' and l.opened is not null for update skip locked));
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
