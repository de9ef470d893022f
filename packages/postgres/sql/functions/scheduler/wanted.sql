-- Counts the jobs of lanes that wait behind a place of each: p_max of each lane at most. The leader plans with
-- them, to tell how many slots a pool could use. Served by queue_waiting: begins behind the place, so it
-- passes no dead rows before it.
create function count_behind(p_queues text[], p_keys text[], p_priorities integer[], p_seqs bigint[], p_max integer) returns integer[]
  language plpgsql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
begin
  return array(
    select h.jobs
    from unnest(p_queues, p_keys, p_priorities, p_seqs) with ordinality as x (queue, key, priority, seq, n)
    cross join lateral (
      select count(*)::integer as jobs
      from (
        select from queue q
        where q.run_after is null and q.queue = x.queue and q.key = x.key and (q.priority, q.seq) > (x.priority, x.seq)
          and (select w.id from work_queue w where w.id = q.id) is null
        order by q.queue, q.key, q.priority, q.seq
        limit p_max) j) h
    order by x.n);
end
$$;

-- Returns the number of slots that a pool could use now, for autoscaling: its work items (they run, or are
-- ready), and those that its waiting jobs would make at once if there were slots for them. Counts neither
-- delayed jobs nor jobs that a limit, a rate or a pause holds. The leader counts it for its report, by its
-- policy, up to 1,000 more jobs than are in flight.
-- Null: nobody knows. No scheduler leads, or the leader has not reported within 90 seconds.
create function wanted_slots(p_pool text default 'default') returns integer
  language sql stable security definer
  set search_path from current
as $$
  select coalesce((r.report -> 'wanted' ->> p_pool)::integer, 0)
  from scheduler_lease l join scheduler_report r on r.leader = l.leader and r.epoch = l.epoch
  where l.expires > clock_timestamp() and r.written > clock_timestamp() - interval '90 seconds'
    and jsonb_typeof(r.report -> 'wanted') = 'object'
$$;
