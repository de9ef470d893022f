-- Replaces the leader's report. Commits asynchronously: a lost report is followed by another.
create function report(p_leader text, p_epoch bigint, p_report jsonb) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  insert into scheduler_report as r (leader, epoch, written, report) values (p_leader, p_epoch, clock_timestamp(), p_report)
  on conflict (only_row) do update
    set leader = excluded.leader, epoch = excluded.epoch, written = excluded.written, report = excluded.report;
end
$$;

-- Asks the leader why a job waits; returns the number of the question. Null: no scheduler leads, or 1,000
-- questions are open already.
create function ask_explain(p_job uuid) returns bigint
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_n bigint;
begin
  perform from scheduler_lease l where l.leader is not null and l.expires > clock_timestamp();
  if not found or (select count(*) from (select from explain_request r where r.answered is null limit 1000) open) >= 1000 then
    perform forget_explains();
    return null;
  end if;
  insert into explain_request (job) values (p_job) returning n into v_n;
  perform hint('queue');
  return v_n;
end
$$;

-- Takes the answer, once. Null: there is none yet, or the question was older than a minute and is gone.
create function take_explain(p_n bigint, p_job uuid) returns jsonb
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_answer jsonb;
begin
  delete from explain_request r where r.n = p_n and r.job = p_job and r.answered is not null returning r.answer into v_answer;
  return v_answer;
end
$$;

-- Returns the open questions of the last 10 s, oldest first, 20 at most; null: none. Nobody waits for older
-- ones. Begins behind p_after, so that a tick does not pass questions that are gone. Numbers commit a little
-- out of order: begin a few before the last one seen.
create function open_explains(p_after bigint) returns jsonb
  language plpgsql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
begin
  return (
    select jsonb_agg(jsonb_build_object('n', o.n, 'job', o.job) order by o.n)
    from (select r.n, r.job from explain_request r
          where r.n > p_after and r.answered is null and r.asked > clock_timestamp() - interval '10 seconds'
          order by r.n limit 20) o);
end
$$;

-- Answers a question. False: the question is gone, or answered already.
create function answer_explain(p_leader text, p_epoch bigint, p_n bigint, p_answer jsonb) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_found boolean;
begin
  perform set_config('synchronous_commit', 'off', true);
  perform assert_leader(p_leader, p_epoch);
  update explain_request r set answered = clock_timestamp(), answer = p_answer where r.n = p_n and r.answered is null;
  v_found := found;
  perform forget_explains();
  return v_found;
end
$$;

-- Removes questions and answers older than a minute, which nobody waits for.
create function forget_explains() returns void
  language sql volatile security definer
  set search_path from current
as $$
  delete from explain_request
  where n = any (array(
    select r.n from explain_request r where r.asked < clock_timestamp() - interval '1 minute' for update skip locked))
$$;

-- Reads the facts of one waiting job, for the scheduler's answer: the job itself, the first waiting job of
-- its key, and when the first job of its key that waits for a retry or the end of a snooze is due. Null: the
-- job does not wait, or is delayed. Served by queue's primary key, queue_waiting and queue_retrying.
create function waiting_job(p_job uuid) returns jsonb
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
  select jsonb_build_object(
    'id', q.id, 'queue', q.queue, 'key', q.key, 'task', q.task, 'version', q.payload_version, 'priority', q.priority, 'seq', q.seq,
    'createdMs', extract(epoch from q.created)::float8 * 1000, 'expiresMs', extract(epoch from q.expires_at)::float8 * 1000,
    'attributes', legible(q.attributes), 'tries', q.tries, 'flow', q.flow,
    'alone', q.crashes > 0 or (q.tries > 0 and q.tries + 1 >= q.max_tries),
    'firstId', (
      select f.id from queue f
      where f.run_after is null and f.queue = q.queue and f.key = q.key and (select w.id from work_queue w where w.id = f.id) is null
        and not in_batch(f.id)
      order by f.queue, f.key, f.priority, f.seq limit 1),
    'retryDueMs', (
      select retry_due_ms(r.id, r.run_after) from queue r
      where r.run_after is not null and r.last_token is not null and r.queue = q.queue and r.key = q.key
      order by r.queue, r.key, r.run_after limit 1))
  from queue q
  -- not "run_after is null": the planner would read the whole index of waiting jobs, when it expects it to be
  -- empty
  where q.id = p_job and coalesce(q.run_after, '-infinity') = '-infinity' and (select w.id from work_queue w where w.id = q.id) is null
    and not in_batch(q.id)
$$;

-- Returns the facts about an unfinished job that the database alone knows; null: there is no such job. Work
-- items are counted in its queue and in its key; the jobs of a bundle count once. "jobsAhead", counted up to
-- p_ahead_max, is served by queue_waiting. "waitsFor": the flow until whose end the job is suspended.
create function wait_facts(p_job uuid, p_ahead_max integer) returns jsonb
  language sql stable security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
as $$
  with one as materialized (
    select q.id, q.queue, q.key, q.priority, q.seq, q.task, q.payload_version, q.run_after, q.expires_at,
           w.position, w.lock_key, w.lock_timeout, w.started, w.cancelled,
           coalesce(c.paused, false) as paused,
           coalesce(w.pool, c.pool, 'default') as pool, c.concurrency, c.key_concurrency, c.rate, c.rate_burst, c.key_rate,
           c.key_rate_burst, clock_timestamp() as now
    from queue q
    left join work_item w on w.id = q.id
    left join queue_config c on c.queue = q.queue
    where q.id = p_job
  ),
  live as materialized (
    select n.id, n.slots,
           coalesce(one.payload_version between (n.tasks -> one.task -> 'min')::integer
                                            and (n.tasks -> one.task -> 'max')::integer, false) as capable
    from one join node n on n.pool = one.pool and n.state = 'alive'
      and n.heartbeat > one.now - n.lost_after_ms * interval '1 millisecond'
  ),
  items as materialized (
    select w.pool, w.position, w.lock_key, coalesce(-w.together, w.position) as slot, coalesce(w.together::text, w.id::text) as unit, w.id <> one.id as other,
           (select q.key from queue q where q.id = w.id and q.queue = one.queue) as key
    from one, work_item w
  )
  select jsonb_build_object(
    'paused', one.paused, 'pool', one.pool, 'expired', coalesce(one.expires_at <= one.now, false),
    'dueInMs', extract(epoch from one.run_after - one.now)::float8 * 1000,
    'startedAgoMs', extract(epoch from one.now - one.started)::float8 * 1000,
    'leaseEndsInMs', extract(epoch from one.lock_timeout - one.now)::float8 * 1000,
    'leader', (select l.leader from scheduler_lease l where l.expires > one.now),
    'nodes', (select count(*) from live),
    'capable', (select count(*) from live where capable),
    'slots', (select coalesce(sum(slots), 0) from live where capable),
    -- batches that a node has claimed beyond its slots wait in it
    'running', (
      select coalesce(sum(least(l.slots, h.taken)), 0)
      from (select i.lock_key, count(distinct i.slot) as taken from items i group by i.lock_key) h join live l on l.id = h.lock_key and l.capable),
    'ready', (select count(*) from items i where i.pool = one.pool and i.lock_key is null),
    'itemsAhead', (select count(*) from items i where i.pool = one.pool and i.lock_key is null and i.position < one.position),
    'queueInFlight', (select count(distinct i.unit) from items i where i.other and i.key is not null),
    'keyInFlight', (select count(distinct i.unit) from items i where i.other and i.key = one.key),
    'concurrency', one.concurrency, 'keyConcurrency', one.key_concurrency,
    'rate', case when one.rate is not null then jsonb_build_object('perSecond', one.rate, 'burst', one.rate_burst) end,
    'keyRate', case when one.key_rate is not null then jsonb_build_object('perSecond', one.key_rate, 'burst', one.key_rate_burst) end,
    'jobsAhead', case when one.run_after is null and one.lock_key is null then (
      select count(*) from (
        select from queue a
        where a.run_after is null and a.queue = one.queue and a.key = one.key and (a.priority, a.seq) < (one.priority, one.seq)
          and (select w.id from work_item w where w.id = a.id and w.lock_key is not null limit 1) is null
        limit p_ahead_max) ahead) end,
    'waitsFor', case when one.run_after > one.now then (
      select f.id from flow f where f.waiter = one.id and f.state = 'open' limit 1) end,
    'nodeState', n.state, 'nodeBeatAgoMs', extract(epoch from one.now - n.heartbeat)::float8 * 1000,
    'cancelAsked', one.cancelled is not null)
  from one left join node n on n.id = one.lock_key
$$;
