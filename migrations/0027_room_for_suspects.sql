-- pgqueue 0027: suspects take no more of a pool's nodes than they need.
-- compatible: yes (older workers call the same function)

-- As in 0018, but for two things that took whole pools:
-- * Two nodes that looked at the same moment each made room, for another suspect, since each passes over what the other has locked: where
--   a node had died, the two that were left both claimed nothing until they were empty. Now only who holds the first suspect's item makes room,
--   and nobody while another node of the pool does, for whichever suspect. Who holds that item sees what the one before has decided.
-- * Jobs in their last life run alone to their end. Ten of two hours took every node that became empty, and all others waited. Now they have
--   half of a pool's nodes at most (one at least), of those that have slots: a node that takes suspects only has none, and is always free for them.
create or replace function find_suspect(p_node text, p_pool text, p_tasks jsonb) returns bigint
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
  v_now timestamptz := clock_timestamp();
  v_node node;
  v_item work_queue;
  v_due work_queue;
  v_first uuid;
  v_decides boolean;
  v_last boolean;
  v_nodes bigint;
  v_taken bigint;
  v_held bigint;
  v_others bigint;
  v_guarded boolean;
  v_since timestamptz;
  v_latest timestamptz;
  v_begins boolean;
begin
  select * into v_node from node n where n.id = p_node for update skip locked;
  if not found then
    return null;
  end if;
  select * into v_item from work_queue w
  where w.suspect and w.pool = p_pool and w.lock_key is null
    and p_tasks -> w.task -> 'isolated' is distinct from 'true'
    and w.version between (p_tasks -> w.task ->> 'min')::integer and (p_tasks -> w.task ->> 'max')::integer
    and (select q.id from queue q where q.id = w.id and (q.expires_at is null or q.expires_at > v_now)) is not null
    and (w.bundle is null or (select b.position from work_queue b where b.bundle = w.bundle and b.lock_key is not null limit 1) is null)
  order by w.ran_ms nulls first, w.position + 0 limit 1 for update skip locked;
  if not found then
    return null;
  end if;
  v_last := (select q.crashes + 1 >= q.max_crashes from queue q where q.id = v_item.id);
  select w.id into v_first from work_queue w
  where w.suspect and w.pool = p_pool and w.lock_key is null
    and p_tasks -> w.task -> 'isolated' is distinct from 'true'
    and w.version between (p_tasks -> w.task ->> 'min')::integer and (p_tasks -> w.task ->> 'max')::integer
    and (select q.id from queue q where q.id = w.id and (q.expires_at is null or q.expires_at > v_now)) is not null
    and (w.bundle is null or (select b.position from work_queue b where b.bundle = w.bundle and b.lock_key is not null limit 1) is null)
  order by w.ran_ms nulls first, w.position + 0 limit 1;
  v_decides := v_first = v_item.id;
  if v_last and v_node.slots > 0 then
    if not v_decides then
      return null;
    end if;
    select count(*), count(*) filter (where exists (
             select from work_queue w
             where w.lock_key = n.id and w.suspect
               and (select q.crashes + 1 >= q.max_crashes from queue q where q.id = w.id)))
    into v_nodes, v_taken
    from node n where n.pool = p_pool and n.state = 'alive' and n.slots > 0;
    if v_taken >= greatest(1, v_nodes / 2) then
      select * into v_item from work_queue w
      where w.suspect and w.pool = p_pool and w.lock_key is null
        and p_tasks -> w.task -> 'isolated' is distinct from 'true'
        and w.version between (p_tasks -> w.task ->> 'min')::integer and (p_tasks -> w.task ->> 'max')::integer
        and (select q.id from queue q
             where q.id = w.id and q.max_crashes > q.crashes + 1 and (q.expires_at is null or q.expires_at > v_now)) is not null
        and (w.bundle is null or (select b.position from work_queue b where b.bundle = w.bundle and b.lock_key is not null limit 1) is null)
      order by w.ran_ms nulls first, w.position + 0 limit 1 for update skip locked;
      if not found then
        return null;
      end if;
      v_last := false;
    end if;
  end if;
  with held as (select w.id, w.suspect, w.started from work_queue w where w.lock_key = p_node)
  select count(*), count(*) filter (where not h.suspect), min(h.started), max(h.started) filter (where h.suspect),
         bool_or(h.suspect and (select q.crashes + 1 >= q.max_crashes from queue q where q.id = h.id))
  into v_held, v_others, v_since, v_latest, v_guarded
  from held h;
  if v_guarded then
    return null;
  end if;
  v_begins := v_held = 0 or (v_others = 0 and not v_last and v_since <= v_now - interval '700 milliseconds');
  if not v_begins and coalesce(v_latest <= v_now - interval '700 milliseconds', true) then
    select * into v_due from work_queue w
    where w.suspect and w.pool = p_pool and w.lock_key is null
      and coalesce(w.waits_since, w.dispatched) not between v_now - suspect_wait() and v_now + interval '1 second'
      and p_tasks -> w.task -> 'isolated' is distinct from 'true'
      and w.version between (p_tasks -> w.task ->> 'min')::integer and (p_tasks -> w.task ->> 'max')::integer
      and (select q.id from queue q
           where q.id = w.id and q.crashes + 1 < q.max_crashes and (q.expires_at is null or q.expires_at > v_now)) is not null
      and (w.bundle is null or (select b.position from work_queue b where b.bundle = w.bundle and b.lock_key is not null limit 1) is null)
    order by w.ran_ms nulls first, w.position + 0 limit 1 for update skip locked;
    if found then
      v_item := v_due;
      v_begins := true;
    end if;
  end if;
  if v_begins then
    if v_item.bundle is not null then
      perform from work_queue w
      where w.position = (select min(b.position + 0) from work_queue b where b.bundle = v_item.bundle) for update skip locked;
      if not found or exists (select from work_queue b where b.bundle = v_item.bundle and b.lock_key is not null) then
        return null;
      end if;
    end if;
    return v_item.position;
  end if;
  if v_others = 0 and not v_last then
    return null; -- in its first moments another one stays alone
  end if;
  if not v_decides then
    return null;
  end if;
  if v_node.alone = v_item.id then
    if v_node.alone_until > v_now then
      return 0;
    elsif v_node.alone_until + v_node.alone_ms * interval '1 millisecond' > v_now then
      return null;
    end if;
  end if;
  if exists (
    select from node n
    where n.pool = p_pool and n.id <> p_node and n.state = 'alive' and n.alone_until > v_now
      and n.heartbeat > v_now - n.lost_after_ms * interval '1 millisecond'
      and (select w.id from work_queue w where w.id = n.alone and w.lock_key is null) is not null) then
    return null;
  end if;
  v_node.alone_ms := least(2 * coalesce((select max(n.alone_ms) from node n where n.alone = v_item.id), 5000), 86400000);
  update node
  set alone = v_item.id, alone_ms = v_node.alone_ms, alone_until = v_now + v_node.alone_ms * interval '1 millisecond'
  where id = p_node;
  return 0;
end
$$;
