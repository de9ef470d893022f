-- pgqueue 0032: what lies before the places that ticks begin at is looked for beside them, and jobs that run for long are no such place.
-- compatible: yes

-- Of a lane, at each of these priorities the first job up to that seq that waits: ticks begin behind it, and its row was not changed, so they would not find
-- it. While an old snapshot is held this passes all that is dead of the lane: for a scheduler beside its ticks, and seldom.
create function behind(p_queue text, p_key text, p_priorities integer[], p_seqs bigint[])
  returns table (priority integer, seq float8)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
    select x.priority, h.seq::float8
    from unnest(p_priorities, p_seqs) as x (priority, seq)
    cross join lateral (
      select q.seq from queue q
      where q.run_after is null and q.queue = p_queue and q.key = p_key and q.priority = x.priority and q.seq <= x.seq
        and q.moved is null
        and (q.expires_at is null or q.expires_at > clock_timestamp())
        and (select w.id from work_queue w where w.id = q.id) is null
      order by q.queue, q.key, q.priority, q.seq
      limit 1) h;
end
$$;

-- The first items before that position: beside the ticks, too.
create function items_behind(p_to bigint, p_max integer) returns bigint[]
  language sql stable security definer
  set search_path from current
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
  select array(select w.position from work_queue w where w.position < p_to order by w.position limit p_max)
$$;

-- As in 0024, of items from a position on and of those: a few that are known to be there before it. A job that runs for long would have each tick pass
-- all that has ended since it was dispatched.
create function tick_state(p_settled boolean, p_items_from bigint, p_items bigint[]) returns jsonb
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
declare
  v_suspects boolean := has_suspects();
begin
  return (
  with working as materialized (
    select n.id, n.pool, n.tasks, n.state,
           case when v_suspects and closed_for(n.id, n.pool, n.tasks, n.alone, n.alone_until) then 0 else n.slots end as slots,
           n.heartbeat > clock_timestamp() - n.lost_after_ms * interval '1 millisecond' as beats
    from node n where n.state in ('alive', 'draining')
  ),
  items as materialized (
    select w.pool, coalesce(w.lock_key, case when w.suspect then '' end) as lock_key, array_agg(w.position) as positions, min(w.lock_timeout) as lock_timeout
    from (
      select r.position, r.pool, r.lock_key, r.suspect, r.lock_timeout from work_queue r where r.position >= p_items_from
      union all
      select r.position, r.pool, r.lock_key, r.suspect, r.lock_timeout from work_queue r where r.position = any (p_items)) w
    group by 1, 2
  )
  select jsonb_build_object(
    'now', extract(epoch from clock_timestamp()) * 1000,
    'nodes', coalesce((
      select jsonb_agg(jsonb_build_object('id', n.id, 'pool', n.pool, 'slots', n.slots, 'tasks', n.tasks) order by n.id)
      from working n where n.state = 'alive' and n.beats), '[]'),
    'items', coalesce((
      select jsonb_agg(jsonb_build_object('pool', i.pool, 'node', i.lock_key, 'positions', to_jsonb(i.positions))) from items i), '[]'),
    'queues', coalesce((
      select jsonb_object_agg(c.queue, jsonb_build_object(
        'paused', c.paused, 'pool', c.pool, 'concurrency', c.concurrency, 'keyConcurrency', c.key_concurrency,
        'rate', case when c.rate is not null then jsonb_build_object('perSecond', c.rate, 'burst', c.rate_burst) end,
        'keyRate', case when c.key_rate is not null then jsonb_build_object('perSecond', c.key_rate, 'burst', c.key_rate_burst) end,
        'weight', c.weight)) from queue_config c), '{}'),
    'settled', case when p_settled then coalesce((
      select jsonb_agg(jsonb_build_object('n', s.n, 'atMs', extract(epoch from s.at) * 1000, 'positions', to_jsonb(s.positions),
                                          'verdicts', to_jsonb(s.verdicts), 'busyMs', to_jsonb(s.busy_ms)) order by s.n)
      from (select * from settlement s order by s.n limit 500) s), '[]') else '[]' end,
    'expiredLeases', exists (select from items i where i.lock_timeout <= clock_timestamp()),
    'lostNodes', exists (select from working n where not n.beats)
      or exists (select from items i where i.lock_key <> '' and i.lock_key not in (select n.id from working n))));
end
$$;

-- As in 0025, with the same.
create function tick(p_settled boolean, p_due boolean, p_questions_after bigint, p_queue text, p_key text, p_keys integer,
                     p_want integer, p_starts jsonb, p_lookahead integer, p_lane_queues text[], p_lane_keys text[], p_lane_depths integer[],
                     p_from uuid, p_to uuid, p_items_from bigint, p_items bigint[], p_ranges jsonb)
  returns table (state jsonb, due jsonb, questions jsonb, queue text, key text, paged boolean, ahead boolean, wanted integer,
                 retry_due_ms float8, id uuid, seq float8, priority integer, task text, version integer, row_version text,
                 created_ms float8, expires_ms float8, tries smallint, attributes jsonb)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
#variable_conflict use_column
begin
  state := tick_state(p_settled, p_items_from, p_items) || jsonb_build_object(
    'config', config_mark(), 'enqueuers', case when p_ranges <> '{}' then to_jsonb(enqueuers()) end);
  due := case when p_due then tick_due() end;
  questions := open_explains(p_questions_after);
  return next;
  return query
    select null::jsonb, null::jsonb, null::jsonb, l.queue, l.key, l.paged, l.ahead, l.wanted, l.retry_due_ms, l.id, l.seq,
           l.priority, l.task, l.version, l.row_version, l.created_ms, l.expires_ms, l.tries, l.attributes
    from look(p_queue, p_key, p_keys, p_want, p_starts, p_lookahead, p_lane_queues, p_lane_keys, p_lane_depths, p_from, p_to, p_ranges) l;
end
$$;

-- Whoever might call the shorter ones may go on to, and looks beside them.
do $$
declare
  v_grant record;
begin
  for v_grant in
    select a.grantee::regrole as role
    from pg_proc p, aclexplode(p.proacl) a
    where p.oid = 'tick_state(boolean, bigint)'::regprocedure and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function behind(text, text, integer[], bigint[]), items_behind(bigint, integer), tick_state(boolean, bigint, bigint[]),
                    tick(boolean, boolean, bigint, text, text, integer, integer, jsonb, integer, text[], text[], integer[], uuid, uuid, bigint, bigint[], jsonb) to %s', v_grant.role);
  end loop;
end
$$;
