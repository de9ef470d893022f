-- pgqueue 0007: worker nodes.
-- compatible: yes

-- Takes back everything that a node holds (crash: see 0006) and ends its incarnation, so that it can claim nothing more.
-- Locks the node's row first: a claim under way (which holds it FOR KEY SHARE) ends before its items are looked for. Items are
-- locked in the order of ids, as settle does. Without p_wait, what other sessions have locked is left for the next sweep, which
-- finds it by its holder, who lives no more.
create function end_node(p_node text, p_state text, p_why text, p_wait boolean default true)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_positions bigint[];
begin
  perform from node n where n.id = p_node for update;
  update node set state = p_state, incarnation = gen_random_uuid(), running = 0 where id = p_node;
  if p_wait then
    v_positions := array(select w.position from work_queue w where w.lock_key = p_node order by w.id for update);
  else
    v_positions := array(select w.position from work_queue w where w.lock_key = p_node for update skip locked);
  end if;
  return query select c.job_id, c.verdict from crash(v_positions, p_why, p_wait) c;
  if found then
    perform pg_notify(current_schema() || ':work', '');
  end if;
end
$$;

-- A dead node's items, long timeouts or not, are ready for others at once.
create function reset_node(p_node text)
  returns table (job_id uuid, verdict text)
  language sql volatile security definer
  set search_path from current
as $$
  select r.job_id, r.verdict from end_node(p_node, 'lost', 'node reset') r
$$;

-- Begins an incarnation. accepted is false while another one may be alive under this id: its heartbeat is newer than its
-- own lost_after_ms. A caller who has watched that heartbeat stand still for two of its intervals (p_seen = the value it saw
-- before) is let in; one who has seen it move must not try again: two live nodes can't share an id.
-- What the node's last incarnation still held is taken back.
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
begin
  loop -- the row may be swept away between the two
    insert into node (id, incarnation, state, slots, tasks, heartbeat, heartbeat_ms, lost_after_ms, started)
    values (p_node, p_incarnation, 'left', 0, '{}', '-infinity', 5000, 30000, clock_timestamp())
    on conflict (id) do nothing;
    select * into v_other from node n where n.id = p_node for update;
    exit when found;
  end loop;
  v_now := clock_timestamp();
  if v_other.state in ('alive', 'draining') and v_other.incarnation <> p_incarnation
     and v_other.heartbeat > v_now - v_other.lost_after_ms * interval '1 millisecond'
     and (p_seen is null or v_other.heartbeat is distinct from p_seen
          or v_other.heartbeat > v_now - 2 * v_other.heartbeat_ms * interval '1 millisecond') then
    return query select false, v_other.incarnation, v_other.heartbeat, v_other.heartbeat_ms;
    return;
  end if;
  if v_other.incarnation <> p_incarnation then
    perform end_node(p_node, 'lost', 'node restarted');
  end if;
  update node
  set incarnation = p_incarnation, state = 'alive', pool = p_pool, slots = p_slots, running = 0, tasks = p_tasks,
      heartbeat = v_now, heartbeat_ms = p_heartbeat_ms, lost_after_ms = p_lost_after_ms, started = v_now, software = p_software
  where id = p_node;
  return query select true, p_incarnation, null::timestamptz, null::integer;
end
$$;

-- Says that the node lives. alive false: it was reset, lost or replaced, holds nothing any more, and must register anew.
-- lost: those of the named leases that it no longer holds, by their place from 1; cancelled: its running jobs that are to be cancelled.
create function heartbeat_node(
    p_node text, p_incarnation uuid, p_running integer default 0, p_draining boolean default false,
    p_ids uuid[] default '{}', p_tokens uuid[] default '{}')
  returns table (alive boolean, cancelled uuid[], lost integer[])
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
begin
  update node
  set heartbeat = clock_timestamp(), running = p_running, state = case when p_draining then 'draining' else 'alive' end
  where id = p_node and incarnation = p_incarnation and state in ('alive', 'draining');
  if not found then
    return query select false, '{}'::uuid[], array(select generate_series(1, cardinality(p_ids)));
    return;
  end if;
  return query
    select true,
      array(select w.id from work_queue w where w.lock_key = p_node and w.cancelled is not null),
      array(select x.n::integer from unnest(p_ids, p_tokens) with ordinality as x (id, token, n)
            where (select w.position from work_queue w where w.id = x.id and w.lock_token = x.token) is null);
end
$$;

-- Ends an incarnation in order. What it still holds is released: a shutdown counts neither as a try nor as a crash.
create function leave_node(p_node text, p_incarnation uuid) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform from node n where n.id = p_node and n.incarnation = p_incarnation and n.state in ('alive', 'draining') for update;
  if not found then
    return false;
  end if;
  perform release(array_agg(w.id), array_agg(w.lock_token)) from work_queue w where w.lock_key = p_node having count(*) > 0;
  update node set state = 'left', running = 0 where id = p_node;
  return true;
end
$$;

-- Nodes whose heartbeat stopped lose their items; so does a holder that has no row at all. The scheduler's sweep: it waits for no
-- lock of an application, since its own on the leader's lease would make the standby wait, too.
create function lose_nodes(p_leader text, p_epoch bigint)
  returns table (node_id text, jobs bigint)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_node text;
  v_alive boolean;
  v_jobs bigint;
begin
  perform assert_leader(p_leader, p_epoch);
  for v_node in
    select n.id from node n
    where n.state in ('alive', 'draining') and n.heartbeat <= clock_timestamp() - n.lost_after_ms * interval '1 millisecond'
    union
    select w.lock_key from work_queue w
    where w.lock_key is not null and not exists (select from node n where n.id = w.lock_key and n.state in ('alive', 'draining'))
    order by 1
  loop
    -- again under the row's lock: it may have beaten, or come back, since
    perform from node n
    where n.id = v_node and n.state in ('alive', 'draining')
      and n.heartbeat > clock_timestamp() - n.lost_after_ms * interval '1 millisecond' for update;
    continue when found;
    v_alive := exists (select from node n where n.id = v_node and n.state in ('alive', 'draining'));
    select count(*) into v_jobs from end_node(v_node, 'lost', 'node lost', false);
    if v_alive or v_jobs > 0 then
      return query select v_node, v_jobs;
    end if;
  end loop;
  delete from node n where n.state in ('left', 'lost') and n.heartbeat < clock_timestamp() - interval '1 day';
end
$$;
