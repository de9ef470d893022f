-- Suspects: jobs that were lost with their node. One of a dead node's jobs may have killed it (poison), and nobody knows which. So a node begins
-- with one suspect, beside ordinary jobs (next_suspect), and its death is charged to the suspects that it held, and to nobody else; where
-- it held none, to all that it held (charged_by_death). What is not charged is ready again, and a suspect from then on (crash).
-- Most nodes die of something else: a machine that was taken away, or was out of memory. So their jobs must run again within seconds: a node begins as
-- many suspects more as it has that ran for 1 s: one, two, four, eight of them after three seconds. A suspect in its last life (its next crash
-- would be its last) is never beside another one.
--
-- Call a node's death by poison a strike, however long the poison has run by then.
-- 1. Poison is dead after max_crashes strikes, or one more. By its first strike it becomes a suspect: charged, or released beside a suspect that
--    is. By each later one it is charged, as a suspect of the node that died.
-- 2. An innocent job is charged once for the same poison, by its first strike; and again only where both ran on a node of which a suspect had run for
--    1 s. From its last life on it runs alone.
-- 3. No job is dead of another one's later strike. The crash that is its last a job suffers as the only suspect of its node, so it is its own,
--    or the first strike of a job that was no suspect, or its machine's. (With max_crashes = 1 the first loss is the last.)
-- A lease that ends before its node is known to be dead (reap) charges its own job, whatever ran beside it. 1 holds: the poison is charged one way
-- or the other. 2 holds: what was no suspect before is one now. 3 holds, since it follows from who runs together alone.
-- The mark is the work item's: it stays when the lease is given back, and goes with an attempt that ends; dispatch makes it anew of crashes.
-- To charge only the suspects that began last would let poison that needs a minute go free: others begin beside it.
--
-- Jobs of a bundle are charged always: they wait in QUEUE again, where the mark is their first crash.
-- Jobs whose task the node runs in processes of their own are no suspects there: their crash costs no other job.

-- Tells whether a node takes a job like any other. Read as a part of the statements that call it, not called for each row: it sets no search path.
create function node_takes(p_tasks jsonb, p_task text, p_version integer, p_suspect boolean) returns boolean
  language sql immutable parallel safe
as $$
  select p_version between (p_tasks -> p_task ->> 'min')::integer and (p_tasks -> p_task ->> 'max')::integer
    and (not p_suspect or coalesce(p_tasks -> p_task -> 'isolated' = 'true', false))
$$;

-- Locks the suspect that a node begins now, the oldest that it may, and returns its position; null: none.
-- Safe because: of two claims of one node that look for suspects, one gets the lock on the node's row, and the other passes. It is not waited for:
-- who resets the node waits for both. Another node's claim passes by the item's lock.
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

-- The positions whose jobs are charged with a crash when a node dies: its suspects, or where it holds none, all that it holds. Those that another
-- session has locked count, too.
create function charged_by_death(p_node text) returns bigint[]
  language sql stable security definer
  set search_path from current
as $$
  select coalesce(array_agg(w.position) filter (where w.suspect and n.tasks -> w.task -> 'isolated' is distinct from 'true'), array_agg(w.position))
  from work_queue w left join node n on n.id = p_node
  where w.lock_key = p_node
$$;
