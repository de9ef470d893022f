-- pgqueue 0004: claim.
-- compatible: yes
--
-- Takes leases on up to p_max ready items that the node can run, in dispatch order, and returns the jobs with their
-- payloads. The token is drawn by the caller, new for each claim: with the job's id it names one lease.
--
-- Safe because: the items are locked (SKIP LOCKED) before they are leased; lock_timeout is the database's clock, read
-- once at the start; a node that was reset, lost or replaced is refused by its incarnation. A job that was replaced,
-- cancelled or delayed has no ready item any more, so an old payload can't be read here.
-- Where slots stay free and all was looked at (p_from 0), expired leases are reaped, then claimed like any other: this is how
-- a node steals. Looking for them costs a walk over all items, which a claim from a low-water mark spares.
-- Served by work_queue's primary key from p_from on (the caller's low-water mark), and queue's primary key.
create function claim(p_node text, p_incarnation uuid, p_max integer, p_token uuid default gen_random_uuid(), p_from bigint default 0)
  returns table ("position" bigint, id uuid, token uuid, queue text, task text, key text, priority integer, attributes jsonb,
                 payload jsonb, payload_version integer, tries smallint, max_tries smallint, crashes smallint,
                 retry jsonb, trace jsonb, created timestamptz, lease_ms double precision)
  language plpgsql volatile security definer
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
  v_now timestamptz := clock_timestamp();
  v_pool text;
  v_tasks jsonb;
  v_left integer := least(p_max, 10000);
  v_got integer;
  v_from bigint := p_from;
begin
  if p_max is null or p_max < 0 then
    raise exception 'claim takes a number of jobs, not %', p_max using errcode = '22023';
  end if;
  select n.pool, n.tasks into v_pool, v_tasks
  from node n where n.id = p_node and n.incarnation = p_incarnation and n.state in ('alive', 'draining')
  for key share; -- a reset of this node waits for this claim, and then takes back what it leased
  if not found then
    raise exception 'node % is not registered as incarnation %', p_node, p_incarnation
      using errcode = 'PQ001', hint = 'It was reset, lost or replaced: register again, and drop what it was running.';
  end if;
  for round in 1..2 loop
    return query
      with leased as (
        update work_queue w
        set lock_key = p_node, lock_token = p_token, started = v_now,
            lock_timeout = v_now + coalesce(
              q.timeout, (v_tasks -> w.task ->> 'timeoutMs')::float8 * interval '1 millisecond', interval '5 minutes')
        from queue q
        where w.position = any (array(
            select r.position from work_queue r
            where r.position >= v_from and r.lock_key is null and r.pool = v_pool
              and r.version between (v_tasks -> r.task ->> 'min')::integer and (v_tasks -> r.task ->> 'max')::integer
              -- an item whose job is gone, or has expired, must not take the place of one that can run
              and (select j.id from queue j where j.id = r.id and (j.expires_at is null or j.expires_at > v_now)) is not null
            order by r.position limit v_left for update skip locked))
          and q.id = w.id and (q.expires_at is null or q.expires_at > v_now)
        returning w.position, w.id, w.lock_timeout, q.queue, q.task, q.key, q.priority, q.attributes, q.payload,
                  q.payload_version, q.tries, q.max_tries, q.crashes, q.retry, q.trace, q.created)
      select l.position, l.id, p_token, l.queue, l.task, l.key, l.priority, l.attributes, l.payload, l.payload_version,
             l.tries, l.max_tries, l.crashes, l.retry, l.trace, l.created,
             extract(epoch from l.lock_timeout - v_now)::float8 * 1000
      from leased l order by l.position;
    get diagnostics v_got = row_count;
    v_left := v_left - v_got;
    exit when v_left <= 0 or p_from > 0 or not exists (select from work_queue w where w.position >= 0 and w.lock_timeout <= v_now);
    exit when not exists (select from reap(v_left));
    v_from := 0;
  end loop;
end
$$;

-- For a node whose claim got no reply: gives back what that claim leased, uncounted; returns how many. Locks the node's row, so
-- that a claim which is still under way ends first.
create function release_claim(p_node text, p_token uuid) returns integer
  language plpgsql volatile security definer
  set search_path from current
  set enable_seqscan = off
as $$
declare
  v_count integer;
begin
  perform from node n where n.id = p_node for update;
  select count(*) into v_count
  from (select array_agg(w.id) as ids, array_agg(w.lock_token) as tokens
        from work_queue w where w.position >= 0 and w.lock_key = p_node and w.lock_token = p_token having count(*) > 0) held,
    lateral release(held.ids, held.tokens);
  return v_count;
end
$$;
