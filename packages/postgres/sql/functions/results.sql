-- Returns where each of the given jobs stands, for callers that wait for its end. status: as in the view job.
-- result: of a job that is done. error: of a dead job, the error of its last attempt, with the reason of the
-- death. Jobs that are in no table are left out: they never were, were erased, or their history is gone.
-- Without p_exact a job of a batch counts as pending, though it may be ready or running: with 300 batches of
-- 100 jobs, reading them takes 10 to 30 ms. Callers that look often need the end only.
--
-- Every caller can read the result of any job by its id. Producers can read the ids of waiting jobs, so they
-- are trusted with all results; payloads stay hidden from them.
--
-- Safe because: it changes nothing, and one statement sees one snapshot, in which a job stands in one table;
-- an unfinished row counts first. Each job is looked up by QUEUE's primary key, and only if it is not there,
-- by handover_id (it is on its way to another installation), and by those of DEAD_LETTER and of HISTORY's partitions (history_id): limit 1 ends the search. A waiting job's
-- work item is looked up by work_queue_id. Jobs of batches are read once a call, from the position where
-- batches begin, and hashed; the limit tells a planner with old statistics that they are few.
create function job_result(p_ids uuid[], p_exact boolean default true)
  returns table (id uuid, status text, result jsonb, error jsonb, task text)
  language sql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_mergejoin = off
as $$
  with batched as materialized (
    select u.id, w.lock_key is not null as leased
    from (select w.jobs, w.lock_key from work_queue w where w.jobs is not null and w.position >= batches_from() order by w.position limit 10000) w
    cross join lateral unnest(w.jobs) as u (id)
  )
  select i.id, j.status, j.result, j.error, j.task
  from (select distinct x.id from unnest(p_ids) as x (id)) i
  cross join lateral (
    select coalesce(
             (select case when w.lock_key is null then 'ready' else 'running' end from work_queue w where w.id = q.id),
             case when q.run_after is not null then 'delayed'
                  when not p_exact then 'pending'
                  when q.id in (select b.id from batched b where b.leased) then 'running'
                  when q.id in (select b.id from batched b) then 'ready' else 'pending' end) as status,
           null::jsonb as result, null::jsonb as error, q.task
    from queue q where q.id = i.id
    union all
    select 'pending', null, null, o.job ->> 'task' from handover o where o.id = i.id
    union all
    select 'dead', null, (d.errors -> -1) || jsonb_build_object('reason', d.reason), d.task from dead_letter d where d.id = i.id
    union all
    select h.outcome, h.result, null, h.task from history h where h.id = i.id
    limit 1) j
$$;
