-- Extends leases: each ends p_ms from now, ten years on at most. A lease that has run out can be extended while nobody has taken it
-- over. An id that is missing from the answer was lost. Served by work_queue_id; settle says why nested loops
-- are off.
create function extend(p_ids uuid[], p_tokens uuid[], p_ms float8[])
  returns table (job_id uuid, lease_ms double precision, cancelled boolean)
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
begin
  if exists (select from unnest(p_ms) m where m is null or m <= 0) then
    raise exception 'a lease is extended by a positive number of milliseconds, not %', p_ms using errcode = '22023';
  end if;
  return query
    update work_queue w set lock_timeout = v_now + x.ms * interval '1 millisecond'
    from (select u.id, u.token, least(u.ms, 3.2e11) as ms from unnest(p_ids, p_tokens, p_ms) as u (id, token, ms)) x
    where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token
    returning w.id, x.ms, w.cancelled is not null;
end
$$;

create function extend(p_id uuid, p_token uuid, p_by interval) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from extend(array[p_id], array[p_token], array[extract(epoch from p_by)::float8 * 1000]))
$$;

-- Gives leases back unrun: the items are ready again at their old position, and nothing is counted. A job
-- whose cancellation was asked for ends as cancelled instead, since no other node should begin it. Jobs of a
-- bundle wait in QUEUE again. Locks the leases first, in the order of ids, as settle does: if some are to be
-- cancelled, two passes over WORK_QUEUE could meet an extension or a settlement of the same leases in the
-- opposite order.
create function release(p_ids uuid[], p_tokens uuid[]) returns setof uuid
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
  v_batches bigint[];
begin
  v_batches := array(
    select w.position from work_queue w
    where w.jobs is not null and w.position >= batches_from() and w.lock_token = any (p_tokens) and w.jobs && p_ids for update skip locked);
  if v_batches <> '{}' then
    perform take_apart(v_batches);
  end if;
  perform from work_queue w where w.id = any (p_ids) and w.lock_token = any (p_tokens) order by w.id for update;
  if exists (select from work_queue w where w.id = any (p_ids) and w.together is not null) then
    return query
      with gone as (
        delete from work_queue w using unnest(p_ids, p_tokens) as x (id, token)
        where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token and w.cancelled is null and w.together is not null
        returning w.id)
      update queue q set moved = true where q.id = any (p_ids) and q.id in (select g.id from gone g) returning q.id;
  end if;
  return query
    update work_queue w
    set lock_key = null, lock_token = null, lock_timeout = null, started = null, progress = null
    from unnest(p_ids, p_tokens) as x (id, token)
    where w.id = any (p_ids) and w.id = x.id and w.lock_token = x.token and w.cancelled is null and w.together is null
    returning w.id;
  if found then
    perform hint('work');
  end if;
  -- a cancellation is never taken back, so the items that the statement above passed over are here
  if exists (select from work_queue w where w.id = any (p_ids) and w.cancelled is not null) then
    return query
      select s.job_id
      from settle(p_ids, p_tokens, array_fill('cancelled'::text, array[cardinality(p_ids)]),
                  array_fill(null::float8, array[cardinality(p_ids)]), array_fill(null::text, array[cardinality(p_ids)])) s;
  end if;
end
$$;

create function release(p_id uuid, p_token uuid) returns boolean
  language sql volatile security definer
  set search_path from current
as $$
  select exists (select from release(array[p_id], array[p_token]))
$$;

-- Stores the progress that a running job reports; the view job shows it. False: the lease was lost.
create function report_progress(p_id uuid, p_token uuid, p_progress jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  if not fits(p_progress, 12288) then
    raise exception 'progress is at most 8 KiB, nested 500 levels deep' using errcode = '22023';
  end if;
  update work_queue set progress = p_progress where id = p_id and lock_token = p_token;
  return found;
end
$$;

-- Keeps resume data for the next attempt; null removes it. False: the lease was lost, and nothing was
-- changed. Locks the work item before the job, as everywhere: a settlement or a takeover under way ends
-- first, and this finds its token gone.
create function save_checkpoint(p_id uuid, p_token uuid, p_checkpoint jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  if not fits(p_checkpoint, 393216) then
    raise exception 'a checkpoint is at most 256 KiB, nested 500 levels deep' using errcode = '22023', hint = 'Store it elsewhere, and keep a reference.';
  end if;
  perform from work_queue w where w.id = p_id and w.lock_token = p_token for update;
  if not found then
    return false;
  end if;
  update queue q set checkpoint = nullif(p_checkpoint, 'null') where q.id = p_id;
  return found;
end
$$;

-- Lists the leases of a node, for the node: a settlement lost in a failover leaves a lease that the node has
-- done with.
create function held_leases(p_node text, p_incarnation uuid) returns table (id uuid, token uuid)
  language sql stable security definer
  set search_path from current
  set jit = off
as $$
  select w.id, w.lock_token from work_item w
  where w.lock_key = p_node and exists (select from node n where n.id = p_node and n.incarnation = p_incarnation)
$$;

-- Gives back the leases of a claim that got no reply, uncounted; returns their number. For the node that
-- claimed. Locks the node's row first, so that a claim still under way ends before. 0 after the incarnation's end, which
-- has taken back all of its leases.
create function release_claim(p_node text, p_incarnation uuid, p_token uuid) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_count integer;
begin
  perform assert_read_committed('the return of a claim');
  perform from node n where n.id = p_node and n.incarnation = p_incarnation for update;
  if not found then
    return 0;
  end if;
  perform spread_held(p_node, true);
  select count(*) into v_count
  from (select array_agg(w.id) as ids, array_agg(w.lock_token) as tokens
        from work_queue w where w.position >= 0 and w.lock_key = p_node and w.lock_token = p_token having count(*) > 0) held,
    lateral release(held.ids, held.tokens);
  return v_count;
end
$$;

-- Returns the jobs of these leases as claim does. If one job's contents make a claim fail (a text can't be
-- made, or not in the client's encoding), its node claims without reading, then reads by halves until that
-- job is alone. Served by work_queue_id and queue's primary key.
create function leased(p_token uuid, p_ids uuid[])
  returns table ("position" bigint, id uuid, token uuid, queue text, task text, key text, priority integer, attributes jsonb,
                 payload jsonb, payload_version integer, tries smallint, max_tries smallint, crashes smallint,
                 retry jsonb, trace jsonb, created timestamptz, lease_ms double precision, bundle bigint, checkpoint jsonb)
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
  select w.position, w.id, w.lock_token, q.queue, q.task, q.key, q.priority, q.attributes, q.payload, q.payload_version,
         q.tries, q.max_tries, q.crashes, q.retry, q.trace, q.created,
         date_part('epoch', w.lock_timeout - w.started) * 1000, w.together, q.checkpoint
  from work_queue w cross join lateral (select q.* from queue q where q.id = w.id offset 0) q
  where w.id = any (p_ids) and w.lock_token = p_token
$$;
