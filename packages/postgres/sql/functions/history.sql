-- Makes the partitions of today and of the next p_days days (in UTC, 31 at most), and drops partitions whose
-- every row is older than the longest retention. The scheduler calls it, and needs no rights on the tables.
-- One call runs at a time. Outcome: done; locked: another call is under way; waits: a transaction is in the
-- way, and a later call does the rest; large: the default partition exceeds p_default_bytes, so no partition
-- was made.
--
-- Making and dropping a partition take locks that wait for every transaction which has read or written history, while
-- every settlement waits behind them. So lock_timeout is 300 ms. The locks are held until commit. The one on history
-- comes before rows move: a settlement after that would leave one more in the default partition, and the new
-- partition could not be attached. Attaching also reads the whole default partition under a lock that blocks its
-- users: if that is larger than p_default_bytes, this is left to "pgqueue doctor --mend".
--
-- Replica identity full: a publication FOR ALL TABLES refuses deletes from a table that has neither a key nor
-- a replica identity. A full one costs nothing unless rows are decoded.
-- Autovacuum: a day is vacuumed and analysed when it has doubled. By PostgreSQL's defaults it is read again
-- whenever it has grown by a fifth. While an old snapshot is held, it is read whole every time, since no page
-- can be marked as all-visible: 1.4 GB a minute at 30,000 jobs a second.
create function maintain_history(p_days integer default 3, p_default_bytes bigint default 67108864)
  returns table (created integer, dropped integer, outcome text)
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
  v_longest interval := greatest(interval '7 days', (select max(c.retention) from queue_config c));
  v_created integer := 0;
  v_dropped integer := 0;
  v_outcome text := 'done';
  part record;
begin
  if not pg_try_advisory_xact_lock(hashtextextended(current_schema() || ':history', 0)) then
    return query select 0, 0, 'locked';
    return;
  end if;
  begin
    for ahead in 0..least(p_days, 31) loop
      v_name := 'history_' || to_char(v_today + ahead, 'YYYYMMDD');
      -- one that was detached by hand, and still stands there, is attached again
      continue when exists (select from pg_inherits i where i.inhparent = 'history'::regclass
                              and i.inhrelid = to_regclass(quote_ident(current_schema()) || '.' || v_name));
      if pg_relation_size('history_default') > p_default_bytes then
        v_outcome := 'large';
        exit;
      end if;
      -- written out: as text, a time would depend on the session's DateStyle
      v_from := to_char(v_today + ahead, 'YYYY-MM-DD') || ' 00:00:00+00';
      v_to := to_char(v_today + ahead + 1, 'YYYY-MM-DD') || ' 00:00:00+00';
      lock table only history in share row exclusive mode;
      execute format('create table if not exists %I (like history including defaults including constraints)
                      with (autovacuum_vacuum_insert_threshold = 100000, autovacuum_vacuum_insert_scale_factor = 1,
                            autovacuum_analyze_threshold = 10000, autovacuum_analyze_scale_factor = 1)', v_name);
      execute format('alter table %I replica identity full', v_name);
      -- rows in the default partition that belong to the new one move over, or the new one could not be
      -- attached
      execute format('with moved as (delete from history_default where finished >= %L and finished < %L returning *)
                      insert into %I select * from moved', v_from, v_to, v_name);
      execute format('alter table history attach partition %I for values from (%L) to (%L)', v_name, v_from, v_to);
      v_created := v_created + 1;
    end loop;
  exception when lock_not_available then
    v_created := 0;
    v_outcome := 'waits';
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
    v_outcome := 'waits';
  end;
  return query select v_created, v_dropped, v_outcome;
end
$$;

-- Deletes the rows of queues whose retention is shorter than the longest, and rows of the default partition
-- older than the longest, since that partition is never dropped. If all queues have the same retention,
-- dropping days is enough: rows stay up to a day longer.
--
-- Each row is read once: history_trim stores the time as of which retention was kept, so that each call
-- begins where the last one ended. After a change of any retention it begins anew. It works in steps of 20 to
-- 100 ms, a minute of rows at most, until p_max_ms, or half of the session's statement or transaction
-- timeout, have passed. Outcome: done; more: time ran out, or a row is locked; locked: another call is under
-- way.
-- Served by history_finished, one range for each step.
create function trim_history(p_max_ms double precision default 500)
  returns table (deleted bigint, outcome text)
  language plpgsql volatile security definer
  set search_path from current
  set lock_timeout = '300ms'
  set jit = off
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_until timestamptz := v_now + least(
    p_max_ms * interval '1 millisecond', nullif(current_setting('statement_timeout')::interval, '0') / 2,
    nullif(current_setting('transaction_timeout', true)::interval, '0') / 2);
  v_longest double precision := greatest(604800, (select extract(epoch from max(c.retention)) from queue_config c));
  v_shorter double precision[];
  v_settings bigint;
  v_kept timestamptz;
  v_next timestamptz;
  v_step interval := '1 second';
  v_began timestamptz;
  v_kind double precision;
  v_count bigint;
  v_deleted bigint := 0;
  v_outcome text := 'more';
begin
  if not pg_try_advisory_xact_lock(hashtextextended(current_schema() || ':history', 0)) then
    return query select 0::bigint, 'locked';
    return;
  end if;
  v_shorter := array(
    select s.kind from (select extract(epoch from c.retention)::float8 from queue_config c where c.retention is not null union select 604800) s (kind)
    where s.kind < v_longest order by 1);
  select coalesce(hashtextextended(string_agg(c.queue || ' ' || extract(epoch from c.retention), ',' order by c.queue), 0), 0)
  into v_settings from queue_config c where c.retention is not null;
  v_kept := coalesce((select t.kept_at from history_trim t where t.settings = v_settings), '-infinity');
  begin
    loop
      delete from history_default h
      where h.ctid = any (array(select d.ctid from history_default d where d.finished < v_now - v_longest * interval '1 second'
                                order by d.finished limit 1000));
      get diagnostics v_count = row_count;
      v_deleted := v_deleted + v_count;
      exit when v_count = 0 or clock_timestamp() >= v_until;
    end loop;
    while clock_timestamp() < v_until loop
      v_began := clock_timestamp();
      select min(k.kind * interval '1 second' + (
        select h.finished from history h
        where h.finished >= v_kept - k.kind * interval '1 second' and h.finished < v_now - k.kind * interval '1 second'
        order by h.finished limit 1))
      into v_next from unnest(v_shorter) k (kind);
      if v_next is null then
        v_kept := v_now;
        v_outcome := 'done';
        exit;
      end if;
      v_kept := greatest(v_kept, v_next);
      v_next := least(v_kept + v_step, v_now);
      foreach v_kind in array v_shorter loop
        delete from history h
        where h.finished >= v_kept - v_kind * interval '1 second' and h.finished < v_next - v_kind * interval '1 second'
          and coalesce((select extract(epoch from c.retention) from queue_config c where c.queue = h.queue), 604800) = v_kind;
        get diagnostics v_count = row_count;
        v_deleted := v_deleted + v_count;
      end loop;
      v_kept := v_next;
      v_step := case when clock_timestamp() < v_began + interval '20 ms' then least(v_step * 2, interval '1 minute')
                     when clock_timestamp() > v_began + interval '100 ms' then greatest(v_step / 2, interval '10 ms') else v_step end;
    end loop;
  exception when lock_not_available then
    return query select 0::bigint, 'more';
    return;
  end;
  insert into history_trim (settings, kept_at) values (v_settings, v_kept)
  on conflict (only_row) do update set (settings, kept_at) = (excluded.settings, excluded.kept_at);
  return query select v_deleted, v_outcome;
end
$$;

select maintain_history();
