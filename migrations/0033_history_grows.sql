-- pgqueue 0033: a day's history is vacuumed and analysed when it has doubled.
-- compatible: yes

-- By PostgreSQL's defaults a day is read again whenever it has grown by a fifth, each minute where much is done; and behind an old snapshot whole every
-- time, since no page can be marked as visible to all: 1.4 GB a minute after three minutes at 30,000 jobs a second, while settlements wait for the same disk.
-- Its rows are inserted and not changed, so there is nothing to clear away. What little a shorter retention deletes counts as before.
-- As in 0015, with those settings.
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
      execute format('create table %I (like history including defaults including constraints)
                      with (autovacuum_vacuum_insert_threshold = 100000, autovacuum_vacuum_insert_scale_factor = 1,
                            autovacuum_analyze_threshold = 10000, autovacuum_analyze_scale_factor = 1)', v_name);
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

do $$
declare
  v_name text;
begin
  for v_name in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'history'::regclass and c.relname ~ '^history_[0-9]{8}$'
  loop
    execute format('alter table %I set (autovacuum_vacuum_insert_threshold = 100000, autovacuum_vacuum_insert_scale_factor = 1,
                                        autovacuum_analyze_threshold = 10000, autovacuum_analyze_scale_factor = 1)', v_name);
  end loop;
end
$$;
