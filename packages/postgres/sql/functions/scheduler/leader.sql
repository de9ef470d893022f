-- Leadership. Hot functions set jit off: up to PostgreSQL 17 a plan that needs a step which enable_... = off
-- forbids counts as enormously expensive, and would be compiled at every call (a tick of 2,000 jobs took
-- 1,400 ms instead of 60).

-- Notes that a scheduler has reached the server. Each scheduler, leader or not, calls this before the lease
-- that it last read can end. A gap longer than p_gap_ms (one lease), or a clock that jumped ahead by as much,
-- is an outage: nodes get their whole time again to send a heartbeat. If the clock was set back by more than
-- a second, heartbeats in what is now the future would keep a dead node alive until then: they are set to
-- now, of a node whose row is locked by a later call.
create function note_reached(p_gap_ms integer) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  insert into reached as r (since, seen) values (v_now, v_now)
  on conflict (only_row) do update
    set since = case when r.seen is null or v_now between r.seen - interval '1 second' and r.seen + p_gap_ms * interval '1 millisecond'
                     then r.since else v_now end,
        seen = v_now;
  update node n set heartbeat = clock_timestamp()
  where n.id = any (array(
    select l.id from node l where l.heartbeat > clock_timestamp() + interval '1 second' for update skip locked));
end
$$;

-- Names these tables: server, timeline, database, and the table itself. A different name says that the tables
-- were restored from a backup (pg_dump makes other tables, recovery to a point in time another timeline) or
-- moved, or that their standby was promoted.
create function tables_place() returns text
  language sql stable
  set search_path from current
as $$
  select concat_ws('/', (select c.system_identifier from pg_control_system() c), left(pg_walfile_name(pg_current_wal_lsn()), 8),
                   (select d.oid from pg_database d where d.datname = current_database()), 'scheduler_lease'::regclass::oid)
$$;

-- Takes or renews the scheduler's lease. A new leader gets a new epoch, and every write names it.
-- A lease that ends later than twice its length from now was given before the clock was set back: it is over. So is
-- one without an end, which lead() gives to nobody.
-- Its holder still leads if it renews in time; if not, the next leader takes the next epoch, as always.
-- p_pid: the pid, as the driver knows it, of a session that the caller keeps for this alone. While that
-- session lives, the leader counts as alive. Once it is gone, standbys need not wait for the lease's end. At
-- worst this deposes a leader that only lost its connection.
create function lead(p_leader text, p_lease_ms integer, p_pid integer default null)
  returns table (leads boolean, epoch bigint, leader text, expires_in_ms double precision)
  language plpgsql volatile security definer
  set search_path from current
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_gone boolean;
begin
  if p_leader is null or p_lease_ms is null or p_lease_ms < 1 then
    raise exception 'a leader has a name, and its lease a length' using errcode = '22023';
  end if;
  perform note_reached(p_lease_ms);
  -- the row is gone if somebody has emptied all tables
  insert into scheduler_lease (epoch) select 0 where not exists (select from scheduler_lease) on conflict do nothing;
  v_now := clock_timestamp();
  update scheduler_lease l
  set place = tables_place(), placed = case when l.place is null then l.placed else v_now end
  where l.place is distinct from tables_place();
  v_gone := coalesce(leader_gone(), false);
  if v_gone then
    -- again behind the row's lock: a leader that has just reconnected renews the lease and names its new
    -- session in one transaction
    perform from scheduler_lease l for update;
    v_gone := coalesce(leader_gone(), false);
    v_now := clock_timestamp();
  end if;
  update scheduler_lease l
  set epoch = l.epoch + (case when l.leader is not distinct from p_leader and l.expires > v_now then 0 else 1 end),
      leader = p_leader, expires = v_now + p_lease_ms * interval '1 millisecond', lease_ms = p_lease_ms
  where l.leader is not distinct from p_leader or l.expires <= v_now or v_gone
    or l.expires > v_now + l.lease_ms * interval '2 milliseconds' or l.expires = 'infinity';
  perform keep_leader_session(p_leader, p_pid);
  return query
    select l.leader is not distinct from p_leader, l.epoch, l.leader, extract(epoch from l.expires - v_now)::float8 * 1000
    from scheduler_lease l;
end
$$;

-- Notes the session in which the leader renews its lease; does nothing for other callers. Notes none if that
-- session is not the leader's own.
create function keep_leader_session(p_leader text, p_pid integer) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_epoch bigint;
  v_key bigint;
begin
  select l.epoch into v_epoch from scheduler_lease l where l.leader = p_leader;
  if not found then
    return;
  end if;
  v_key := hold_session((select s.key from leader_session s), p_pid);
  if v_key is null then
    delete from leader_session;
    return;
  end if;
  insert into leader_session as s (leader, epoch, key, pid, server)
  values (p_leader, v_epoch, v_key, p_pid, pg_postmaster_start_time())
  on conflict (only_row) do update
    set leader = excluded.leader, epoch = excluded.epoch, key = excluded.key, pid = excluded.pid, server = excluded.server
    where (s.leader, s.epoch, s.key, s.pid, s.server)
          is distinct from (excluded.leader, excluded.epoch, excluded.key, excluded.pid, excluded.server);
end
$$;

-- Tells whether the leader's session has ended before its lease, on a server that did not restart. Null: the
-- session tells nothing, only the end of the lease does. Reads no more than that, and locks nothing: a
-- standby asks several times a second.
create function leader_gone() returns boolean
  language sql stable security definer
  set search_path from current
as $$
  select not exists (select from held_sessions() h where h.key = s.key and h.pid = s.pid)
  from scheduler_lease l join leader_session s on s.leader = l.leader and s.epoch = l.epoch
  where l.expires > clock_timestamp() and s.server = pg_postmaster_start_time()
$$;

-- Tells a standby whether the leader is gone (leader_gone). p_seen: the last answer's seen, null at first. If
-- nothing was enqueued or dispatched since then, the call waits until the leader's session ends, until
-- something is, or for p_wait_ms: so a standby of an idle system asks every few seconds, and hears of the end
-- at once. The wait holds a snapshot, which holds vacuum back, so it ends within a second of new work. A
-- single wait for the lock is shorter than deadlock_timeout, after which the server would log it; all of them
-- take half of statement_timeout at most.
create function watch_leader(p_seen bigint, p_wait_ms integer) returns table (gone boolean, seen bigint)
  language plpgsql volatile security definer
  set search_path from current
as $$
declare
  v_until timestamptz := clock_timestamp() + least(p_wait_ms * interval '1 millisecond',
                                                   nullif(current_setting('statement_timeout')::interval, '0') * 0.5);
  v_wait interval;
  v_seen bigint;
  v_gone boolean;
begin
  loop
    v_seen := (select q.last_value + q.is_called::integer + w.last_value + w.is_called::integer from queue_seq_seq q, work_queue_position_seq w);
    v_gone := leader_gone();
    v_wait := least(v_until - clock_timestamp(), current_setting('deadlock_timeout')::interval * 0.9);
    exit when v_gone is distinct from false or v_seen is distinct from p_seen or v_wait < interval '1 millisecond';
    perform set_config('lock_timeout', ceil(extract(epoch from v_wait) * 1000)::integer::text, true);
    begin
      perform pg_advisory_unlock_shared(s.key) from leader_session s, lateral pg_advisory_lock_shared(s.key);
    exception when lock_not_available then
      null; -- the session is there still
    end;
  end loop;
  return query select v_gone, v_seen;
end
$$;

-- Gives the lease up; a standby that listens takes over at once.
create function resign(p_leader text, p_epoch bigint) returns boolean
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  update scheduler_lease set leader = null, expires = '-infinity' where leader = p_leader and epoch = p_epoch;
  if not found then
    return false;
  end if;
  perform hint('leader');
  return true;
end
$$;

-- Notes the policy of a scheduler that runs, and forgets schedulers that do not any more. p_policy null: this
-- one has stopped. Returns the leader and its policy; no row if nobody leads, or none is noted.
create function note_policy(p_scheduler text, p_policy text, p_parts text) returns table (leader text, policy text)
  language sql volatile security definer
  set search_path from current
as $$
  delete from scheduler_policy p
  where p.scheduler = p_scheduler and p_policy is null or p.seen < clock_timestamp() - interval '1 minute';
  insert into scheduler_policy as p (scheduler, policy, parts, seen)
  select p_scheduler, p_policy, p_parts, clock_timestamp() where p_policy is not null
  on conflict (scheduler) do update set policy = excluded.policy, parts = excluded.parts, seen = excluded.seen;
  select p.scheduler, p.policy from scheduler_policy p join scheduler_lease l on l.leader = p.scheduler and l.expires > clock_timestamp()
$$;

-- Holds the lease row until commit: a standby that takes over waits for this transaction, and sees all of it.
-- A leader whose lease has run out, or whose epoch has passed, gets an error and writes nothing.
create function assert_leader(p_leader text, p_epoch bigint) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  perform assert_read_committed('the leader');
  perform from scheduler_lease l
  where l.leader = p_leader and l.epoch = p_epoch and l.expires > clock_timestamp() for share;
  if not found then
    raise exception 'scheduler % no longer leads in epoch %', p_leader, p_epoch
      using errcode = 'PQ002', hint = 'Another scheduler has taken over; this one goes back to standby.';
  end if;
end
$$;

-- Sets whether ended attempts are recorded from now on. Deletes earlier records, since no scheduler knows
-- their jobs any more.
create function set_feed(p_leader text, p_epoch bigint, p_on boolean) returns void
  language plpgsql volatile security definer
  set search_path from current
as $$
begin
  update scheduler_lease l set feed = p_on
  where l.leader = p_leader and l.epoch = p_epoch and l.expires > clock_timestamp();
  if not found then
    raise exception 'scheduler % no longer leads in epoch %', p_leader, p_epoch using errcode = 'PQ002';
  end if;
  delete from settlement;
end
$$;

-- Tells whether a scheduler leads: for workers and producers, which may not read the lease. Served by the
-- table's one row.
create function has_leader() returns boolean
  language sql stable security definer
  set search_path from current
as $$
  select exists (select from scheduler_lease l where l.leader is not null and l.expires > clock_timestamp())
$$;
