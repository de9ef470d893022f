-- Begins an incarnation. accepted is false while another one may be alive under this id: its heartbeat is
-- newer than its own lost_after_ms. A caller that has watched that heartbeat stand still for two of its
-- intervals (p_seen: the value it saw before) is accepted. A caller that has seen it move must not try again:
-- two live nodes can't share an id. A caller that is refused has locked nothing: a lock would hold up the other's
-- heartbeats until the caller's transaction ends.
-- incarnation: null if not accepted, since the other incarnation is a secret of its holder.
-- Takes back what the node's last incarnation still held.
create function register_node(
    p_node text, p_tasks jsonb, p_slots integer default 1, p_pool text default 'default', p_heartbeat_ms integer default 5000,
    p_lost_after_ms integer default 30000, p_software text default '', p_incarnation uuid default gen_random_uuid(),
    p_seen timestamptz default null)
  returns table (accepted boolean, incarnation uuid, other_heartbeat timestamptz, other_heartbeat_ms integer)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_other node;
  v_refused boolean;
begin
  perform assert_read_committed('a registration of a node');
  perform assert_tasks(p_tasks);
  select * into v_other from node n where n.id = p_node;
  v_refused := is_other_alive(v_other, p_incarnation, p_seen);
  if not v_refused then
    loop -- the row may be removed between the two statements
      insert into node (id, incarnation, state, slots, tasks, heartbeat, heartbeat_ms, lost_after_ms, started)
      values (p_node, p_incarnation, 'left', 0, '{}', '-infinity', 5000, 30000, clock_timestamp())
      on conflict (id) do nothing;
      select * into v_other from node n where n.id = p_node for update;
      exit when found;
    end loop;
    v_refused := is_other_alive(v_other, p_incarnation, p_seen);
  end if;
  if v_refused then
    return query select false, null::uuid, v_other.heartbeat, v_other.heartbeat_ms;
    return;
  end if;
  v_now := clock_timestamp();
  if v_other.incarnation <> p_incarnation then
    perform end_node(p_node, 'node restarted');
  end if;
  update node
  set incarnation = p_incarnation, state = 'alive', pool = p_pool, slots = p_slots, running = 0, hung = 0, tasks = p_tasks, runs = '{}',
      heartbeat = v_now, heartbeat_ms = p_heartbeat_ms, lost_after_ms = p_lost_after_ms, started = v_now, software = p_software
  where id = p_node;
  return query select true, p_incarnation, null::timestamptz, null::integer;
end
$$;

-- Tells whether another incarnation of a node counts as alive for one that wants to register (register_node).
create function is_other_alive(p_other node, p_incarnation uuid, p_seen timestamptz) returns boolean
  language sql volatile
  set search_path from current
as $$
  select (p_other.state in ('alive', 'draining') and p_other.incarnation <> p_incarnation
    and p_other.heartbeat > clock_timestamp() - p_other.lost_after_ms * interval '1 millisecond'
    and (p_seen is null or p_other.heartbeat is distinct from p_seen
         or p_other.heartbeat > clock_timestamp() - 2 * p_other.heartbeat_ms * interval '1 millisecond')) is true
$$;

-- Records a heartbeat. alive is false: the node was reset, lost or replaced, holds nothing, and must register
-- anew. lost: places, from 1, of the given leases that the node does not hold any more. cancelled: its
-- running jobs that are to be cancelled. p_pid: the pid, as the driver knows it, of a session that the node
-- keeps for this alone. When that session has been gone for 3 s, the node is lost.
create function heartbeat_node(
    p_node text, p_incarnation uuid, p_running integer default 0, p_draining boolean default false,
    p_ids uuid[] default '{}', p_tokens uuid[] default '{}', p_pid integer default null, p_hung integer default 0)
  returns table (alive boolean, cancelled uuid[], lost integer[])
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  update node
  set heartbeat = clock_timestamp(), running = p_running, hung = p_hung, state = case when p_draining then 'draining' else 'alive' end
  where id = p_node and incarnation = p_incarnation and state in ('alive', 'draining');
  if not found then
    return query select false, '{}'::uuid[], array(select generate_series(1, cardinality(p_ids)));
    return;
  end if;
  perform keep_node_session(p_node, p_incarnation, p_pid);
  return query
    select true,
      array(select w.id from work_queue w where w.cancelled is not null and w.lock_key = p_node),
      array(select x.n::integer from unnest(p_ids, p_tokens) with ordinality as x (id, token, n)
            where (select w.position from work_queue w where w.id = x.id and w.lock_token = x.token) is null
              and (x.id, x.token) not in (
                select u.id, b.lock_token from work_queue b cross join lateral unnest(b.jobs) as u (id)
                where b.jobs is not null and b.position >= batches_from() and b.lock_key = p_node));
end
$$;

-- Stores the run times that a node has measured: milliseconds by task, 0.001 to 1e6, of 1,000 tasks at most.
-- Replaces the earlier ones.
create function tell_runs(p_node text, p_incarnation uuid, p_runs jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  if jsonb_typeof(p_runs) <> 'object' or (select count(*) from jsonb_object_keys(p_runs)) > 1000
     or exists (select from jsonb_each(p_runs) x
                where length(x.key) > 200 or jsonb_typeof(x.value) <> 'number' or x.value::numeric not between 0.001 and 1e6) then
    raise exception 'runs are milliseconds by task, 0.001 to 1e6, of 1,000 tasks at most' using errcode = '22023';
  end if;
  update node set runs = p_runs where id = p_node and incarnation = p_incarnation and state in ('alive', 'draining');
  return found;
end
$$;

-- Ends an incarnation in order. Releases its leases: a shutdown counts neither as a try nor as a crash.
create function leave_node(p_node text, p_incarnation uuid) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform assert_read_committed('the end of a node');
  perform from node n where n.id = p_node and n.incarnation = p_incarnation and n.state in ('alive', 'draining') for update;
  if not found then
    return false;
  end if;
  perform spread_held(p_node, true);
  perform release(array_agg(w.id), array_agg(w.lock_token)) from work_queue w where w.lock_key = p_node having count(*) > 0;
  update node set state = 'left', running = 0 where id = p_node;
  delete from node_session where node = p_node;
  return true;
end
$$;

-- Takes back everything that a node holds and ends its incarnation, so that it can claim nothing more. Locks
-- the node's row first: a claim under way (which holds it FOR KEY SHARE) ends before its items are looked
-- for, and a later claim waits, and is refused. Locks items in the order of ids, as settle does. Waits for who has
-- locked one of its jobs: an ended node holds none.
-- charged_by_death decides which jobs are charged with the crash.
create function end_node(p_node text, p_why text)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
begin
  perform assert_read_committed('the end of a node');
  perform from node n where n.id = p_node for update;
  update node set state = 'lost', incarnation = gen_random_uuid(), running = 0 where id = p_node;
  perform spread_held(p_node, true);
  return query
    select c.job_id, c.verdict
    from crash(array(select w.position from work_queue w where w.lock_key = p_node order by w.id for update), charged_by_death(p_node),
               p_why, true) c;
  if found then
    perform hint('work');
  end if;
end
$$;

-- Makes a dead node's items ready for other nodes at once, however long their leases still run.
create function reset_node(p_node text)
  returns table (job_id uuid, verdict text)
  language sql volatile security definer
  set search_path from current
as $$
  select r.job_id, r.verdict from end_node(p_node, 'node reset') r
$$;

-- Takes back the leases of nodes whose heartbeat stopped, and ends these nodes. Also takes back leases of a
-- holder that has no live node row. A node's silence counts from its last heartbeat, or from when schedulers
-- could reach this server again (note_reached), if that is later.
-- A node whose session has been missing for 3 s is lost, too, if for that time (p_well_ms) the leader could
-- always poll, and open new connections: then the node could have reconnected.
--
-- A sweep of the scheduler. It waits for no lock of others, since its own lock on the leader's lease would
-- make the standby wait, too. A node whose row is locked is claiming or sending a heartbeat. A lease whose
-- item or job is locked stays, since the transaction that settles it may still commit or roll back. Its node
-- does not end while it has such a lease, so every lease is held by a node that has not ended. The next sweep
-- finds the node again by its silence, and charges such a job even if the node also held a suspect.
--
-- Returns the nodes that ended or lost leases.
create function lose_nodes(p_leader text, p_epoch bigint, p_well_ms integer default 0)
  returns table (node_id text, jobs bigint)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_node text;
  v_state text;
  v_silent boolean;
  v_held bigint[];
  v_jobs bigint;
  v_ends boolean;
  v_since timestamptz;
  v_gone text[];
begin
  perform assert_leader(p_leader, p_epoch);
  v_since := coalesce((select r.since from reached r), 'infinity');
  v_gone := case when p_well_ms >= 3000 then array(select gone_nodes()) else '{}' end;
  for v_node in
    select n.id from node n
    where n.state in ('alive', 'draining')
      and (n.id = any (v_gone) or greatest(n.heartbeat, v_since) <= clock_timestamp() - n.lost_after_ms * interval '1 millisecond')
    union
    select w.lock_key from work_queue w
    where w.lock_key is not null and not exists (select from node n where n.id = w.lock_key and n.state in ('alive', 'draining'))
    order by 1
  loop
    -- again under the row's lock, which waits for nobody: the node may have sent a heartbeat, or come back,
    -- since
    select n.state, greatest(n.heartbeat, v_since) <= clock_timestamp() - n.lost_after_ms * interval '1 millisecond'
    into v_state, v_silent from node n where n.id = v_node for update skip locked;
    continue when not found and exists (select from node n where n.id = v_node);
    continue when v_state in ('alive', 'draining') and not v_silent
      and not (v_node = any (v_gone) and v_node in (select gone_nodes()));
    perform spread_held(v_node, false);
    v_held := array(select w.position from work_queue w where w.lock_key = v_node);
    select count(*) into v_jobs
    from crash(array(select w.position from work_queue w where w.position = any (v_held) and w.lock_key = v_node and w.id is not null for update skip locked),
               charged_by_death(v_node), 'node lost', false);
    v_ends := v_state in ('alive', 'draining') and v_jobs = cardinality(v_held);
    if v_ends then
      update node set state = 'lost', incarnation = gen_random_uuid(), running = 0 where id = v_node;
    end if;
    if v_jobs > 0 then
      perform hint('work');
    end if;
    if v_ends or v_jobs > 0 then
      return query select v_node, v_jobs;
    end if;
  end loop;
  delete from node n
  where n.id = any (array(
    select l.id from node l where l.state in ('left', 'lost') and l.heartbeat < clock_timestamp() - interval '1 day' for update skip locked));
  delete from node_session s
  where s.node = any (array(
    select l.node from node_session l where not exists (select from node n where n.id = l.node) for update skip locked));
end
$$;
