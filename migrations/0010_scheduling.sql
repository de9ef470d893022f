-- pgqueue 0010: what a scheduler needs that sees everything: limits, the exact set of work items, ended attempts.
-- compatible: yes (older schedulers and workers go on with the functions they know)

-- Limits, changed while running, count from the next tick on. Null: none.
alter table queue_config
  add column concurrency     integer check (concurrency >= 0),
  add column key_concurrency integer check (key_concurrency >= 0),
  add column rate            float8 check (rate > 0 and rate < 'Infinity'),
  add column rate_burst      float8 check (rate_burst >= 1 and rate_burst < 'Infinity'),
  add column key_rate        float8 check (key_rate > 0 and key_rate < 'Infinity'),
  add column key_rate_burst  float8 check (key_rate_burst >= 1 and key_rate_burst < 'Infinity'),
  add column weight          float8 not null default 1 check (weight > 0 and weight < 'Infinity'),
  add constraint queue_config_rate_whole check ((rate is null) = (rate_burst is null)),
  add constraint queue_config_key_rate_whole check ((key_rate is null) = (key_rate_burst is null));
comment on column queue_config.rate is 'Jobs a second, and at most rate_burst at once: over any window of w seconds at most rate * w + rate_burst are dispatched.';

alter table work_queue
  add column dispatched timestamptz,
  add column bundle uuid;
-- not with "add column": that would write every row anew under an exclusive lock
alter table work_queue alter column dispatched set default clock_timestamp();
comment on column work_queue.bundle is 'Jobs that one handler call takes together share it: the id of the first of them. Null: the job runs alone.';

alter table history add column dispatched timestamptz;

-- Jobs of a key that wait for their retry or the end of a snooze: they hold the line of an ordered key.
create index queue_retrying on queue (queue, key, run_after) where run_after is not null and last_token is not null;

-- Attempts that ended, one row a batch, for a scheduler whose policy needs to know (scheduler_lease.feed). It removes what it has
-- read, together with its next batch. Unlogged: a crash of Postgres that loses them leaves estimates where true runtimes would stand.
create unlogged table settlement (
  n         bigint generated always as identity primary key,
  at        timestamptz not null,
  positions bigint[]    not null,
  verdicts  text[]      not null,
  busy_ms   float4[]    not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

alter table scheduler_lease add column feed boolean not null default false;

-- Whether ended attempts are recorded from now on; those from before have nobody who could tell what they were.
create function set_feed(p_leader text, p_epoch bigint, p_on boolean) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  update scheduler_lease l set feed = p_on
  where l.leader = p_leader and l.epoch = p_epoch and l.expires > clock_timestamp();
  if not found then
    raise exception 'scheduler % no longer leads in epoch %', p_leader, p_epoch using errcode = 'PQ002';
  end if;
  delete from settlement;
end
$$;

-- What a tick needs beside its lanes, as one JSON value: live nodes, every work item (positions by pool and by who holds them), the
-- queues that differ from the defaults, ended attempts where p_settled, and whether a sweep of leases or nodes would find anything.
-- This and look() are stable: in one statement both see one snapshot. An item that is gone here has its settlement here, and the job
-- that it was is delayed or ended there.
create function tick_state(p_settled boolean) returns jsonb
  -- not in SQL: until PostgreSQL 18 its plan is made at every call
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
begin
  return (
  with working as materialized (
    select n.id, n.pool, n.slots, n.tasks, n.state, n.heartbeat > clock_timestamp() - n.lost_after_ms * interval '1 millisecond' as beats
    from node n where n.state in ('alive', 'draining')
  ),
  items as materialized (
    select w.pool, w.lock_key, array_agg(w.position) as positions, min(w.lock_timeout) as lock_timeout
    from work_queue w group by 1, 2
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
      or exists (select from items i where i.lock_key is not null and i.lock_key not in (select n.id from working n))));
end
$$;

-- What the jobs of work items are, for a scheduler that did not write them itself. Served by work_queue's and queue's primary keys.
create function item_facts(p_positions bigint[])
  returns table ("position" bigint, pool text, bundle uuid, dispatched_ms float8, id uuid, queue text, key text, task text,
                 version integer, priority integer, seq bigint, created_ms float8, expires_ms float8, attributes jsonb, tries smallint)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  select w.position, w.pool, w.bundle, extract(epoch from w.dispatched)::float8 * 1000, q.id, q.queue, q.key, q.task,
         q.payload_version, q.priority, q.seq, extract(epoch from q.created)::float8 * 1000,
         extract(epoch from q.expires_at)::float8 * 1000, q.attributes, q.tries
  from work_queue w cross join lateral (
    select q.* from queue q where q.id = w.id offset 0) q
  where w.position = any (p_positions)
$$;

-- The first few waiting jobs of lanes (a queue's keys): of a page of p_keys lanes behind (p_queue, p_key), wrapping around; of the lanes
-- named in p_lane_queues and p_lane_keys, p_lane_depths of each at least; and of those in which a job with an id from p_from to p_to waits (ids are made in the order
-- of time: new work is seen at once, however many lanes there are). Every lane that was looked at gives a row, with a null id where
-- nothing of it waits without a work item. Paused queues are passed over, unless one of their lanes is named.
-- wanted: how many jobs were looked for; p_want are shared out over the page. p_starts {"queue": {"key": [priority, seq]}}: of these lanes,
-- as far as they are looked at, p_lookahead jobs behind that place, too (ahead). paged: whether it belongs to the page, in whose order: the last of them is where the next page begins.
-- row_version is the row's xmin: dispatch refuses a job that was changed since.
-- Plans: queue_waiting for the walk over lanes and the heads; work_queue_id by a scalar subquery, which can only be looked up.
create function look(p_queue text, p_key text, p_keys integer, p_want integer, p_starts jsonb, p_lookahead integer,
                     p_lane_queues text[], p_lane_keys text[], p_lane_depths integer[], p_from uuid, p_to uuid)
  returns table (n bigint, queue text, key text, paged boolean, ahead boolean, wanted integer, retry_due_ms float8, id uuid, seq bigint,
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
begin
  return query
  with recursive
  -- the lanes behind the place …
  behind (queue, key, n) as (
    (select q.queue, q.key, 1 from queue q
     where q.run_after is null and (q.queue, q.key) > (p_queue, p_key) order by q.queue, q.key limit 1)
    union all
    select x.queue, x.key, b.n + (not v_paused ? b.queue)::integer
    from behind b cross join lateral (
      -- past a paused queue at one step
      (select q.queue, q.key from queue q
       where q.run_after is null and not v_paused ? b.queue and (q.queue, q.key) > (b.queue, b.key) order by q.queue, q.key limit 1)
      union all
      (select q.queue, q.key from queue q
       where q.run_after is null and v_paused ? b.queue and q.queue > b.queue order by q.queue, q.key limit 1)) x
    where b.n + (not v_paused ? b.queue)::integer <= p_keys
  ),
  -- … and those up to it, as far as the page has room
  upto (queue, key, n) as (
    (select q.queue, q.key, 1 + (select count(*) from behind b where not v_paused ? b.queue) from queue q
     where q.run_after is null and (q.queue, q.key) <= (p_queue, p_key) order by q.queue, q.key limit 1)
    union all
    select x.queue, x.key, u.n + (not v_paused ? u.queue)::integer
    from upto u cross join lateral (
      (select q.queue, q.key from queue q
       where q.run_after is null and not v_paused ? u.queue and (q.queue, q.key) > (u.queue, u.key)
         and (q.queue, q.key) <= (p_queue, p_key) order by q.queue, q.key limit 1)
      union all
      (select q.queue, q.key from queue q
       where q.run_after is null and v_paused ? u.queue and q.queue > u.queue
         and (q.queue, q.key) <= (p_queue, p_key) order by q.queue, q.key limit 1)) x
    where u.n + (not v_paused ? u.queue)::integer <= p_keys
  ),
  page as materialized (
    select b.queue, b.key, b.n from behind b where not v_paused ? b.queue and b.n <= p_keys
    union all
    select u.queue, u.key, u.n from upto u where not v_paused ? u.queue and u.n <= p_keys
  ),
  named as materialized (
    select x.queue, x.key, x.depth from unnest(p_lane_queues, p_lane_keys, p_lane_depths) as x (queue, key, depth)
    union all
    (select q.queue, q.key, 1 from queue q
     where q.id between p_from and p_to and not v_paused ? q.queue
       and coalesce(q.run_after, '-infinity') = '-infinity' order by q.id desc limit 2000)
  ),
  depth as materialized (
    select greatest(1, ceil(p_want::float8 / greatest(1, count(*))))::integer as of_lane from page
  ),
  lanes as materialized (
    select x.queue, x.key, bool_or(x.paged) as paged, min(x.n) as n, max(x.wanted) as wanted
    from (
      select p.queue, p.key, true as paged, p.n, (select of_lane from depth) as wanted from page p
      union all
      select named.queue, named.key, false, null, greatest(named.depth, (select of_lane from depth)) from named) x
    group by 1, 2
  ),
  parts as materialized (
    select l.queue, l.key, l.paged, l.n, l.wanted, false as ahead, -2147483648 as priority, -1::bigint as seq from lanes l
    union all
    select l.queue, l.key, l.paged, l.n, p_lookahead, true, s.priority, s.seq
    from lanes l cross join lateral (
      select (p_starts -> l.queue -> l.key ->> 0)::integer as priority, (p_starts -> l.queue -> l.key ->> 1)::bigint as seq) s
    where s.seq is not null
  )
  select row_number() over (order by l.n, l.queue, l.key, l.ahead, h.priority, h.seq), l.queue, l.key, l.paged, l.ahead, l.wanted,
         case when not l.ahead then (
           select extract(epoch from r.run_after)::float8 * 1000 from queue r
           where r.run_after is not null and r.last_token is not null and r.queue = l.queue and r.key = l.key
           order by r.queue, r.key, r.run_after limit 1) end,
         h.id, h.seq, h.priority, h.task, h.version, h.row_version, h.created_ms, h.expires_ms, h.tries, h.attributes
  from parts l
  left join lateral (
    select q.id, q.seq, q.priority, q.task, q.payload_version as version, q.xmin::text as row_version,
           extract(epoch from q.created)::float8 * 1000 as created_ms, extract(epoch from q.expires_at)::float8 * 1000 as expires_ms,
           q.tries, q.attributes
    from queue q
    where q.run_after is null and q.queue = l.queue and q.key = l.key and (q.priority, q.seq) > (l.priority, l.seq)
      and (q.expires_at is null or q.expires_at > clock_timestamp())
      and (select w.id from work_queue w where w.id = q.id) is null
    order by q.queue, q.key, q.priority, q.seq
    limit l.wanted
  ) h on true;
end
$$;

-- Writes one plan: work items in the plan's order, and the parts of the policy's state that changed, under the leader's epoch.
-- Returns the database's time of it all, and the ids with their positions; jobs that are missing were taken, locked, moved, changed or
-- ended since they were read. p_versions: each row's xmin as it was read, so that no limit is counted by what a job no longer is; null: unchecked.
-- p_settled: the rows of settlement that the plan has taken into account.
--
-- Exact: only the leader writes work items, and one whose write has an unknown outcome gives up its epoch before it plans again. So
-- what a plan counted as in flight, plus what it writes, is all there is.
-- A job's row is locked before its work item is written (SKIP LOCKED: never waits behind an application's transaction). A job that
-- has an item already is left out before the insert would meet it: there it would wait for a settlement, which waits for this lock.
-- Commits asynchronously: a crash of Postgres that loses it only puts the jobs back to pending.
create function dispatch(p_leader text, p_epoch bigint, p_ids uuid[], p_pools text[], p_versions xid[], p_bundles uuid[],
                         p_parts jsonb, p_settled bigint[], p_notify boolean)
  returns table (at_ms float8, ids uuid[], positions bigint[])
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
  v_ids uuid[] := '{}';
  v_positions bigint[] := '{}';
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
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
      insert into work_queue (batch, id, version, pool, task, dispatched, bundle)
      select v_batch, q.id, q.payload_version, x.pool, q.task, v_now, x.bundle
      from unnest(p_ids, p_pools, p_versions, p_bundles) with ordinality as x (id, pool, version, bundle, n),
        lateral (
          select q.id, q.payload_version, q.task from queue q
          -- not "run_after is null": that invites the index of all waiting jobs, read whole for each id while it is thought empty
          where q.id = x.id and (x.version is null or q.xmin = x.version) and coalesce(q.run_after, '-infinity') = '-infinity'
            and (q.expires_at is null or q.expires_at > v_now)
            and (select w.id from work_queue w where w.id = q.id) is null
          for update skip locked) q
      order by x.n
      on conflict (id) do nothing
      returning id, position)
    select array_agg(m.id), array_agg(m.position) into v_ids, v_positions from made m;
    if p_notify then
      perform pg_notify(current_schema() || ':work', pool) from (select distinct unnest(p_pools) as pool) pools;
    end if;
  end if;
  return query select extract(epoch from v_now)::float8 * 1000, coalesce(v_ids, '{}'), coalesce(v_positions, '{}');
end
$$;

-- Takes back work items that no node has leased: their jobs are pending again, and are planned anew. Returns those that were; the
-- others are being claimed at this moment.
create function take_back(p_leader text, p_epoch bigint, p_ids uuid[]) returns setof uuid
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  return query
    delete from work_queue w
    where w.position = any (array(
      select r.position from work_queue r where r.id = any (p_ids) and r.lock_key is null for update skip locked))
    returning w.id;
end
$$;

-- As in 0005; where a scheduler's policy needs to know, the ended attempts are recorded, too.
create or replace function settle(p_ids uuid[], p_tokens uuid[], p_outcomes text[], p_delays_ms float8[], p_data text[], p_repeat boolean default false)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_ids uuid[];
  v_verdicts text[];
  v_positions bigint[];
  v_busy float4[];
begin
  if exists (select from unnest(p_outcomes) o where o is null or o not in ('done', 'retry', 'dead', 'snooze', 'cancelled')) then
    raise exception 'unknown outcome in %', p_outcomes using errcode = '22023';
  end if;
  -- a shorter list would be filled up with nulls: an item removed, and nothing done to its job
  if cardinality(p_ids) <> any (array[coalesce(cardinality(p_tokens), -1), coalesce(cardinality(p_outcomes), -1),
                                       coalesce(cardinality(p_delays_ms), -1), coalesce(cardinality(p_data), -1)]) then
    raise exception 'ids, tokens, outcomes, delays and data must be lists of one length' using errcode = '22023';
  end if;
  with input as materialized (
    select x.id, x.token, x.outcome, least(greatest(coalesce(nullif(x.delay_ms, 'NaN'), 0), 0), 3.2e11) as delay_ms, x.data::jsonb as data
    from unnest(p_ids, p_tokens, p_outcomes, p_delays_ms, p_data) as x (id, token, outcome, delay_ms, data)
  ),
  gone as (
    delete from work_queue w using input i
    where w.id = any (p_ids) and w.id = i.id and w.lock_token = i.token
    returning w.id, w.position, w.lock_key, w.lock_token, w.started, w.dispatched, w.cancelled is not null as stop, i.outcome, i.delay_ms, i.data
  ),
  -- Where some jobs end and others go back, that is two passes over QUEUE: so their locks are taken first, in the order of ids
  -- that everyone keeps.
  locked as materialized (
    select q.id from queue q
    where p_outcomes && array['retry', 'snooze'] and q.id = any (p_ids) and q.id in (select g.id from gone g)
    order by q.id for update
  ),
  ended as (
    delete from queue q using gone g
    where q.id = any (p_ids) and q.id = g.id and (select count(*) from locked) >= 0
      and (g.outcome in ('done', 'dead', 'cancelled') or (g.outcome in ('retry', 'snooze') and g.stop)
           or (g.outcome = 'retry' and q.tries + 1 >= q.max_tries))
    returning q.*, g.position, g.lock_key, g.lock_token, g.started, g.dispatched, g.data, g.stop, g.outcome,
      case when g.outcome = 'dead' then 'gave_up' when g.outcome = 'retry' and not g.stop then 'max_tries' end as reason,
      case when g.outcome in ('retry', 'dead') then with_error(q.errors, g.data, g.lock_key, q.tries + 1, v_now) else q.errors end as all_errors
  ),
  again as (
    update queue q
    set run_after = v_now + g.delay_ms * interval '1 millisecond', last_token = g.lock_token,
        tries = q.tries + (g.outcome = 'retry')::integer,
        errors = case when g.outcome = 'retry' then with_error(q.errors, g.data, g.lock_key, q.tries + 1, v_now) else q.errors end
    from gone g
    where q.id = any (p_ids) and q.id = g.id and not g.stop and (select count(*) from locked) >= 0
      and (g.outcome = 'snooze' or (g.outcome = 'retry' and q.tries + 1 < q.max_tries))
    returning q.id, g.position, g.started, g.outcome
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, result, errors, trace, dispatched)
    select e.id, e.queue, e.task, e.key, e.priority, case when e.outcome = 'done' then 'done' else 'cancelled' end,
           e.tries + (e.outcome = 'retry')::integer, e.crashes, e.created, e.started, v_now, e.payload_version, e.lock_key,
           e.lock_token, e.unique_key, e.attributes, e.payload, case when e.outcome = 'done' then e.data end, e.all_errors, e.trace, e.dispatched
    from ended e
    where e.reason is null
      and coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  ),
  buried as (
    insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                             timeout, payload_version, node, token, unique_key, attributes, payload, retry, trace, errors)
    select e.id, e.queue, e.task, e.key, e.priority, e.reason, e.tries + 1, e.max_tries, e.crashes, e.max_crashes, e.created,
           v_now, e.timeout, e.payload_version, e.lock_key, e.lock_token, e.unique_key, e.attributes, e.payload, e.retry,
           e.trace, e.all_errors
    from ended e
    where e.reason is not null
    -- whoever enqueues the id of a dead job once more has a newer job: its death must not fail for the older one's
    on conflict (id) do update
      set (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
           token, unique_key, attributes, payload, retry, trace, errors) = (select excluded.*)
  ),
  verdicts (id, verdict, position, started) as (
  select e.id, case when e.reason is not null then 'dead' when e.outcome = 'done' then 'done' else 'cancelled' end, e.position, e.started
  from ended e
  union all
  select a.id, a.outcome, a.position, a.started from again a
  )
  select array_agg(v.id), array_agg(v.verdict), array_agg(v.position), array_agg((extract(epoch from v_now - v.started) * 1000)::float4)
  into v_ids, v_verdicts, v_positions, v_busy from verdicts v;
  if v_ids is not null and (select l.feed from scheduler_lease l) then
    insert into settlement (at, positions, verdicts, busy_ms) values (v_now, v_positions, v_verdicts, v_busy);
  end if;
  return query select x.id, x.verdict from unnest(v_ids, v_verdicts) as x (id, verdict);
  if p_repeat then
    return query
      select x.id, 'repeated'::text
      from unnest(p_ids, p_tokens) as x (id, token)
      -- scalar subqueries can only be looked up; EXISTS under OR is hashed, from a scan of everything
      where x.id <> all (coalesce(v_ids, '{}')) -- not those of this very call
        and ((select h.id from history h where h.id = x.id and h.token = x.token limit 1) is not null
             or (select d.id from dead_letter d where d.id = x.id and d.token = x.token) is not null
             or (select q.id from queue q where q.id = x.id and q.last_token = x.token) is not null);
  end if;
end
$$;

-- As in 0006, with the same record.
create or replace function crash(p_positions bigint[], p_why text, p_wait boolean)
  returns table (job_id uuid, verdict text)
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_nestloop = off
  set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_ids uuid[] := array(select w.id from work_queue w where w.position = any (p_positions) and w.lock_key is not null);
  v_feed boolean := (select l.feed from scheduler_lease l);
begin
  if p_wait then
    perform from queue q where q.id = any (v_ids) order by q.id for update;
  else
    v_ids := array(select q.id from queue q where q.id = any (v_ids) for update skip locked)
      || array(select x.id from unnest(v_ids) x (id) where (select q.id from queue q where q.id = x.id) is null);
  end if;
  return query
  with lost as materialized (
    select w.position, w.id, w.lock_key, w.lock_token, w.started, w.dispatched, w.cancelled is not null as stop
    from work_queue w where w.position = any (p_positions) and w.id = any (v_ids) and w.lock_key is not null
  ),
  counted as (
    update queue q
    set crashes = q.crashes + 1,
        errors = with_error(q.errors, jsonb_build_object('kind', 'crash', 'message', p_why), l.lock_key, q.tries + 1, v_now)
    from lost l
    where q.id = any (v_ids) and q.id = l.id and not l.stop and q.crashes + 1 < q.max_crashes
    returning q.id
  ),
  ended as (
    delete from queue q using lost l
    where q.id = any (v_ids) and q.id = l.id and (l.stop or q.crashes + 1 >= q.max_crashes)
    returning q.*, l.lock_key, l.lock_token, l.started, l.dispatched, l.stop,
      with_error(q.errors, jsonb_build_object('kind', 'crash', 'message', p_why), l.lock_key, q.tries + 1, v_now) as all_errors
  ),
  freed as (
    update work_queue w
    set lock_key = null, lock_token = null, lock_timeout = null, started = null, progress = null
    from lost l
    where w.position = any (p_positions) and w.position = l.position and l.id in (select c.id from counted c)
    returning w.id
  ),
  removed as (
    delete from work_queue w using lost l
    where w.position = any (p_positions) and w.position = l.position and l.id not in (select c.id from counted c)
    returning w.id
  ),
  kept as (
    insert into history (id, queue, task, key, priority, outcome, tries, crashes, created, started, finished, payload_version,
                         node, token, unique_key, attributes, payload, errors, trace, dispatched)
    select e.id, e.queue, e.task, e.key, e.priority, 'cancelled', e.tries, e.crashes + 1, e.created, e.started, v_now,
           e.payload_version, e.lock_key, e.lock_token, e.unique_key, e.attributes, e.payload, e.all_errors, e.trace, e.dispatched
    from ended e
    where e.stop and coalesce((select c.retention from queue_config c where c.queue = e.queue), interval '7 days') > interval '0'
  ),
  buried as (
    insert into dead_letter (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died,
                             timeout, payload_version, node, token, unique_key, attributes, payload, retry, trace, errors)
    select e.id, e.queue, e.task, e.key, e.priority, 'crash_limit', e.tries, e.max_tries, e.crashes + 1, e.max_crashes,
           e.created, v_now, e.timeout, e.payload_version, e.lock_key, e.lock_token, e.unique_key, e.attributes, e.payload,
           e.retry, e.trace, e.all_errors
    from ended e where not e.stop
    on conflict (id) do update
      set (id, queue, task, key, priority, reason, tries, max_tries, crashes, max_crashes, created, died, timeout, payload_version, node,
           token, unique_key, attributes, payload, retry, trace, errors) = (select excluded.*)
  ),
  fed as (
    insert into settlement (at, positions, verdicts, busy_ms)
    select v_now, array_agg(l.position), array_agg('crash'::text), array_agg((extract(epoch from v_now - l.started) * 1000)::float4)
    from lost l where v_feed having count(*) > 0
  )
  select f.id, 'ready'::text from freed f
  union all
  select e.id, case when e.stop then 'cancelled' else 'dead' end from ended e;
end
$$;
