-- Walks over lanes with waiting jobs behind p_behind (queue, key), in order: p_lanes of them. Lanes of paused
-- queues do not count, and are skipped in one step. p_hot_queues, p_hot_keys: lanes in order that are returned
-- whether anything waits in them or not. The walk steps over them without an index lookup: they may have a
-- million dead rows there. p_end: the walk ends with the last of them.
create function walk_lanes(p_behind text[], p_lanes integer, p_paused jsonb, p_hot_queues text[], p_hot_keys text[], p_end boolean)
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
  walk (queue, key, n, hot) as ( -- hot: the place of the next hot lane
    select p_behind[1] collate "C", p_behind[2] collate "C", 0, 1 + (
      select count(*)::integer from unnest(p_hot_queues, p_hot_keys) as h (queue, key)
      where (h.queue collate "C", h.key collate "C") <= (p_behind[1], p_behind[2]))
    union all
    select x.queue, x.key, w.n + (not p_paused ? x.queue)::integer, w.hot + coalesce(((x.queue, x.key) = (c.queue, c.key))::integer, 0)
    from walk w
    cross join lateral (select p_hot_queues[w.hot] collate "C" as queue, p_hot_keys[w.hot] collate "C" as key offset 0) c
    cross join lateral (
      -- up to the next hot lane, each bounded by one column: before PostgreSQL 18, two don't end an index scan
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

-- Lists the lanes of one page in order: those behind p_read's queue and key, then those from the beginning up
-- to it, while the page has room. Lanes of its ranges are listed whether anything waits in them or not.
create function page_of_lanes(p_read jsonb, p_paused jsonb, out queues text[], out keys text[])
  language plpgsql stable
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_behind constant text[] := array[p_read ->> 'queue', p_read ->> 'key'];
  v_lanes constant integer := (p_read -> 'keys')::integer;
  v_hot_queues text[];
  v_hot_keys text[];
begin
  if p_read -> 'ranges' <> '{}' then
    select array_agg(h.queue order by h.queue, h.key), array_agg(h.key order by h.queue, h.key) into v_hot_queues, v_hot_keys
    from (select x.key collate "C" as queue, y.key collate "C" as key
          from jsonb_each(p_read -> 'ranges') x cross join lateral jsonb_object_keys(x.value) as y (key) where not p_paused ? x.key) h;
  end if;
  select array_agg(w.queue order by w.n), array_agg(w.key order by w.n) into queues, keys
  from walk_lanes(v_behind, v_lanes, p_paused, v_hot_queues, v_hot_keys, false) w;
  if coalesce(cardinality(queues), 0) < v_lanes and v_behind[1] <> '' then
    select queues || array_agg(w.queue order by w.n), keys || array_agg(w.key order by w.n) into queues, keys
    from walk_lanes('{"",""}', v_lanes - coalesce(cardinality(queues), 0), p_paused,
      array(select h.queue from unnest(v_hot_queues, v_hot_keys) as h (queue, key)
            where (h.queue collate "C", h.key collate "C") < (v_behind[1], v_behind[2])) || v_behind[1],
      array(select h.key from unnest(v_hot_queues, v_hot_keys) as h (queue, key)
            where (h.queue collate "C", h.key collate "C") < (v_behind[1], v_behind[2])) || v_behind[2], true) w;
  end if;
end
$$;

-- Returns attributes as a scheduler reads them; null: it can't, and leaves the job out. Legible is a flat
-- object of numbers that a double can hold, with a text of 64 KiB at most. Checks the numbers before it makes
-- a text: jsonb keeps 1e131071 in 16 bytes, and may be compressed.
create function legible(p_attributes jsonb) returns jsonb
  language plpgsql immutable parallel safe
  set search_path from current
as $$
begin
  if jsonb_typeof(p_attributes) <> 'object'
    or jsonb_path_exists(p_attributes, 'strict $.* ? (@.type() == "object" || @.type() == "array"
         || (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308 || (@ > -4e-324 && @ < 4e-324 && @ != 0))))', '{}', true)
    or octet_length(p_attributes::text) > 65536 then
    return null;
  end if;
  return p_attributes;
end
$$;

-- Lists the lanes that look reads, each once: those of its page, numbered in order, and those that are named
-- or have got a new job. wanted: jobs to read of each. A part of look, whose settings plan it.
create function lanes_to_read(p_read jsonb, p_paused jsonb, p_queues text[], p_keys text[])
  returns table (queue text, key text, paged boolean, n bigint, wanted integer, retry_due_ms float8)
  language plpgsql stable
  set search_path from current
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_from uuid := p_read ->> 'from';
  v_to uuid := p_read ->> 'to';
begin
  return query
  with
  page as materialized (
    select x.queue collate "C" as queue, x.key collate "C" as key, x.n from unnest(p_queues, p_keys) with ordinality as x (queue, key, n)
  ),
  named as materialized (
    select (x.lane ->> 0) collate "C" as queue, (x.lane ->> 1) collate "C" as key, (x.lane -> 2)::integer as depth
    from jsonb_array_elements(p_read -> 'named') as x (lane)
    union all
    (select q.queue, q.key, 1 from queue q
     where q.id between v_from and v_to and not p_paused ? q.queue
       and coalesce(q.run_after, '-infinity') = '-infinity' order by q.id desc limit 2000)
  ),
  depth as materialized (select greatest(1, ceil((p_read -> 'want')::float8 / greatest(1, count(*))))::integer as of_lane from page)
  select y.queue::text, y.key::text, y.paged, y.n, y.wanted, (
    select retry_due_ms(r.id, r.run_after) from queue r
    where r.run_after is not null and r.last_token is not null and r.queue = y.queue and r.key = y.key
    order by r.queue, r.key, r.run_after limit 1) as retry_due_ms
  from (
    select x.queue, x.key, bool_or(x.paged) as paged, min(x.n) as n, max(x.wanted) as wanted
    from (
      select p.queue, p.key, true as paged, p.n, (select of_lane from depth) as wanted from page p
      union all
      select named.queue, named.key, false, null, greatest(named.depth, (select of_lane from depth)) from named) x
    group by 1, 2) y;
end
$$;

-- Reads the first waiting jobs of lanes (a queue's keys). p_read, as one JSON object:
--   queue, key, keys   a page of that many lanes behind that one, wrapping around; skip: without {"queue": true}
--   want               jobs, shared out over the page
--   named              [[queue, key, depth], ...]: also these lanes, and at least that many jobs of each
--   from, to           also lanes with a waiting id between these (ids are ordered by time: sees new work at
--                      once, however many lanes there are)
--   starts, lookahead  {"queue": {"key": [priority, seq]}}: also lookahead jobs behind that place of its lane
--   ranges             {"queue": {"key": [[priority, seq, priority, seq, moved, free], ...]}}: in these
--                      lanes only places behind the first, up to the second; sorted, disjoint; each gives up
--                      to the lane's part of want. moved: only changed rows of the second priority. free: the
--                      leader knows of no items there: skips the lookup, a third of the time; dispatch checks
-- Returns JSON as text, which takes a third of the time of rows to read: a list for each lane, and for what is
-- ahead in it:
--   [queue, key, paged, ahead, wanted, retry_due_ms, [[id, seq, priority, task, version, row_version,
--    created_ms, expires_ms, tries, last, crashes, attributes, flow], ...]]
-- Lanes and jobs are in order. A job ends at created_ms if the rest is as in most jobs (null, 0, 0, 0, {}, none);
-- empty lists of jobs are left out. Skips paused queues, but not named lanes.
-- paged: the lane belongs to the page; the next page begins behind the last of them. ahead: behind a place of
-- starts. row_version: the xmin (dispatch refuses a changed job). created_ms: null for an infinite time.
-- last: 1 if the next try is the last, otherwise 0.
-- Plans: queue_waiting for the walk and the heads, queue_moved for changed rows; work_queue_id by a scalar
-- subquery, which can only be looked up. Small attributes are made a text twice: a tenth of legible()'s time.
create function look(p_read jsonb)
  returns text
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  -- as keys of an object, which a binary search finds, even if thousands of queues are paused
  v_paused jsonb := coalesce((select jsonb_object_agg(c.queue, true) from queue_config c where c.paused), '{}');
  v_ranges jsonb := p_read -> 'ranges';
  c_whole constant jsonb := '[[-2147483648, -9223372036854775808, 2147483647, 9223372036854775807, false, false]]';
  v_queues text[];
  v_keys text[];
begin
  select p.queues, p.keys into v_queues, v_keys from page_of_lanes(p_read, v_paused || coalesce(p_read -> 'skip', '{}')) p;
  return (
  with
  lanes as materialized (
    select l.queue collate "C" as queue, l.key collate "C" as key, l.paged, l.n, l.wanted, l.retry_due_ms
    from lanes_to_read(p_read, v_paused, v_queues, v_keys) l
  ),
  reads as materialized (
    select l.queue, l.key, l.paged, l.n, l.wanted, l.retry_due_ms, false as ahead, coalesce(v_ranges -> l.queue -> l.key, c_whole) as ranges
    from lanes l
    union all
    select l.queue, l.key, l.paged, l.n, (p_read -> 'lookahead')::integer, null, true,
           jsonb_build_array((p_read -> 'starts' -> l.queue -> l.key) || '[2147483647, 9223372036854775807, false, false]')
    from lanes l where p_read -> 'starts' -> l.queue -> l.key is not null
  ),
  -- numbered, so that sorting the jobs compares numbers only, and finds them in order
  numbered as materialized (
    select r.*, row_number() over (order by r.n, r.queue, r.key, r.ahead) as place,
           '[' || to_json(r.queue) || ',' || to_json(r.key) || ',' || r.paged || ',' || r.ahead || ',' || r.wanted || ','
             || coalesce(r.retry_due_ms::text, 'null') as head
    from reads r
  ),
  batched as materialized (
    select u.id from (select w.jobs from work_queue w where w.jobs is not null and w.position >= batches_from() limit 100000) b
    cross join lateral unnest(b.jobs) as u (id)
  )
  select '[' || coalesce(string_agg(l.head || coalesce(',[' || h.jobs || ']', '') || ']', ',' order by l.place), '') || ']'
  from numbered l
  left join lateral (
    select string_agg(j.jobs, ',' order by r.n) as jobs
    from (
      select x.n, (x.range -> 0)::integer as priority, (x.range -> 1)::bigint as seq, (x.range -> 2)::integer as to_priority, (x.range -> 3)::bigint as to_seq,
             (x.range -> 4)::boolean as moved, (x.range -> 5)::boolean as free
      from jsonb_array_elements(l.ranges) with ordinality as x (range, n) offset 0) r
    cross join lateral (
      -- one format() for most of them: concat and "||" take 1.7 times as long
      select string_agg(format('["%s",%s,%s,%s,%s,"%s",%s%s%s]', j.id, j.seq, j.priority, to_json(j.task), j.version, j.row_version,
               coalesce(j.created_ms::text, 'null'),
               case when j.expires_at is not null or j.tries <> 0 or j.crashes <> 0 or j.attributes <> '{}' then
                 concat(',', case when isfinite(j.expires_at) then (date_part('epoch', j.expires_at) * 1000)::text else 'null' end, ',',
                 j.tries, ',', (j.tries > 0 and j.tries + 1 >= j.max_tries)::integer, ',', j.crashes, ',', coalesce((
                   case when pg_column_size(j.attributes) <= 256 and pg_column_compression(j.attributes) is null
                          and octet_length(j.attributes::text) <= 65536 then j.attributes else legible(j.attributes) end)::text, 'null'))
                 when j.flow is not null then ',null,0,0,0,{}'
               end, case when j.flow is not null then ',"' || j.flow || '"' end), ',' order by j.priority, j.seq) as jobs
      from (
        (select q.id, q.seq, q.priority, q.task, q.payload_version as version, q.xmin as row_version,
                case when isfinite(q.created) then date_part('epoch', q.created) * 1000 end as created_ms, q.expires_at, q.tries, q.max_tries, q.crashes, q.attributes, q.flow
         from queue q
         where not r.moved and q.run_after is null and q.queue = l.queue and q.key = l.key
           and (q.priority, q.seq) > (r.priority, r.seq) and (q.priority, q.seq) <= (r.to_priority, r.to_seq)
           and (q.expires_at is null or q.expires_at > clock_timestamp())
           and (r.free or ((select w.id from work_queue w where w.id = q.id) is null and q.id not in (select b.id from batched b)))
         order by q.queue, q.key, q.priority, q.seq
         limit l.wanted)
        union all
        (select q.id, q.seq, q.priority, q.task, q.payload_version, q.xmin,
                case when isfinite(q.created) then date_part('epoch', q.created) * 1000 end, q.expires_at, q.tries, q.max_tries, q.crashes, q.attributes, q.flow
         from queue q
         where r.moved and q.moved and q.run_after is null and q.queue = l.queue and q.key = l.key
           and q.priority = r.to_priority and q.seq <= r.to_seq
           and (q.expires_at is null or q.expires_at > clock_timestamp())
           and ((select w.id from work_queue w where w.id = q.id) is null and q.id not in (select b.id from batched b))
         order by q.queue, q.key, q.priority, q.seq
         limit l.wanted)) j) j) h on true);
end
$$;

-- Finds, at each of these priorities of a lane, the first waiting job up to that seq whose row was not
-- changed: ticks begin behind it, and would miss it. Passes all dead rows of the lane while an old snapshot
-- is held: for a rescan beside the ticks.
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
        and (select w.id from work_queue w where w.id = q.id) is null and not in_batch(q.id)
      order by q.queue, q.key, q.priority, q.seq
      limit 1) h;
end
$$;

-- Lists the first items before a position: for a rescan beside the ticks, too.
create function items_behind(p_to bigint, p_max integer) returns bigint[]
  language sql stable security definer
  set search_path from current
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
  select array(select w.position from work_queue w where w.position < p_to order by w.position limit p_max)
$$;
