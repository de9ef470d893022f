-- Counts the jobs of a queue that wait or run. For workers in any language.
create function queue_length(p_queue text default 'default') returns bigint
  language sql stable security definer
  set search_path from current
as $$ select count(*) from queue q where q.queue = p_queue $$;

-- Lists the first waiting jobs of a queue by priority and age. Without payloads: any worker may look at any
-- queue, and sees the payloads of its own leases only.
create function peek(p_queue text default 'default', p_max integer default 10)
  returns table (id uuid, task text, key text, priority integer, created timestamptz, run_after timestamptz)
  language sql stable security definer
  set search_path from current
as $$
  select q.id, q.task, q.key, q.priority, q.created, q.run_after
  from queue q where q.queue = p_queue and (select w.id from work_item w where w.id = q.id and w.lock_key is not null limit 1) is null
  order by q.priority, q.seq limit p_max
$$;

-- Lists every waiting job, page by page in the order of ids. A job keeps its id, so the cursor shows no job
-- twice and misses none.
create function scan(p_queue text default null, p_after uuid default null, p_max integer default 100)
  returns table (id uuid, queue text, task text, key text, priority integer, created timestamptz, run_after timestamptz)
  language sql stable security definer
  set search_path from current
as $$
  select q.id, q.queue, q.task, q.key, q.priority, q.created, q.run_after
  from queue q
  where (p_after is null or q.id > p_after) and (p_queue is null or q.queue = p_queue)
    and (select w.id from work_item w where w.id = q.id and w.lock_key is not null limit 1) is null
  order by q.id limit p_max
$$;

-- Returns the trace contexts of those of the given jobs that still exist and have one. Served by queue's
-- primary key.
create function job_traces(p_ids uuid[]) returns setof jsonb
  language sql stable security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
as $$
  select q.trace from unnest(p_ids) i (id) cross join lateral (select q.trace from queue q where q.id = i.id offset 0) q
  where q.trace is not null
$$;
