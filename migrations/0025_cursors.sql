-- pgqueue 0025: a tick looks at a busy lane from where the last one came to, and a plan is written in less time.
-- compatible: yes

-- A waiting job stands at the end of its lane, or where no tick has been yet, unless its row was changed: a retry, a delay that is over, another
-- priority, a replaced payload put it back among jobs that have gone. Whatever changes it, it says so itself.
alter table queue add column moved boolean;
comment on column queue.moved is 'Changed while it waited, or made to wait again: it may stand before jobs of its key that went already.';
create index queue_moved on queue (queue, key, priority, seq) where run_after is null and moved;

create function note_move() returns trigger
  language plpgsql
  set search_path from current
as $$
begin
  new.moved := true;
  return new;
end
$$;

-- Jobs on their way to done are never updated: this costs them nothing.
create trigger queue_move before update on queue for each row
  when (new.run_after is null and new.moved is null) execute function note_move();

-- Lanes with waiting jobs behind a place, in their order: p_lanes of them, those of paused queues not counted and passed over at one step.
-- p_hot_queues and p_hot_keys, in the same order: lanes that are there whether anything waits in them or not. The walk steps over them without a look into the index, where they
-- may have left a million rows that no vacuum could remove yet. p_end: the walk ends with the last of those.
create function walk_lanes(p_queue text, p_key text, p_lanes integer, p_paused jsonb, p_hot_queues text[], p_hot_keys text[], p_end boolean)
  returns table (queue text, key text, n integer)
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
begin
  return query
  with recursive
  hot as materialized (
    select h.queue collate "C" as queue, h.key collate "C" as key from unnest(p_hot_queues, p_hot_keys) as h (queue, key)
  ),
  walk (queue, key, n) as (
    select p_queue collate "C", p_key collate "C", 0
    union all
    select x.queue, x.key, w.n + (not p_paused ? x.queue)::integer
    from walk w
    left join lateral (
      select h.queue, h.key from hot h where (h.queue, h.key) > (w.queue, w.key) order by h.queue, h.key limit 1) c on true
    cross join lateral (
      -- up to the next one that is known, one column bounds each of these: before PostgreSQL 18 a bound of two does not end the walk through an index
      select s.queue, s.key from (
        (select q.queue, q.key from queue q
         where q.run_after is null and c.queue is null and not p_end and not p_paused ? w.queue
           and (q.queue, q.key) > (w.queue, w.key) order by q.queue, q.key limit 1)
        union all
        (select q.queue, q.key from queue q
         where q.run_after is null and c.queue is null and not p_end and p_paused ? w.queue and q.queue > w.queue
         order by q.queue, q.key limit 1)
        union all
        (select q.queue, q.key from queue q
         where q.run_after is null and not p_paused ? w.queue and c.queue <> w.queue
           and q.queue = w.queue and q.key > w.key order by q.queue, q.key limit 1)
        union all
        (select q.queue, q.key from queue q
         where q.run_after is null and not p_paused ? w.queue and c.queue = w.queue
           and q.queue = w.queue and q.key > w.key and q.key < c.key order by q.queue, q.key limit 1)
        union all
        (select q.queue, q.key from queue q
         where q.run_after is null and c.queue > w.queue and q.queue > w.queue and q.queue < c.queue order by q.queue, q.key limit 1)
        union all
        (select q.queue, q.key from queue q
         where q.run_after is null and c.queue > w.queue and q.queue = c.queue and q.key < c.key order by q.queue, q.key limit 1)
        union all
        select c.queue, c.key where c.queue is not null) s
      order by s.queue, s.key limit 1) x
    where w.n < p_lanes
  )
  select w.queue::text, w.key::text, w.n from walk w where w.n > 0 and not p_paused ? w.queue;
end
$$;

-- As in 0010, but of lanes in p_ranges only what lies in their ranges: {"queue": {"key": [[priority, seq, priority, seq, moved], …]}}, behind the first
-- place, up to the second, in order, without overlaps; moved: only jobs of the second's priority whose row was changed. Of each range p_want's part of the lane at most: behind as many there may be more.
-- Those lanes belong to the page like others. Plans: queue_waiting for the walk over lanes and the heads, queue_moved for what was changed.
create function look(p_queue text, p_key text, p_keys integer, p_want integer, p_starts jsonb, p_lookahead integer,
                     p_lane_queues text[], p_lane_keys text[], p_lane_depths integer[], p_from uuid, p_to uuid, p_ranges jsonb)
  returns table (queue text, key text, paged boolean, ahead boolean, wanted integer, retry_due_ms float8, id uuid, seq float8,
                 priority integer, task text, version integer, row_version text, created_ms float8, expires_ms float8,
                 tries smallint, attributes jsonb)
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
declare
  -- as keys of an object: found by halving, where thousands of queues are paused
  v_paused jsonb := coalesce((select jsonb_object_agg(c.queue, true) from queue_config c where c.paused), '{}');
  v_hot_queues text[];
  v_hot_keys text[];
  v_queues text[];
  v_keys text[];
begin
  if p_ranges <> '{}' then
    select array_agg(x.key), array_agg(y.key) into v_hot_queues, v_hot_keys
    from jsonb_each(p_ranges) x cross join lateral jsonb_object_keys(x.value) as y (key)
    where not v_paused ? x.key;
  end if;
  -- the lanes behind the place, and those up to it, as far as the page has room
  select array_agg(w.queue order by w.n), array_agg(w.key order by w.n) into v_queues, v_keys
  from walk_lanes(p_queue, p_key, p_keys, v_paused, v_hot_queues, v_hot_keys, false) w;
  if coalesce(cardinality(v_queues), 0) < p_keys and p_queue <> '' then
    select v_queues || array_agg(w.queue order by w.n), v_keys || array_agg(w.key order by w.n) into v_queues, v_keys
    from walk_lanes('', '', p_keys - coalesce(cardinality(v_queues), 0), v_paused,
      array(select h.queue from unnest(v_hot_queues, v_hot_keys) as h (queue, key)
            where (h.queue collate "C", h.key collate "C") < (p_queue, p_key)) || p_queue,
      array(select h.key from unnest(v_hot_queues, v_hot_keys) as h (queue, key)
            where (h.queue collate "C", h.key collate "C") < (p_queue, p_key)) || p_key, true) w;
  end if;
  return query
  with
  page as materialized (
    select x.queue collate "C" as queue, x.key collate "C" as key, x.n from unnest(v_queues, v_keys) with ordinality as x (queue, key, n)
  ),
  named as materialized (
    select x.queue collate "C" as queue, x.key collate "C" as key, x.depth from unnest(p_lane_queues, p_lane_keys, p_lane_depths) as x (queue, key, depth)
    union all
    (select q.queue, q.key, 1 from queue q
     where q.id between p_from and p_to and not v_paused ? q.queue
       and coalesce(q.run_after, '-infinity') = '-infinity' order by q.id desc limit 2000)
  ),
  depth as materialized (
    select greatest(1, ceil(p_want::float8 / greatest(1, count(*))))::integer as of_lane from page
  ),
  lanes as materialized (
    select y.*, (
      select date_part('epoch', r.run_after) * 1000 from queue r
      where r.run_after is not null and r.last_token is not null and r.queue = y.queue and r.key = y.key
      order by r.queue, r.key, r.run_after limit 1) as retry_due_ms
    from (
      select x.queue, x.key, bool_or(x.paged) as paged, min(x.n) as n, max(x.wanted) as wanted
      from (
        select p.queue, p.key, true as paged, p.n, (select of_lane from depth) as wanted from page p
        union all
        select named.queue, named.key, false, null, greatest(named.depth, (select of_lane from depth)) from named) x
      group by 1, 2) y
  ),
  parts as materialized (
    select l.queue, l.key, l.paged, l.n, l.wanted, l.retry_due_ms, false as ahead, r.n as part, r.moved, r.priority, r.seq, r.to_priority, r.to_seq
    from lanes l cross join lateral (
      select 1 as n, false as moved, -2147483648 as priority, -1::bigint as seq, 2147483647 as to_priority, 9223372036854775807 as to_seq
      where p_ranges -> l.queue -> l.key is null
      union all
      select x.n, (x.part -> 4)::boolean, (x.part -> 0)::integer, (x.part -> 1)::bigint, (x.part -> 2)::integer, (x.part -> 3)::bigint
      from jsonb_array_elements(p_ranges -> l.queue -> l.key) with ordinality as x (part, n)) r
    union all
    select l.queue, l.key, l.paged, l.n, p_lookahead, null, true, 1, false, s.priority, s.seq, 2147483647, 9223372036854775807
    from lanes l cross join lateral (
      select (p_starts -> l.queue -> l.key ->> 0)::integer as priority, (p_starts -> l.queue -> l.key ->> 1)::bigint as seq) s
    where s.seq is not null
  ),
  -- numbered, so that sorting the jobs compares numbers only, and finds them in order
  numbered as materialized (
    select p.*, row_number() over (order by p.n, p.queue, p.key, p.ahead, p.part) as place from parts p
  )
  select l.queue, l.key, l.paged, l.ahead, l.wanted, l.retry_due_ms, h.id, h.seq, h.priority, h.task, h.version, h.row_version,
         h.created_ms, h.expires_ms, h.tries, h.attributes
  from numbered l
  left join lateral (
    (select q.id, q.seq::float8 as seq, q.priority, q.task, q.payload_version as version, q.xmin::text as row_version,
            date_part('epoch', q.created) * 1000 as created_ms, date_part('epoch', q.expires_at) * 1000 as expires_ms,
            q.tries, q.attributes
     from queue q
     where not l.moved and q.run_after is null and q.queue = l.queue and q.key = l.key
       and (q.priority, q.seq) > (l.priority, l.seq) and (q.priority, q.seq) <= (l.to_priority, l.to_seq)
       and (q.expires_at is null or q.expires_at > clock_timestamp())
       and (select w.id from work_queue w where w.id = q.id) is null
     order by q.queue, q.key, q.priority, q.seq
     limit l.wanted)
    union all
    (select q.id, q.seq::float8 as seq, q.priority, q.task, q.payload_version, q.xmin::text,
            date_part('epoch', q.created) * 1000, date_part('epoch', q.expires_at) * 1000, q.tries, q.attributes
     from queue q
     where l.moved and q.moved and q.run_after is null and q.queue = l.queue and q.key = l.key
       and q.priority = l.to_priority and q.seq <= l.to_seq
       and (q.expires_at is null or q.expires_at > clock_timestamp())
       and (select w.id from work_queue w where w.id = q.id) is null
     order by q.queue, q.key, q.priority, q.seq
     limit l.wanted)
  ) h on true
  where l.part = 1 or h.id is not null
  order by l.place, h.priority, h.seq;
end
$$;

-- One text for the settings of all queues: another one after any change.
create function config_mark() returns text
  language sql stable security definer
  set search_path from current
as $$
  select count(*) || ' ' || coalesce(sum(c.xmin::text::bigint), 0) from queue_config c
$$;

-- Transactions that may have drawn numbers of jobs which nobody else can see yet: a lock on the table comes before the number, and goes after the commit.
create function enqueuers() returns text[]
  language sql stable security definer
  set search_path from current
as $$
  select array(
    select distinct l.virtualtransaction from pg_locks l
    where l.locktype = 'relation' and l.relation = 'queue'::regclass and l.mode = 'RowExclusiveLock' and l.granted
      and l.database = (select d.oid from pg_database d where d.datname = current_database()) and l.pid is distinct from pg_backend_pid())
$$;

-- The lowest position that is there, from this one on; null: none. Positions only grow, so nothing comes before it any more.
create function first_item(p_from bigint) returns bigint
  language sql stable security definer
  set search_path from current
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
  select w.position from work_queue w where w.position >= p_from order by w.position limit 1
$$;

-- As in 0024, of ranges; and who may commit jobs that come to lie before the places that they begin at.
create function tick(p_settled boolean, p_due boolean, p_questions_after bigint, p_queue text, p_key text, p_keys integer,
                     p_want integer, p_starts jsonb, p_lookahead integer, p_lane_queues text[], p_lane_keys text[], p_lane_depths integer[],
                     p_from uuid, p_to uuid, p_items_from bigint, p_ranges jsonb)
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
  state := tick_state(p_settled, p_items_from) || jsonb_build_object(
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

-- Whoever might call the shorter one may go on to.
do $$
declare
  v_grant record;
begin
  for v_grant in
    select a.grantee::regrole as role
    from pg_proc p, aclexplode(p.proacl) a
    where p.oid = 'tick(boolean, boolean, bigint, text, text, integer, integer, jsonb, integer, text[], text[], integer[], uuid, uuid, bigint)'::regprocedure
      and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function tick(boolean, boolean, bigint, text, text, integer, integer, jsonb, integer, text[], text[], integer[], uuid, uuid, bigint, jsonb) to %s', v_grant.role);
  end loop;
end
$$;

-- As in 0013, with less to send and to read. p_pool: that of all, where p_pools is null; p_bundles null: none. Returns the positions of the work items, in the order of
-- p_ids, separated by commas, and the ids of which none was made. No "on conflict" (a fifth of its time): nobody else makes work items, two leaders
-- wait for each other (assert_leader) before the statement below takes its snapshot, and one that is being removed has its job's row locked.
-- p_gone: jobs that were planned to have ended, without a look at what is in flight: where one of them has not, or a queue's settings are others than p_config
-- (config_mark), nothing is written, and at_ms is null. So such a plan keeps to the limits as others do.
create function dispatch(p_leader text, p_epoch bigint, p_gone uuid[], p_config text, p_ids uuid[], p_pool text, p_pools text[], p_versions xid[], p_bundles uuid[],
                         p_parts jsonb, p_settled bigint[], p_notify boolean)
  returns table (at_ms float8, positions text, missing uuid[])
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_batch bigint;
  v_now timestamptz;
  v_ids uuid[];
  v_positions text := '';
  v_missing uuid[] := '{}';
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  if p_gone is not null and (exists (select from queue q where q.id = any (p_gone)) or config_mark() is distinct from p_config) then
    return query select null::float8, '', p_ids;
    return;
  end if;
  v_now := clock_timestamp();
  if p_parts is not null then
    insert into policy_state as s (policy, epoch, state, saved)
    select x.key, p_epoch, x.value, v_now from jsonb_each(p_parts) x
    on conflict (policy) do update set epoch = excluded.epoch, state = excluded.state, saved = excluded.saved;
  end if;
  if cardinality(p_settled) > 0 then
    delete from settlement where n = any (p_settled);
  end if;
  if cardinality(p_ids) > 0 then
    v_batch := nextval('batch_number');
    with made as (
      insert into work_queue (batch, id, version, pool, task, dispatched, bundle, suspect)
      select v_batch, q.id, q.payload_version, coalesce(x.pool, p_pool), q.task, v_now, x.bundle, q.crashes > 0
      from unnest(p_ids, p_pools, p_versions, p_bundles) with ordinality as x (id, pool, version, bundle, n),
        lateral (
          select q.id, q.payload_version, q.task, q.crashes from queue q
          -- not "run_after is null": that invites the index of all waiting jobs, read whole for each id while it is thought empty
          where q.id = x.id and (x.version is null or q.xmin = x.version) and coalesce(q.run_after, '-infinity') = '-infinity'
            and (q.expires_at is null or q.expires_at > v_now)
            and (select w.id from work_queue w where w.id = q.id) is null
          for update skip locked) q
      order by x.n
      returning id, position)
    select array_agg(m.id), string_agg(m.position::text, ',') into v_ids, v_positions from made m;
    if v_ids is null or cardinality(v_ids) < cardinality(p_ids) then
      v_missing := array(select unnest(p_ids) except select unnest(v_ids));
    end if;
    if p_notify then
      perform pg_notify(current_schema() || ':work', x.pool) from (select unnest(p_pools) as pool union select p_pool) x where x.pool is not null;
    end if;
  end if;
  return query select extract(epoch from v_now)::float8 * 1000, coalesce(v_positions, ''), v_missing;
end
$$;

do $$
declare
  v_grant record;
begin
  for v_grant in
    select a.grantee::regrole as role
    from pg_proc p, aclexplode(p.proacl) a
    where p.oid = 'dispatch(text, bigint, uuid[], text[], xid[], uuid[], jsonb, bigint[], boolean)'::regprocedure and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function dispatch(text, bigint, uuid[], text, uuid[], text, text[], xid[], uuid[], jsonb, bigint[], boolean) to %s', v_grant.role);
  end loop;
end
$$;
