-- Sessions that stand for a process: when the process is killed, its connection ends, and the server ends the
-- session. A session is recognised by an advisory lock on a random key, which nobody else could take before
-- it; its pid would be used again.

-- Makes this session hold such a lock for as long as it lives, and returns the key: the given one if it is
-- free. Null if the session is not the caller's own: a pooler that lends sessions by the transaction gives
-- its clients other pids than the server's, so p_pid is the pid that the client got when it connected. The
-- session may take the same lock any number of times.
create function hold_session(p_key bigint, p_pid integer) returns bigint
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_key bigint := p_key;
begin
  if p_pid is distinct from pg_backend_pid() then
    return null;
  end if;
  if v_key is not null and pg_try_advisory_lock(v_key) then
    return v_key;
  end if;
  v_key := hashtextextended(gen_random_uuid()::text, 0);
  return case when pg_try_advisory_lock(v_key) then v_key end;
end
$$;

-- Lists the advisory locks of this database, with the pids of their holders.
create function held_sessions() returns table (key bigint, pid integer)
  language plpgsql stable security definer
  set search_path from current
as $$
begin
  return query
    select (l.classid::bigint << 32) | l.objid::bigint, l.pid
    from pg_locks l
    where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database());
end
$$;

-- Notes the session in which a node sends heartbeats, and that the session is there. Notes none if the
-- session is not the node's own: then only silence counts.
create function keep_node_session(p_node text, p_incarnation uuid, p_pid integer) returns void
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
as $$
declare
  v_key bigint := hold_session((select s.key from node_session s where s.node = p_node), p_pid);
begin
  if v_key is null then
    delete from node_session s where s.node = p_node;
    return;
  end if;
  insert into node_session as s (node, incarnation, key, pid, server)
  values (p_node, p_incarnation, v_key, p_pid, pg_postmaster_start_time())
  on conflict (node) do update
    set incarnation = excluded.incarnation, key = excluded.key, pid = excluded.pid, server = excluded.server, missed = null
    where s.missed is not null
      or (s.incarnation, s.key, s.pid, s.server) is distinct from (excluded.incarnation, excluded.key, excluded.pid, excluded.server);
end
$$;

-- Lists live nodes that have a session, and whether that session is there. All sessions from before a restart
-- of the server have ended, so they say nothing and are left out.
create function node_sessions() returns table (node text, held boolean, missed timestamptz)
  language plpgsql stable security definer
  set search_path from current
  set jit = off
as $$
begin
  return query
    select s.node, h.key is not null, s.missed
    from node_session s
    join node n on n.id = s.node and n.incarnation = s.incarnation and n.state in ('alive', 'draining')
    left join held_sessions() h on h.key = s.key and h.pid = s.pid
    where s.server = pg_postmaster_start_time();
end
$$;

-- Counts the nodes whose session is missing, for the leader's polls; tells whether note_missing_nodes would change
-- anything, and in how many milliseconds the first of those nodes is lost. Reads only.
create function missing_nodes() returns table (missing integer, changed boolean, lost_in_ms double precision)
  language plpgsql stable security definer
  set search_path from current
as $$
begin
  return query
    select (count(*) filter (where not s.held))::integer,
      coalesce(bool_or(s.held = (s.missed is not null)), false),
      extract(epoch from min(s.missed) filter (where not s.held) + interval '3 seconds' - clock_timestamp())::float8 * 1000
    from node_sessions() s;
end
$$;

-- Notes since when sessions of nodes are missing. Waits for no lock, for the reason in lose_nodes: a locked
-- row is being written by its node.
create function note_missing_nodes(p_leader text, p_epoch bigint) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform assert_leader(p_leader, p_epoch);
  update node_session s set missed = case when s.missed is null then clock_timestamp() end
  where s.node = any (array(
    select l.node from node_session l
    where l.node in (select x.node from node_sessions() x where x.held = (x.missed is not null))
    for update of l skip locked));
end
$$;

-- Lists nodes whose session has been missing for 3 s.
create function gone_nodes() returns setof text
  language sql stable security definer
  set search_path from current
as $$
  select s.node from node_sessions() s where not s.held and s.missed <= clock_timestamp() - interval '3 seconds'
$$;
