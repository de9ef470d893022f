-- pgqueue 0009: history by day, and the views.
-- compatible: yes

-- Makes the partitions of today and the next days (in UTC), drops those whose every row is older than any queue keeps, and deletes
-- the rows of queues that keep less than the longest. Where all keep the same, dropping is all: rows stay up to a day longer.
-- Called by the scheduler; it needs no rights on the tables for it. One call at a time: another does nothing.
--
-- Attaching and dropping take locks that wait for every transaction which has read or written history, while every settlement
-- waits behind them. So neither waits for long: where a transaction is in the way, the next call does it. They come last, since
-- their locks are held until the end.
create function maintain_history(p_days integer default 3, p_max_deletes integer default 10000)
  returns table (created integer, dropped integer, deleted integer)
  language plpgsql volatile security definer
  set search_path from current
  set lock_timeout = '300ms'
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_today date := (v_now at time zone 'UTC')::date;
  v_name text;
  v_from text;
  v_to text;
  v_longest interval;
  v_shortest interval;
  v_created integer := 0;
  v_dropped integer := 0;
  v_deleted integer := 0;
  part record;
begin
  if not pg_try_advisory_xact_lock(hashtextextended(current_schema() || ':history', 0)) then
    return query select 0, 0, 0;
    return;
  end if;
  select greatest(interval '7 days', max(c.retention)), least(interval '7 days', min(c.retention))
  into v_longest, v_shortest from queue_config c;
  if v_shortest < v_longest then
    with old as materialized (
      select h.id, h.finished from history h
      where h.finished < v_now - v_shortest
        and coalesce((select c.retention from queue_config c where c.queue = h.queue), interval '7 days') < v_longest
        and h.finished < v_now - coalesce((select c.retention from queue_config c where c.queue = h.queue), interval '7 days')
      order by h.finished limit p_max_deletes for update skip locked)
    delete from history h using old o where h.id = o.id and h.finished = o.finished;
    get diagnostics v_deleted = row_count;
  end if;
  begin
    for ahead in 0..p_days loop
      v_name := 'history_' || to_char(v_today + ahead, 'YYYYMMDD');
      continue when to_regclass(quote_ident(current_schema()) || '.' || v_name) is not null;
      -- written out: as text, a time would depend on the session's DateStyle
      v_from := to_char(v_today + ahead, 'YYYY-MM-DD') || ' 00:00:00+00';
      v_to := to_char(v_today + ahead + 1, 'YYYY-MM-DD') || ' 00:00:00+00';
      execute format('create table %I (like history including defaults including constraints)', v_name);
      -- what fell into the default partition meanwhile moves over, or the new one could not be attached
      execute format('with moved as (delete from history_default where finished >= %L and finished < %L returning *)
                      insert into %I select * from moved', v_from, v_to, v_name);
      execute format('alter table history attach partition %I for values from (%L) to (%L)', v_name, v_from, v_to);
      v_created := v_created + 1;
    end loop;
  exception when lock_not_available then
    v_created := 0;
  end;
  begin
    for part in
      select c.relname, to_date(right(c.relname, 8), 'YYYYMMDD') as day
      from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'history'::regclass and c.relname ~ '^history_[0-9]{8}$'
    loop
      if (part.day + 1)::timestamp at time zone 'UTC' < v_now - v_longest then
        execute format('drop table %I', part.relname);
        v_dropped := v_dropped + 1;
      end if;
    end loop;
  exception when lock_not_available then
    v_dropped := 0;
  end;
  return query select v_created, v_dropped, v_deleted;
end
$$;
select maintain_history();

-- One status per job, wherever its row stands. No payloads and no results: those are in the tables.
create view job as
  select q.id, case when w.id is null and q.run_after is not null then 'delayed' when w.id is null then 'pending'
                    when w.lock_key is null then 'ready' else 'running' end as status,
         q.queue, q.task, q.key, q.priority, q.attributes, q.tries, q.max_tries, q.crashes, q.max_crashes, q.run_after,
         q.expires_at, q.timeout, q.unique_key, q.payload_version, q.trace, q.created, w.batch, w.position, w.pool,
         w.lock_key as node, w.started, w.lock_timeout, w.cancelled, w.progress, null::timestamptz as finished,
         null::text as reason, q.errors -> -1 as last_error, q.errors
  from queue q left join work_queue w on w.id = q.id
  union all
  select d.id, 'dead', d.queue, d.task, d.key, d.priority, d.attributes, d.tries, d.max_tries, d.crashes, d.max_crashes, null,
         null, d.timeout, d.unique_key, d.payload_version, d.trace, d.created, null, null, null,
         d.node, null, null, null, null, d.died, d.reason, d.errors -> -1, d.errors
  from dead_letter d
  union all
  select h.id, h.outcome, h.queue, h.task, h.key, h.priority, h.attributes, h.tries, null, h.crashes, null, null,
         null, null, h.unique_key, h.payload_version, h.trace, h.created, null, null, null,
         h.node, h.started, null, null, null, h.finished, null, h.errors -> -1, h.errors
  from history h;

-- The three numbers of a queue's health, and its depth. oldest_s: age of the oldest job that could run and doesn't;
-- claim_age_s: how long the oldest lease has been held; retry_rate: failed attempts as a share of the attempts of all jobs
-- that ended in the last five minutes (by the statement's time: an index can't be searched for a volatile one).
create view queue_status as
  with waiting as (
    select q.queue, count(*) filter (where q.run_after is not null) as delayed,
           count(*) filter (where q.run_after is null and w.id is null) as pending,
           count(*) filter (where w.id is not null and w.lock_key is null) as ready,
           count(w.lock_key) as running,
           extract(epoch from clock_timestamp() - min(q.created) filter (where q.run_after is null and w.lock_key is null))::float8 as oldest_s,
           extract(epoch from clock_timestamp() - min(w.started))::float8 as claim_age_s
    from queue q left join work_queue w on w.id = q.id group by q.queue
  ),
  ended as (
    select e.queue, sum(e.failed)::float8 / nullif(sum(e.attempts), 0) as retry_rate,
           count(*) filter (where e.outcome = 'done') as done_5m, count(*) filter (where e.outcome = 'dead') as dead_5m
    from (
      select h.queue, h.outcome, h.tries as failed, h.tries + (h.outcome = 'done')::integer as attempts
      from history h where h.finished > statement_timestamp() - interval '5 minutes'
      union all
      select d.queue, 'dead', d.tries, d.tries from dead_letter d where d.died > statement_timestamp() - interval '5 minutes'
    ) e group by e.queue
  ),
  dead as (select d.queue, count(*) as dead from dead_letter d group by d.queue)
  select n.queue, coalesce(c.paused, false) as paused, coalesce(c.pool, 'default') as pool,
         coalesce(w.delayed, 0) as delayed, coalesce(w.pending, 0) as pending, coalesce(w.ready, 0) as ready,
         coalesce(w.running, 0) as running, coalesce(d.dead, 0) as dead, w.oldest_s, w.claim_age_s, e.retry_rate,
         coalesce(e.done_5m, 0) as done_5m, coalesce(e.dead_5m, 0) as dead_5m
  from (select queue from waiting union select queue from ended union select queue from dead union select queue from queue_config) n
  left join waiting w on w.queue = n.queue
  left join ended e on e.queue = n.queue
  left join dead d on d.queue = n.queue
  left join queue_config c on c.queue = n.queue;

-- For workers in any language: how many jobs of a queue wait or run, and the first few in the order of their keys.
create function queue_length(p_queue text default 'default') returns bigint
  language sql stable security definer
  set search_path from current
as $$ select count(*) from queue q where q.queue = p_queue $$;

create function peek(p_queue text default 'default', p_max integer default 10)
  returns table (id uuid, task text, key text, priority integer, payload jsonb, created timestamptz, run_after timestamptz)
  language sql stable security definer
  set search_path from current
as $$
  select q.id, q.task, q.key, q.priority, q.payload, q.created, q.run_after
  from queue q where q.queue = p_queue and (select w.id from work_queue w where w.id = q.id and w.lock_key is not null) is null
  order by q.priority, q.seq limit p_max
$$;

-- Every job that waits, page by page in the order of ids: a job keeps its id, so none is shown twice or missed by the cursor.
create function scan(p_queue text default null, p_after uuid default null, p_max integer default 100)
  returns table (id uuid, queue text, task text, key text, priority integer, created timestamptz, run_after timestamptz)
  language sql stable security definer
  set search_path from current
as $$
  select q.id, q.queue, q.task, q.key, q.priority, q.created, q.run_after
  from queue q
  where (p_after is null or q.id > p_after) and (p_queue is null or q.queue = p_queue)
    and (select w.id from work_queue w where w.id = q.id and w.lock_key is not null) is null
  order by q.id limit p_max
$$;
