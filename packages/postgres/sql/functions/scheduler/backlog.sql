-- Writes work items of a lane's next jobs, which the scheduler has not read: it only knows that they may all go, in
-- their order. Reading, planning and naming each job would take twice as long. p_backlog:
--   queue, key, priority, after   jobs of this lane and priority, behind this seq
--   task, version                 only jobs of this kind that no rule tells apart: they never ran, do not expire,
--                                 belong to no flow and have no attributes. The first other one ends the list
--   jobs, size, slots             so many jobs at most, as batches of so many; if there are fewer, spread over the slots
--   pool, wake                    their pool, and the payload of its hint; wake absent: the pool
-- Returns the database's time, the positions of the work items in order, separated by commas, the number of jobs,
-- the size of the items (the last has what is left), the seq of the last job, and whether more such jobs may follow.
-- Exact, safe and asynchronous as dispatch(): one statement reads what waits and what is in flight. Jobs whose rows are
-- locked are passed over. They stay behind the cursor of the lane, so ticks find them.
-- Served by queue_waiting and work_queue_id.
create function dispatch_backlog(p_leader text, p_epoch bigint, p_backlog jsonb)
  returns table (at_ms float8, positions text, jobs integer, size integer, last bigint, more boolean)
  language plpgsql volatile security definer
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
  v_now timestamptz;
  v_queue constant text := p_backlog ->> 'queue';
  v_key constant text := p_backlog ->> 'key';
  v_priority constant integer := p_backlog -> 'priority';
  v_after constant bigint := p_backlog -> 'after';
  v_task constant text := p_backlog ->> 'task';
  v_version constant integer := p_backlog -> 'version';
  v_pool constant text := p_backlog ->> 'pool';
  v_jobs constant integer := p_backlog -> 'jobs';
  v_size integer := p_backlog -> 'size';
  v_slots constant integer := p_backlog -> 'slots';
  v_made integer;
  v_last bigint;
  v_positions text;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  v_now := clock_timestamp();
  with batched as materialized (
    select u.id from (select w.jobs from work_queue w where w.jobs is not null and w.position >= batches_from() limit 100000) b
    cross join lateral unnest(b.jobs) as u (id)
  ),
  waiting as materialized (
    select q.id, q.seq, q.timeout, q.alike, row_number() over (order by q.seq) as n
    from (
      select q.id, q.seq, q.timeout,
             q.task = v_task and q.payload_version = v_version and q.tries = 0 and q.crashes = 0 and q.expires_at is null
               and q.flow is null and pg_column_size(q.attributes) <= 8 and q.attributes = '{}' as alike
      from queue q
      where q.run_after is null and q.queue = v_queue and q.key = v_key and q.priority = v_priority and q.seq > v_after
        and (select w.id from work_queue w where w.id = q.id) is null and q.id not in (select b.id from batched b)
      order by q.queue, q.key, q.priority, q.seq limit v_jobs for update skip locked) q
  ),
  alike as materialized (
    select w.* from waiting w where w.n < coalesce((select min(o.n) from waiting o where not o.alike), v_jobs + 1)
  ),
  size as materialized (
    select case when count(*) = v_jobs then v_size else least(v_size, greatest(1, ceil(count(*)::float8 / v_slots)))::integer end as size from alike
  ),
  made as (
    insert into work_queue (position, id, jobs, version, pool, task, dispatched, timeout)
    overriding system value
    select nextval('work_queue_position_seq'), case when cardinality(g.ids) = 1 then g.ids[1] end,
           case when cardinality(g.ids) > 1 then g.ids end, v_version, v_pool, v_task, v_now, case when cardinality(g.ids) > 1 then g.timeout end
    from (
      select (a.n - 1) / (select s.size from size s) as row, array_agg(a.id order by a.n) as ids, max(a.timeout) as timeout from alike a group by 1) g
    order by g.row
    returning position)
  select (select count(*) from alike), (select s.size from size s), (select max(a.seq) from alike a),
         (select string_agg(m.position::text, ',' order by m.position) from made m)
  into v_made, v_size, v_last, v_positions;
  if v_made > 0 then
    perform hint('work', coalesce(p_backlog ->> 'wake', v_pool));
  end if;
  return query
    select extract(epoch from v_now)::float8 * 1000, coalesce(v_positions, ''), v_made, v_size, coalesce(v_last, v_after), v_made = v_jobs;
end
$$;
