-- Reads everything for one tick: the state beside the lanes, and the text of look(). It is a function so that
-- its plan is kept: a statement around the parts would be planned anew at every tick, which took a third of a
-- small tick's time. Stable, so that everything in it sees the one snapshot of the calling statement.
-- p_read: the object of look(), and settled: read ended attempts; due: read when sweeps are due;
-- questions_after: read open questions behind that number; items_from, items: the work items to read, as in
-- tick_state.
create function tick(p_read jsonb)
  returns table (state json, marks json, due jsonb, questions jsonb, rows text)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
begin
  return query
    select tick_state((p_read -> 'settled')::boolean, (p_read -> 'items_from')::bigint,
                      array(select x.position::bigint from jsonb_array_elements_text(p_read -> 'items') as x (position))),
           json_build_object('config', config_mark(), 'tallies', (select case when t.is_called then t.last_value else 0 end from flow_tally_n_seq t),
                             'enqueuers', case when p_read -> 'ranges' <> '{}' then to_json(enqueuers()) end),
           case when (p_read -> 'due')::boolean then tick_due() end,
           open_explains((p_read ->> 'questions_after')::bigint),
           look(p_read);
end
$$;

-- Reads the state of a tick beside its lanes, as one JSON value: live nodes, work items (positions by pool
-- and by holder), the queues with settings of their own, keys that are held while they move (null: none), ended attempts if p_settled, and whether a sweep of
-- leases or nodes would find anything. Stable, as look(): in one statement both see one snapshot. If an item
-- is gone here, its settlement is here, and its job is delayed or ended.
-- Work items: those from p_items_from on, and p_items, which are known to exist before it. As far as the
-- leader knows, all others before it are gone; their rows stay in the table until vacuum, and for as long as
-- some session holds an old snapshot. Served by work_queue's primary key.
-- A suspect without a lease is listed under the node id '', which no node can have: it counts as in flight,
-- not as ready. A node takes suspects one at a time, so those that wait must not take the place of other
-- ready items.
-- Makes json, as text: jsonb takes far more than twice as long for nodes of twice as many tasks.
create function tick_state(p_settled boolean, p_items_from bigint, p_items bigint[]) returns json
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
begin
  return (
  with working as materialized (
    select n.id, n.pool, n.tasks, n.state, n.slots, n.runs,
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
  select json_build_object(
    'now', extract(epoch from clock_timestamp()) * 1000,
    'nodes', coalesce((
      select json_agg(json_build_object('id', n.id, 'pool', n.pool, 'slots', n.slots, 'tasks', n.tasks, 'runs', n.runs) order by n.id)
      from working n where n.state = 'alive' and n.beats), '[]'),
    'items', coalesce((
      select json_agg(json_build_object('pool', i.pool, 'node', i.lock_key, 'positions', to_json(i.positions))) from items i), '[]'),
    'queues', coalesce((
      select json_object_agg(c.queue, json_build_object(
        'paused', c.paused, 'pool', c.pool, 'concurrency', c.concurrency, 'keyConcurrency', c.key_concurrency,
        'rate', case when c.rate is not null then json_build_object('perSecond', c.rate, 'burst', c.rate_burst) end,
        'keyRate', case when c.key_rate is not null then json_build_object('perSecond', c.key_rate, 'burst', c.key_rate_burst) end,
        'weight', c.weight)) from queue_config c), '{}'),
    'moving', (select json_agg(json_build_object('key', m.key, 'over', m.opened is not null) order by m.key) from key_move m where m.held),
    'settled', case when p_settled then coalesce((
      select json_agg(json_build_object('n', s.n, 'atMs', extract(epoch from s.at) * 1000, 'positions', to_json(s.positions), 'sizes', to_json(s.sizes),
                                          'verdicts', to_json(s.verdicts), 'busyMs', to_json(s.busy_ms)) order by s.n)
      from (select * from settlement s order by s.n limit 500) s), '[]') else '[]' end,
    'expiredLeases', exists (select from items i where i.lock_timeout <= clock_timestamp()),
    'lostNodes', exists (select from working n where not n.beats)
      or exists (select from items i where i.lock_key <> '' and i.lock_key not in (select n.id from working n))));
end
$$;

-- Returns when the sweeps of waiting jobs and of schedules are next due, in milliseconds; null: not at all. A
-- schedule that is not planned yet is due now. Served by queue_due and queue_expiring.
create function tick_due() returns jsonb
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  return jsonb_build_object(
    'promoteMs', (
      select extract(epoch from q.run_after - clock_timestamp())::float8 * 1000 from queue q
      where q.run_after is not null order by q.run_after limit 1),
    'expireMs', (
      select extract(epoch from q.expires_at - clock_timestamp())::float8 * 1000 from queue q
      where q.expires_at is not null and (select w.id from work_queue w where w.id = q.id and w.lock_key is not null) is null
      order by q.expires_at limit 1),
    'cronMs', (
      select extract(epoch from min(greatest(coalesce(s.next_slot, clock_timestamp()), s.retry_after)) - clock_timestamp())::float8 * 1000
      from schedule s where not s.paused),
    'flowsMs', flows_due_ms());
end
$$;

-- Returns a text that differs after any change to the settings of queues, and to the keys that are held while they
-- move. In PL/pgSQL, whose plans are kept: as SQL, the second part took 15 us a tick.
create function config_mark() returns text
  language plpgsql stable security definer
  set search_path from current
as $$
begin
  return (select count(*) || ' ' || coalesce(sum(c.xmin::text::bigint), 0) from queue_config c)
    || coalesce((select ' ' || string_agg(concat_ws(' ', m.key, m.version, m.opened), ' ' order by m.key) from key_move m where m.held), '');
end
$$;

-- Lists transactions that may have drawn numbers of jobs that no other session can see yet: each takes a lock
-- on the table before it draws a number, and holds it until after the commit.
create function enqueuers() returns text[]
  language plpgsql stable security definer
  set search_path from current
as $$
begin
  return array(
    select distinct l.virtualtransaction from pg_locks l
    where l.locktype = 'relation' and l.relation = 'queue'::regclass and l.mode = 'RowExclusiveLock' and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database()) and l.pid is distinct from pg_backend_pid());
end
$$;

-- Describes the jobs of work items, in their order, for a scheduler that did not write them itself. Served by
-- the primary keys of work_queue and queue.
create function item_facts(p_positions bigint[])
  returns table ("position" bigint, pool text, bundle text, dispatched_ms float8, id uuid, queue text, key text, task text,
                 version integer, priority integer, seq bigint, created_ms float8, expires_ms float8, attributes jsonb, tries smallint, flow uuid)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select w.position, w.pool, w.together::text, extract(epoch from w.dispatched)::float8 * 1000, q.id, q.queue, q.key, q.task,
         q.payload_version, q.priority, q.seq, extract(epoch from q.created)::float8 * 1000,
         extract(epoch from q.expires_at)::float8 * 1000, coalesce(legible(q.attributes), '{}'), q.tries, q.flow
  from work_queue w cross join lateral unnest(coalesce(w.jobs, array[w.id])) with ordinality as u (id, n) cross join lateral (
    select q.* from queue q where q.id = u.id offset 0) q
  where w.position = any (p_positions)
  order by w.position, u.n
$$;
