-- Suspects: jobs that were lost with their node. One of a dead node's jobs may have killed it (poison), and
-- nobody knows which. So a node starts one suspect at first, beside ordinary jobs (next_suspect). Its death
-- is charged to the suspects that it held, and to no other job; if it held none, to all jobs that it held
-- (charged_by_death). A job that is not charged is ready again, and a suspect from then on (crash).
-- Most nodes die of something else: the machine was taken away, or out of memory. So their jobs must run
-- again within seconds: a node may start as many more suspects as it holds that have run for 1 s, which makes
-- one, two, four, and eight of them after three seconds. A suspect in its last life (its next crash is its
-- last) never runs beside another one.
--
-- A strike is a node's death by poison, however long the poison has run by then.
-- 1. Poison is dead after max_crashes strikes, or one more. Its first strike makes it a suspect: it is
-- charged, or released beside a suspect that is charged. Each later strike charges it, as a suspect of the
-- node that died.
-- 2. An innocent job is charged once for the same poison, by the first strike. It is charged again only if
-- both ran on a node of which a suspect had run for 1 s. From its last life on it runs alone.
-- 3. No job dies of another job's later strike. A job suffers its last crash as the only suspect of its node,
-- so the crash is its own, or it is the first strike of a job that was no suspect, or the machine failed.
-- (With max_crashes = 1 the first loss is the last.)
-- A lease that ends before its node is known to be dead (reap) charges its own job, whatever ran beside it. 1
-- holds: the poison is charged one way or the other. 2 holds: jobs that were no suspects before are suspects
-- now. 3 holds, since it depends only on which jobs run together.
-- The mark belongs to the work item: it stays when the lease is given back, and goes with an attempt that
-- ends; dispatch sets it again by the job's crashes.
-- Charging only the suspects that began last would let poison go free that needs a minute: other suspects
-- begin beside it.
--
-- Jobs of a bundle are always charged: they wait in QUEUE again, where their first crash is the mark.
-- Jobs whose task the node runs in processes of their own are no suspects there: their crash costs no other
-- job.

-- Tells whether a node takes a job in the ordinary way, not as a suspect. Sets no search path, so that
-- PostgreSQL inlines it into the calling statements instead of calling it for each row. Numbers are cast by value: the
-- text of a whole one may be 1.0.
create function node_takes(p_tasks jsonb, p_task text, p_version integer, p_suspect boolean) returns boolean
  language sql immutable parallel safe
as $$
  select p_version between (p_tasks -> p_task -> 'min')::integer and (p_tasks -> p_task -> 'max')::integer
    and (not p_suspect or coalesce(p_tasks -> p_task -> 'isolated' = 'true', false))
$$;

-- Locks the oldest suspect that a node may start now, and returns its position; null: none.
-- Safe because: of two claims of one node that look for suspects, one gets the lock on the node's row, and
-- the other takes none. It does not wait for the lock: a reset of the node waits for both. Another node's
-- claim skips the item, which is locked.
-- Served by work_queue_suspect.
create function next_suspect(p_node text, p_pool text, p_tasks jsonb) returns bigint
  language plpgsql volatile security definer
  set search_path from current
  set plan_cache_mode = force_generic_plan
  set jit = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_held integer;
  v_young integer;
  v_last boolean;
  v_position bigint;
begin
  perform from node n where n.id = p_node for no key update skip locked;
  if not found then
    return null;
  end if;
  select count(*), count(*) filter (where w.started between v_now - interval '1 second' and v_now),
         bool_or((select q.crashes + 1 >= q.max_crashes from queue q where q.id = w.id))
  into v_held, v_young, v_last
  from work_queue w
  where w.suspect and w.pool = p_pool and w.lock_key = p_node and p_tasks -> w.task -> 'isolated' is distinct from 'true';
  if v_last or v_young >= greatest(1, v_held - v_young) then
    return null;
  end if;
  select w.position into v_position from work_queue w
  where w.suspect and w.pool = p_pool and w.lock_key is null
    and node_takes(p_tasks, w.task, w.version, false) and p_tasks -> w.task -> 'isolated' is distinct from 'true'
    and (select q.crashes + 1 >= q.max_crashes from queue q
         where q.id = w.id and (q.expires_at is null or q.expires_at > v_now)) in (false, v_held = 0)
  order by w.position + 0 limit 1 for update skip locked;
  return v_position;
end
$$;

-- Returns the positions whose jobs are charged with a crash when a node dies: its suspects, or if it holds
-- none, everything that it holds. Items that another session has locked are included.
create function charged_by_death(p_node text) returns bigint[]
  language sql stable security definer
  set search_path from current
as $$
  select coalesce(array_agg(w.position) filter (where w.suspect and n.tasks -> w.task -> 'isolated' is distinct from 'true'), array_agg(w.position))
  from work_queue w left join node n on n.id = p_node
  where w.lock_key = p_node
$$;
