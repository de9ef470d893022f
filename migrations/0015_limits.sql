-- pgqueue 0015: limits that the packages keep, kept for everyone who writes plain SQL; and how many jobs of one key may wait.
-- compatible: yes

-- What the scheduler reads of every candidate, and nodes of themselves, must stay small whoever wrote it. As jsonb, numbers take more
-- room than as text, up to four times. Not valid: rows that are there are not read for it.
alter table queue
  add constraint queue_attributes_size check (pg_column_size(attributes) <= 16384) not valid,
  add constraint queue_retry_size check (pg_column_size(retry) <= 4096) not valid,
  add constraint queue_trace_size check (pg_column_size(trace) <= 4096) not valid;
alter table node
  add constraint node_tasks_size check (pg_column_size(tasks) <= 1048576) not valid,
  add constraint node_software_length check (length(software) <= 1000) not valid;
alter table schedule
  add constraint schedule_payload_size check (pg_column_size(payload) <= 262144) not valid,
  add constraint schedule_options_size check (pg_column_size(options) <= 65536) not valid,
  add constraint schedule_text_length check (length(cron) <= 200 and length(timezone) <= 100 and length(task) between 1 and 200) not valid;

-- As in 0005, and an error is as long as the packages make it at most.
create or replace function nack(p_id uuid, p_token uuid, p_error text, p_delay interval default null) returns text
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_retry jsonb;
  v_tries integer;
  v_verdict text;
begin
  select q.retry, q.tries into v_retry, v_tries from queue q where q.id = p_id;
  select s.verdict into v_verdict
  from settle(
    array[p_id], array[p_token], array['retry'],
    array[coalesce(extract(epoch from p_delay)::float8 * 1000, backoff_ms(v_retry, v_tries + 1))],
    array[jsonb_build_object('message', left(p_error, 2000))::text]) s;
  return v_verdict;
end
$$;

-- As in 0009, and the partitions of a month at most are made ahead: whoever may call it could fill the catalog with them.
create or replace function maintain_history(p_days integer default 3, p_max_deletes integer default 10000)
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
    for ahead in 0..least(p_days, 31) loop
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

alter table queue_config add column key_pending integer check (key_pending between 1 and 100000);
comment on column queue_config.key_pending is
  'So many jobs of one key may wait or run; a statement that would leave more is refused. Null: no limit. Delayed jobs count when they are due.';

-- Refuses what a statement has inserted, where it leaves more jobs of a key than its queue takes. Counts along queue_waiting, to the
-- limit and no further. Not exact: transactions that are under way at the same time don't see each other's jobs. Exact would mean that
-- producers of one key wait for each other's commits.
create function refuse_crowds() returns trigger
  language plpgsql volatile security definer
  set search_path from current
  set jit = off
  set enable_seqscan = off
as $$
declare
  v record;
begin
  for v in
    select c.queue, i.key, c.key_pending
    from (select distinct x.queue, x.key from inserted x where x.run_after is null) i
    join queue_config c on c.queue = i.queue and c.key_pending is not null
  loop
    if (select count(*) from (
          select from queue q
          where q.queue = v.queue and q.key = v.key and q.run_after is null limit v.key_pending + 1) waiting) > v.key_pending then
      raise exception 'queue_key_pending: queue % takes % jobs of one key, and there are so many of %',
          to_json(v.queue), v.key_pending, to_json(v.key)
        using errcode = 'PQ003', hint = 'Enqueue later, or raise key_pending of the queue.';
    end if;
  end loop;
  return null;
end
$$;

-- The trigger is there while some queue has such a limit: else its copy of the inserted rows would cost every enqueue. To make it takes a
-- lock that waits for transactions which have enqueued, while others wait behind it: not for long, and then the setting is refused.
create function watch_crowds() returns trigger
  language plpgsql volatile security definer
  set search_path from current
  set lock_timeout = '3s'
as $$
declare
  v_wanted boolean;
  v_there boolean;
begin
  perform pg_advisory_xact_lock(hashtextextended(current_schema() || ':crowds', 0));
  v_wanted := exists (select from queue_config c where c.key_pending is not null);
  v_there := exists (
    select from pg_trigger t where t.tgrelid = to_regclass(quote_ident(current_schema()) || '.queue') and t.tgname = 'queue_key_pending');
  if v_wanted and not v_there then
    create trigger queue_key_pending after insert on queue
      referencing new table as inserted for each statement execute function refuse_crowds();
  elsif v_there and not v_wanted then
    drop trigger queue_key_pending on queue;
  end if;
  return null;
end
$$;
create trigger queue_config_crowds after insert or update of key_pending or delete on queue_config
  for each statement execute function watch_crowds();
