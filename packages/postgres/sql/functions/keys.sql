-- Counts the jobs of the p_top keys that have the most, without delayed jobs; the rest of each queue is one
-- row with key null. Work items are always counted. Pending jobs are counted up to p_max altogether; beyond
-- that they are estimated from the sample that queue_numbers takes (exact is false), and a key with few jobs
-- may be missing.
create function key_numbers(p_top integer default 10, p_max integer default 10000)
  returns table (queue text, key text, pending bigint, ready bigint, running bigint, exact boolean)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_custom_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_all boolean := pg_stat_get_dead_tuples('queue'::regclass) <= 20 * p_max
    and (select count(*) from (select from queue q where q.run_after is null
                               order by q.queue, q.key, q.priority, q.seq limit p_max + 1) w) <= p_max;
  v_rows float8 := pg_stat_get_live_tuples('queue'::regclass);
  v_share float8 := least(100, 100 * 200.0 / greatest(1, pg_relation_size('queue') / current_setting('block_size')::integer));
begin
  return query
    with items as materialized (
      select q.queue, q.key, count(*) as items, count(w.lock_key) as running
      from work_item w cross join lateral (select q.queue, q.key from queue q where q.id = w.id offset 0) q
      group by q.queue, q.key
    ),
    sample as materialized (
      select q.queue, q.key, q.run_after is not null as is_delayed, count(*) as jobs
      from queue q tablesample system (v_share) repeatable (0) where not v_all group by 1, 2, 3
    ),
    waiting as (
      select q.queue, q.key, count(*) as jobs from queue q where v_all and q.run_after is null group by q.queue, q.key
      union all
      select s.queue, s.key,
             round(s.jobs * case when v_rows > p_max then v_rows / (select sum(a.jobs) from sample a) else 100 / v_share end)::bigint
      from sample s where not s.is_delayed
    ),
    keys as (
      select coalesce(w.queue, i.queue) as queue, coalesce(w.key, i.key) as key,
             greatest(0, coalesce(w.jobs, 0) - coalesce(i.items, 0)) as pending,
             coalesce(i.items - i.running, 0) as ready, coalesce(i.running, 0) as running
      from waiting w full join items i on i.queue = w.queue and i.key = w.key
    ),
    ranked as (
      select k.*, row_number() over (order by k.pending + k.ready + k.running desc, k.queue, k.key) <= p_top as is_top from keys k
    )
    select r.queue::text, case when r.is_top then r.key::text end, sum(r.pending)::bigint, sum(r.ready)::bigint, sum(r.running)::bigint, v_all
    from ranked r group by r.queue, case when r.is_top then r.key::text end
    order by case when r.is_top then r.key::text end is null, sum(r.pending + r.ready + r.running) desc, 1, 2;
end
$$;

-- Counts waiting jobs by queue, task and payload version: all of them up to p_max. If more wait, it reads the
-- sample that queue_numbers takes and the 1,000 smallest ids, and jobs is the number found there. Jobs that
-- no node runs stay, and so get to be among the smallest ids.
create function waiting_tasks(p_max integer default 10000)
  returns table (queue text, task text, payload_version integer, jobs bigint)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_custom_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_clean boolean := pg_stat_get_dead_tuples('queue'::regclass) <= 20 * p_max;
  v_all boolean := v_clean and (select count(*) from (select from queue q where q.run_after is null
                                                       order by q.queue, q.key, q.priority, q.seq limit p_max + 1) w) <= p_max;
  v_share float8 := least(100, 100 * 200.0 / greatest(1, pg_relation_size('queue') / current_setting('block_size')::integer));
begin
  return query
    select j.queue::text, j.task::text, j.payload_version, count(*)
    from (
      select q.id, q.queue, q.task, q.payload_version from queue q where v_all and q.run_after is null
      union
      select q.id, q.queue, q.task, q.payload_version
      from queue q tablesample system (v_share) repeatable (0) where not v_all and q.run_after is null
      union
      select e.id, e.queue, e.task, e.payload_version
      from (select q.id, q.queue, q.task, q.payload_version, q.run_after from queue q
            where v_clean and not v_all order by q.id limit 1000) e
      where e.run_after is null) j
    group by 1, 2, 3;
end
$$;
