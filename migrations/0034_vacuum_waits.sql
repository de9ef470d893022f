-- pgqueue 0034: behind an old snapshot autovacuum comes when the dead rows have doubled, not every minute.
-- compatible: yes

-- What a snapshot still sees no vacuum may clear away: each pass over QUEUE and WORK_QUEUE reads all of it for nothing, and while it does, half as many jobs
-- are done. After ten minutes at 30,000 jobs a second that was a quarter of the time, and more with each further minute.
create table vacuum_wait (
  relation text not null check (relation in ('queue', 'work_queue')),
  option text not null,
  value text, -- what stood there, and comes back; null: nothing did
  primary key (relation, option)
);

-- The scheduler calls it every 15 seconds. A pass was for nothing where as many were dead after it as make autovacuum come, and a session has held its snapshot
-- since before; what is inserted makes it come, too. It may be put off only right after a pass, as dead rows grow all the time. As soon as that session is gone, the
-- next pass has something to clear. A session that the owner of this schema may not see (it wants pg_read_all_stats) holds nothing back, as far as this is concerned.
-- Returns how many tables changed.
create function pace_vacuum(p_held interval default '1 minute', p_dead bigint default 1000000)
  returns integer
  language plpgsql volatile security definer
  set search_path from current
  set lock_timeout = '50ms' -- a pass that is under way would be cancelled after a second
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_held timestamptz;
  v_changed integer := 0;
  t record;
  o record;
begin
  select min(a.xact_start) into v_held from pg_stat_activity a
  where coalesce(a.backend_xmin, a.backend_xid) is not null and a.usesysid is not null and a.datname = current_database()
    and a.pid <> pg_backend_pid();
  for t in
    select s.relname, s.n_dead_tup as dead, greatest(s.last_vacuum, s.last_autovacuum) as passed, c.reloptions,
           exists (select from vacuum_wait w where w.relation = s.relname) as waits
    from pg_stat_user_tables s join pg_class c on c.oid = s.relid
    where s.relid in ('queue'::regclass, 'work_queue'::regclass)
  loop
    begin
      if t.waits and (v_held is null or v_held >= t.passed) then
        for o in delete from vacuum_wait w where w.relation = t.relname returning w.option, w.value loop
          if o.value is null then
            execute format('alter table %I reset (%I)', t.relname, o.option);
          else
            execute format('alter table %I set (%I = %L)', t.relname, o.option, o.value);
          end if;
        end loop;
      elsif v_held < least(t.passed, v_now - p_held) and t.passed > v_now - interval '1 minute'
          and t.dead >= greatest(p_dead, (select max(r.option_value::bigint) from pg_options_to_table(t.reloptions) r
                                          where r.option_name = 'autovacuum_vacuum_threshold')) then
        insert into vacuum_wait (relation, option, value)
        select t.relname, n.name, (select r.option_value from pg_options_to_table(t.reloptions) r where r.option_name = n.name)
        from unnest(array['autovacuum_vacuum_threshold', 'autovacuum_vacuum_insert_threshold']) as n (name)
        on conflict do nothing;
        execute format('alter table %I set (autovacuum_vacuum_threshold = %L, autovacuum_vacuum_insert_threshold = %L)', t.relname,
          least(2 * t.dead, 2000000000), least(2 * t.dead, 2000000000));
      else
        continue;
      end if;
      v_changed := v_changed + 1;
    exception when lock_not_available then
      null; -- a pass is under way: next time
    end;
  end loop;
  return v_changed;
end
$$;

do $$
declare
  v_grant record;
begin
  for v_grant in
    select a.grantee::regrole as role
    from pg_proc p cross join aclexplode(p.proacl) a
    where p.oid = 'tick_state(boolean, bigint, bigint[])'::regprocedure and a.grantee <> 0 and a.grantee <> p.proowner
  loop
    execute format('grant execute on function pace_vacuum(interval, bigint) to %s', v_grant.role);
  end loop;
end
$$;
