-- Counts the jobs that wait and run, by queue. Up to p_max jobs altogether, every job is counted. Beyond
-- that, a queue with no more jobs than its share of p_max is still counted. The number of jobs in the others
-- is estimated (exact is false): the row count of the server's statistics, divided as in a sample of 200
-- pages, the same pages at every call. The oldest job of such a queue is the oldest one in the sample and
-- among the 1,000 smallest ids.
--
-- Work items are few, and always counted. An index scan passes the entries of ended jobs until vacuum removes
-- them: when vacuum is held back and there are more than 20 * p_max dead rows, no index is walked and
-- everything is estimated.
create function waiting_numbers(p_max integer)
  returns table (queue text, exact boolean, delayed bigint, pending bigint, ready bigint, running bigint, oldest timestamptz,
                 claimed timestamptz)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_custom_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_clean boolean := pg_stat_get_dead_tuples('queue'::regclass) <= 20 * p_max;
  v_late boolean := false; -- all delayed jobs can be counted
  v_all boolean := false;
  v_queues text[] := '{}';
  v_each integer;
  v_rows float8 := pg_stat_get_live_tuples('queue'::regclass);
  v_share float8 := least(100, 100 * 200.0 / greatest(1, pg_relation_size('queue') / current_setting('block_size')::integer));
begin
  if v_clean then
    v_late := (select count(*) from (select from queue q where q.run_after is not null order by q.run_after limit p_max + 1) d) <= p_max;
    v_all := v_late and (select count(*) from (select from queue q where q.run_after is null
                                               order by q.queue, q.key, q.priority, q.seq limit p_max + 1) w) <= p_max;
    v_queues := array(
      with recursive names as (
        (select q.queue from queue q where q.run_after is null order by q.queue limit 1)
        union all
        select (select q.queue from queue q where q.run_after is null and q.queue > n.queue order by q.queue limit 1)
        from names n where n.queue is not null)
      select n.queue from names n where n.queue is not null limit case when v_all then p_max else p_max / 10 end);
  end if;
  v_each := case when v_all then p_max + 1 else greatest(10, p_max / greatest(1, cardinality(v_queues))) end;
  return query
    with items as materialized (
      select q.queue, w.id, w.lock_key, w.started
      from work_item w cross join lateral (select q.queue from queue q where q.id = w.id offset 0) q
    ),
    held as (
      select i.queue, count(*) as items, count(i.lock_key) as running, min(i.started) as claimed from items i group by i.queue
    ),
    -- materialized: the ids are looked up in a hash, whatever row count the planner expects
    busy as materialized (select i.id from items i where i.lock_key is not null),
    counted as materialized (
      select n.queue, count(*) as jobs, min(j.created) filter (where j.id not in (select b.id from busy b)) as oldest
      from unnest(v_queues) n (queue)
      cross join lateral (select q.id, q.created from queue q where q.run_after is null and q.queue = n.queue
                          order by q.queue, q.key, q.priority, q.seq limit v_each) j
      group by n.queue
    ),
    late as materialized (
      select q.queue, count(*) as jobs from queue q where v_late and q.run_after is not null group by q.queue
    ),
    sample as materialized (
      select q.queue, q.run_after is not null as is_delayed, count(*) as jobs,
             min(q.created) filter (where q.id not in (select b.id from busy b)) as oldest
      from queue q tablesample system (v_share) repeatable (0) where not v_all group by 1, 2
    ),
    early as materialized (
      select e.queue, min(e.created) as oldest
      from (select q.queue, q.created, q.run_after, q.id from queue q where v_clean and not v_all order by q.id limit 1000) e
      where e.run_after is null and e.id not in (select b.id from busy b) group by e.queue
    ),
    -- parts that were not counted to their end
    parts as materialized (
      select n.queue, false as is_delayed, coalesce(s.jobs, 0) as jobs, coalesce(c.jobs, 0) as known
      from (select c.queue from counted c where c.jobs >= v_each
            union select s.queue from sample s where not s.is_delayed and s.queue not in (select c.queue from counted c)) n
      left join counted c on c.queue = n.queue
      left join sample s on s.queue = n.queue and not s.is_delayed
      union all
      select s.queue, true, s.jobs, 0 from sample s where s.is_delayed and not v_late
    ),
    rest as (
      select coalesce(case when v_rows > p_max
                           then greatest(0, v_rows - coalesce((select sum(c.jobs) from counted c where c.jobs < v_each), 0)
                                                   - coalesce((select sum(l.jobs) from late l), 0)) / nullif(sum(p.jobs), 0)
                           else 100 / v_share end, 1) as factor
      from parts p
    ),
    guessed as (
      select p.queue, p.is_delayed, greatest(p.known, round(p.jobs * r.factor))::bigint as jobs from parts p, rest r
    )
    select e.queue::text, g.queue is null and d.queue is null, coalesce(d.jobs, l.jobs, 0),
           greatest(0, coalesce(g.jobs, c.jobs, 0) - coalesce(h.items, 0)), coalesce(h.items - h.running, 0), coalesce(h.running, 0),
           case when g.queue is null then c.oldest else least(c.oldest, s.oldest, y.oldest) end, h.claimed
    from (select c.queue from counted c union select l.queue from late l union select s.queue from sample s
          union select h.queue from held h) e
    left join guessed g on g.queue = e.queue and not g.is_delayed
    left join guessed d on d.queue = e.queue and d.is_delayed
    left join counted c on c.queue = e.queue
    left join late l on l.queue = e.queue
    left join sample s on s.queue = e.queue and not s.is_delayed
    left join early y on y.queue = e.queue
    left join held h on h.queue = e.queue;
end
$$;

-- Counts dead letters by queue, up to p_max / 4; beyond that they are estimated as waiting_numbers does.
-- Counts the jobs that ended in the last five minutes, or in the shorter time in which the newest p_max jobs
-- ended. Uses statement_timestamp(): an index can't be searched for a volatile function.
create function ended_numbers(p_max integer)
  returns table (queue text, exact boolean, dead bigint, window_s float8, failed bigint, attempts bigint, done bigint, died bigint)
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_custom_plan
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := statement_timestamp();
  v_from timestamptz;
  v_counted boolean := (select count(*) from (select from dead_letter d where d.died > '-infinity' order by d.died, d.id limit p_max / 4 + 1) c) <= p_max / 4;
  v_share float8 := least(100, 100 * 200.0 / greatest(1, pg_relation_size('dead_letter') / current_setting('block_size')::integer));
  v_rows float8 := pg_stat_get_live_tuples('dead_letter'::regclass);
begin
  v_from := coalesce((select h.finished from history h where h.finished > v_now - interval '5 minutes'
                      order by h.finished desc offset p_max limit 1), v_now - interval '5 minutes');
  return query
    with counted as (
      select d.queue, count(*) as jobs from dead_letter d where v_counted group by d.queue
    ),
    sample as materialized (
      select d.queue, count(*) as jobs from dead_letter d tablesample system (v_share) repeatable (0) where not v_counted group by d.queue
    ),
    guessed as (
      select s.queue, greatest(1, round(s.jobs * case when v_rows > p_max / 4 then v_rows / sum(s.jobs) over () else 100 / v_share end))::bigint
               as jobs
      from sample s
    ),
    ended as (
      select e.queue, sum(e.failed) as failed, sum(e.attempts) as attempts, count(*) filter (where e.outcome = 'done') as done,
             count(*) filter (where e.outcome = 'dead') as died
      from (
        select h.queue, h.outcome, h.tries as failed, h.tries + (h.outcome = 'done')::integer as attempts
        from history h where h.finished > v_from
        union all
        select d.queue, 'dead', d.tries, d.tries from dead_letter d where d.died > v_from
      ) e group by e.queue
    )
    select n.queue::text, v_counted, coalesce(c.jobs, g.jobs, 0), extract(epoch from v_now - v_from)::float8,
           coalesce(e.failed, 0), coalesce(e.attempts, 0), coalesce(e.done, 0), coalesce(e.died, 0)
    from (select c.queue from counted c union select g.queue from guessed g union select e.queue from ended e) n
    left join counted c on c.queue = n.queue
    left join guessed g on g.queue = n.queue
    left join ended e on e.queue = n.queue;
end
$$;

-- Returns the numbers of every queue that has a job, had one within five minutes, or is configured. The one
-- definition of these numbers: the views, "pgqueue status", metrics and the dashboard all read it.
create function queue_numbers(p_max integer default 10000)
  returns table (queue text, exact boolean, delayed bigint, pending bigint, ready bigint, running bigint, dead bigint, oldest_s float8,
                 claim_age_s float8, window_s float8, failed bigint, attempts bigint, done bigint, died bigint)
  language sql stable security definer
  set search_path from current
as $$
  with waiting as materialized (select * from waiting_numbers(p_max)), ended as materialized (select * from ended_numbers(p_max))
  select n.queue, coalesce(w.exact, true) and coalesce(e.exact, true), coalesce(w.delayed, 0), coalesce(w.pending, 0),
         coalesce(w.ready, 0), coalesce(w.running, 0), coalesce(e.dead, 0),
         case when isfinite(w.oldest) then extract(epoch from clock_timestamp() - w.oldest)::float8 end, extract(epoch from clock_timestamp() - w.claimed)::float8,
         coalesce(e.window_s, 300), coalesce(e.failed, 0), coalesce(e.attempts, 0), coalesce(e.done, 0), coalesce(e.died, 0)
  from (select queue from waiting union select queue from ended union select queue from queue_config) n
  left join waiting w on w.queue = n.queue
  left join ended e on e.queue = n.queue
$$;
